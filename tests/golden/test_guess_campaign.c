/*
 * The likeliest answers with guesses and without, counted: texts of the test data on three models; plain, with an
 * adapter, with a shape, and with both. Every guess that is found is computed (guess_all.c). What excuses a difference:
 * see guess_fixture.h. RUVLLM_SPEC_PROMPTS is how many texts; `make spec-campaign` takes 200.
 *
 *     spec.identical.<model>             answers that are the same, of all
 *     spec.identical.<model>.<variant>   likewise
 *     spec.noise.<model>                 largest difference of a log-probability where the tokens agree
 *     spec.widest_gap.<model>            between the two tokens of a first difference; 0: there is none
 *     spec.differing_tokens.<model>      share of the tokens at which an answer parted from the other
 */
#include "support/guess_fixture.h"
#include "support/serving_bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROMPTS = TEST_SANITIZED(1, 4), N_ANSWER = TEST_SANITIZED(16, 40) };

enum { PIECE = 160, MAX_PROMPTS = 10000 };
enum variant { PLAIN, ADAPTER, SHAPE, BOTH, N_VARIANTS };

static const char *const variant_names[] = {"plain", "adapter", "shape", "both"};
static const char *const text_names[] = {"text/tinystories_val_100k.txt", "text/the-verdict.txt",
                                         "text/wikitext2_24k.txt"};

/* ---- what is asked ------------------------------------------------------------------------------- */

static int count_prompts(void)
{
    const char *wish = getenv("RUVLLM_SPEC_PROMPTS");
    long n = wish ? strtol(wish, NULL, 10) : N_PROMPTS;

    assert_true(n > 0 && n <= MAX_PROMPTS);
    return (int)n;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n';
}

/* The whole words of up to `max` bytes of a text, from another place for each i. */
static size_t cut_piece(const char *text, size_t len, size_t i, size_t max, char *out)
{
    size_t at = i * 7919 % (len - 2 * PIECE), n = max;

    while (!is_space(text[at]) && at + max + 1 < len)
        at++;
    at++;
    while (n > 1 && !is_space(text[at + n]))
        n--;
    memcpy(out, text + at, n);
    out[n] = '\0';
    return n;
}

static bool has_shape(enum variant variant)
{
    return variant == SHAPE || variant == BOTH;
}

/* Every other prompt begins to say it all once more; shapes get an example of what is wanted. */
static void write_prompt(char *out, int i, enum variant variant)
{
    size_t len, n;
    char *text = test_read_file(test_data(text_names[i % 3]), &len);

    assert_true(len > 4 * PIECE);
    n = cut_piece(text, len, (size_t)i, PIECE, out);
    out[n++] = '\n';
    n += cut_piece(text, len, (size_t)(i % 2 ? i + MAX_PROMPTS : i), PIECE / 4, out + n);
    if (has_shape(variant))
        snprintf(
            out + n, BED_MAX_PROMPT - n,
            "\n- Tom ran, and Tom saw a dog.\n- Lily sat.\n[{\"name\":\"Tom\",\"age\":5},{\"name\":\"Lily\",\"age\":"
            "%d}]\n",
            i % 90 + 1);
    free(text);
}

static void give_shape(struct ruvllm_generate_params *params, int i)
{
    if (i % 4 == 0)
        params->json_schema =
            "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\","
            "\"maxLength\":12},\"age\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":99}},\"required\":[\"name\","
            "\"age\"],\"additionalProperties\":false},\"minItems\":4}";
    else if (i % 4 == 1)
        params->grammar = "root ::= line{3,9}\nline ::= \"- \" [A-Za-z ,']{4,40} \".\\n\"";
    else if (i % 4 == 2)
        params->regex = "((Tom|Lily|The (dog|cat)) (ran|sat|saw (Tom|Lily|a dog))[.,!] ){4,12}";
    else
        params->json_object = true;
}

/* ---- the campaign ----------------------------------------------------------------------------------- */

/* Without penalties: log-probabilities are told before them, and would not say how near the choice was. */
static struct guess_tally run_variant(const struct guess_fixture *f, enum variant variant)
{
    struct guess_tally tally = {0};
    int n = count_prompts();

    for (int i = 0; i < n; i++) {
        char text[BED_MAX_PROMPT];
        struct guess_question question = {.text = text,
                                          .adapter =
                                              variant == ADAPTER || variant == BOTH ? GUESS_FIXTURE_ADAPTER : NULL,
                                          .params = bed_greedy(N_ANSWER)};

        question.params.n_logprobs = 8;
        question.params.ignore_eos = true;
        question.params.repetition_penalty = 1;
        if (has_shape(variant))
            give_shape(&question.params, i);
        write_prompt(text, i, variant);
        guess_fixture_ask(f, &question, &tally);
    }
    return tally;
}

static void run_model(const char *name)
{
    struct guess_fixture f;
    struct guess_tally sum = {0};
    char path[96];

    snprintf(path, sizeof(path), "models/%s.gguf", name);
    guess_fixture_open(&f, path, NULL);
    guess_fixture_publish(&f);
    for (enum variant v = PLAIN; v < N_VARIANTS; v++) {
        struct guess_tally t = run_variant(&f, v);

        guess_tally_add(&sum, &t);
        printf("spec.identical.%s.%s=%d of %d\n", name, variant_names[v], t.n_identical, t.n);
        printf("spec.guesses.%s.%s=%lld, %lld right\n", name, variant_names[v], (long long)t.n_guessed,
               (long long)t.n_right);
    }
    printf("spec.identical.%s=%d of %d\n", name, sum.n_identical, sum.n);
    printf("spec.noise.%s=%.2e\n", name, sum.noise);
    printf("spec.widest_gap.%s=%.2e\n", name, sum.widest_gap);
    printf("spec.differing_tokens.%s=%.5f\n", name, (double)(sum.n - sum.n_identical) / (double)sum.n_tokens);
    fflush(stdout);
    guess_tally_check(&sum);
    assert_true(sum.n < 12 || sum.n_guessed > sum.n_right); // the shortest form has few
    guess_fixture_close(&f);
}

static void the_smallest_says_the_same(void **state)
{
    (void)state;
    run_model("stories260K");
}

static void so_does_one_of_fifteen_million(void **state)
{
    (void)state;
    run_model("stories15M-f16");
}

static void so_does_one_that_chats(void **state)
{
    (void)state;
    run_model("minimind2-26m-f16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_says_the_same),
        cmocka_unit_test(so_does_one_of_fifteen_million),
        cmocka_unit_test(so_does_one_that_chats),
    };

    return _cmocka_run_group_tests("guess_campaign", tests, TEST_SANITIZED(1, 3), NULL, NULL);
}
