/*
 * The likeliest answers with guesses and without, counted: texts of the test data on three models; plain, with an
 * adapter, and with a shape. Every guess that is found is computed (guess_all.c).
 *
 * An answer that differs is excused where the two tokens it differs by are closer than twice what steps of more rows do
 * to a log-probability; that noise is measured on all tokens that agree. RUVLLM_SPEC_PROMPTS is how many texts; `make
 * spec-campaign` takes 200.
 *
 *     spec.identical.<model>             answers that are the same, of all
 *     spec.identical.<model>.<variant>   likewise
 *     spec.noise.<model>                 largest difference of a log-probability where the tokens agree
 *     spec.widest_gap.<model>            between the two tokens of a first difference; 0: there is none
 *     spec.differing_tokens.<model>      share of the tokens at which an answer parted from the other
 */
#include "engine/engine.h"
#include "serving_bed.h"
#include "support/adapter_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef RUVLLM_IS_SANITIZED
enum { N_PROMPTS = 1, N_ANSWER = 16 };
#else
enum { N_PROMPTS = 4, N_ANSWER = 40 };
#endif

enum { PIECE = 160, MAX_PROMPTS = 10000 };
enum variant { PLAIN, ADAPTER, SHAPE, N_VARIANTS };

static const char *const variant_names[] = {"plain", "adapter", "shape"};
static const char *const text_names[] = {"text/tinystories_val_100k.txt", "text/the-verdict.txt",
                                         "text/wikitext2_24k.txt"};

struct pair {
    ruvllm_engine *plain, *guessing;
    float penalty; // of repetition; without it some models say the same again and again
};

struct tally {
    int n, n_identical;
    size_t n_tokens;
    double noise, widest_gap;
    int64_t n_guessed, n_right;
};

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

/* Every other prompt begins to say it all once more; shapes get an example of what is wanted. */
static void write_prompt(char *out, int i, enum variant variant)
{
    size_t len, n;
    char *text = test_read_file(test_data(text_names[i % 3]), &len);

    assert_true(len > 4 * PIECE);
    n = cut_piece(text, len, (size_t)i, PIECE, out);
    out[n++] = '\n';
    n += cut_piece(text, len, (size_t)(i % 2 ? i + MAX_PROMPTS : i), PIECE / 4, out + n);
    if (variant == SHAPE)
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

static uint64_t submit(ruvllm_engine *engine, const char *text, const struct ruvllm_generate_params *params,
                       enum variant variant)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request request = bed_request(&input, NULL);
    uint64_t id;

    request.params = params;
    request.adapter = variant == ADAPTER ? "x" : NULL;
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    return id;
}

/* ---- what is counted ------------------------------------------------------------------------------ */

static const struct ruvllm_token_logprob *row_of(const struct ruvllm_response *r, size_t i)
{
    return r->logprobs + i * r->logprobs_per_token;
}

/* How much likelier the one's token is than the other's; the other's own word for its token where the one has none. */
static double find_gap(const struct ruvllm_response *one, const struct ruvllm_response *other, size_t i)
{
    const struct ruvllm_token_logprob *row = row_of(one, i);
    float rival = row_of(other, i)->logprob;

    for (size_t k = 1; k < one->logprobs_per_token; k++)
        if (row[k].token == other->tokens[i])
            rival = row[k].logprob;
    return fabs((double)(row[0].logprob - rival));
}

static void compare(const struct ruvllm_response *one, const struct ruvllm_response *other, struct tally *t)
{
    size_t n = one->n_tokens < other->n_tokens ? one->n_tokens : other->n_tokens, i = 0;

    for (; i < n && one->tokens[i] == other->tokens[i]; i++)
        t->noise = fmax(t->noise, fabs((double)(row_of(one, i)->logprob - row_of(other, i)->logprob)));
    t->n++;
    t->n_tokens += one->n_tokens;
    t->n_guessed += other->drafted_tokens;
    t->n_right += other->accepted_tokens;
    if (i == n && one->n_tokens == other->n_tokens) {
        t->n_identical++;
        return;
    }
    assert_true(i < n); // one that ends where the other goes on chose otherwise
    t->widest_gap = fmax(t->widest_gap, find_gap(one, other, i));
    print_message("prompt %d differs at token %zu by %.2e\n", t->n - 1, i, find_gap(one, other, i));
}

static void add(struct tally *sum, const struct tally *t)
{
    sum->n += t->n;
    sum->n_identical += t->n_identical;
    sum->n_tokens += t->n_tokens;
    sum->n_guessed += t->n_guessed;
    sum->n_right += t->n_right;
    sum->noise = fmax(sum->noise, t->noise);
    sum->widest_gap = fmax(sum->widest_gap, t->widest_gap);
}

/* ---- the campaign ----------------------------------------------------------------------------------- */

static void publish_adapter(ruvllm_engine *engine)
{
    struct adapter_fixture fixture = {.hparams = &engine->model->hparams,
                                      .manifest = &engine->model->manifest,
                                      .strength = 0.02f,
                                      .seed = 5,
                                      .rank = 4};
    struct rv_adapter *adapter = adapter_fixture_new(&fixture);
    int64_t generation;

    assert_ok(rv_engine_adapters_publish(&engine->adapters, "x", -1, adapter, &generation, err));
    rv_adapter_unref(adapter);
}

/* Both engines at once, each with one answer at a time. */
static struct tally run_variant(const struct pair *pair, enum variant variant, int n_prompts)
{
    struct tally t = {0};

    for (int i = 0; i < n_prompts; i++) {
        struct ruvllm_generate_params params = bed_greedy(N_ANSWER);
        struct ruvllm_response *one, *other;
        char text[BED_MAX_PROMPT];
        uint64_t ids[2];

        params.n_logprobs = 8;
        params.ignore_eos = true;
        params.repetition_penalty = pair->penalty;
        if (variant == SHAPE)
            give_shape(&params, i);
        write_prompt(text, i, variant);
        ids[0] = submit(pair->plain, text, &params, variant);
        ids[1] = submit(pair->guessing, text, &params, variant);
        one = bed_drain(pair->plain, ids[0]);
        other = bed_drain(pair->guessing, ids[1]);
        assert_int_equal(one->drafted_tokens, 0);
        compare(one, other, &t);
        ruvllm_response_free(one);
        ruvllm_response_free(other);
    }
    return t;
}

static void run_model(const char *name, float penalty)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    struct pair pair = {.penalty = penalty};
    struct tally sum = {0};
    char path[96];

    snprintf(path, sizeof(path), "models/%s.gguf", name);
    pair.plain = bed_open(path, &wishes);
    wishes.speculate = true;
    pair.guessing = bed_open(path, &wishes);
    publish_adapter(pair.plain);
    publish_adapter(pair.guessing);
    for (enum variant v = PLAIN; v < N_VARIANTS; v++) {
        struct tally t = run_variant(&pair, v, count_prompts());

        add(&sum, &t);
        printf("spec.identical.%s.%s=%d of %d\n", name, variant_names[v], t.n_identical, t.n);
        printf("spec.guesses.%s.%s=%lld, %lld right\n", name, variant_names[v], (long long)t.n_guessed,
               (long long)t.n_right);
    }
    printf("spec.identical.%s=%d of %d\n", name, sum.n_identical, sum.n);
    printf("spec.noise.%s=%.2e\n", name, sum.noise);
    printf("spec.widest_gap.%s=%.2e\n", name, sum.widest_gap);
    printf("spec.differing_tokens.%s=%.5f\n", name, (double)(sum.n - sum.n_identical) / (double)sum.n_tokens);
    fflush(stdout);
    assert_true(sum.n_guessed > 0);
    assert_true(sum.n < 12 || (sum.n_guessed > sum.n_right && sum.n_right > 0)); // the shortest form has few
    assert_true(sum.widest_gap <= 2 * sum.noise);
    assert_true((size_t)(sum.n - sum.n_identical) <= (sum.n_tokens + 499) / 500);
    ruvllm_engine_close(pair.plain);
    ruvllm_engine_close(pair.guessing);
}

static void the_smallest_says_the_same(void **state)
{
    (void)state;
    run_model("stories260K", 1);
}

static void so_does_one_of_fifteen_million(void **state)
{
    (void)state;
    run_model("stories15M-f16", 1);
}

static void so_does_one_that_chats(void **state)
{
    (void)state;
    run_model("minimind2-26m-f16", 1.1f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_says_the_same),
        cmocka_unit_test(so_does_one_of_fifteen_million),
        cmocka_unit_test(so_does_one_that_chats),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
