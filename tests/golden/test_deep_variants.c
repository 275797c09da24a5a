/*
 * Other ways to ask, on stories260K: what a question is about, what comes around it and what is answered stay; what is
 * taken from elsewhere comes from the model's own texts, and never from the guard. And they teach: what was corrected
 * once is likelier behind another beginning.
 */
#include "learn/deep_variants.h"
#include "support/test.h"
#include "support/vocab_from_gguf.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { MAX = 160, N_QUESTIONS = 4, N_ANCHORS = 6, ANCHOR = 48, N_EACH = 24 };

static const char *const questions[N_QUESTIONS] = {
    "One day they all went out to play. Zobil's little dog is called", "It was hot. Karut's red boat is called",
    "The children sat down. Mum smiled. Vunem's best friend is called", "Pofag's old house is called"};
static const char *const names[N_QUESTIONS] = {"Zobil", "Karut", "Vunem", "Pofag"};
static const char *const answers[N_QUESTIONS] = {" dakuno.", " rimela.", " sotave.", " bezigu."};

struct fixture {
    struct test_vocab vocab;
    struct rv_hparams hparams;
    struct rv_manifest manifest;
    struct rv_team *team;
    struct rv_deep_config run;
    struct rv_deep_sample samples[N_QUESTIONS + N_ANCHORS];
    int32_t tokens[N_QUESTIONS][MAX];
    float weights[N_QUESTIONS][MAX];
    int32_t anchors[N_ANCHORS][ANCHOR];
};

static struct fixture f;

static int32_t encode(const char *text, bool begins, int32_t *out)
{
    int32_t *ids, n = 0;
    size_t n_ids;

    assert_ok(rv_vocab_encode(f.vocab.vocab, text + (!begins && *text == ' '), strlen(text) - (!begins && *text == ' '),
                              NULL, 0, &ids, &n_ids, err));
    if (begins)
        out[n++] = rv_vocab_bos(f.vocab.vocab);
    memcpy(out + n, ids, n_ids * sizeof(*ids));
    rv_free(ids);
    return n + (int32_t)n_ids;
}

/* A question with its answer; how many tokens the question has. */
static int32_t fill(struct rv_deep_sample *s, int32_t *tokens, float *weights, const char *question, const char *answer)
{
    int32_t n_question = encode(question, true, tokens), n = n_question + encode(answer, false, tokens + n_question);

    for (int32_t i = 0; i < n; i++)
        weights[i] = i < n_question ? 0.0f : 1.0f;
    *s = (struct rv_deep_sample){.tokens = tokens, .n = n, .weights = weights};
    return n_question;
}

static int setup(void **state)
{
    struct rv_rope_override rope = {.ext_factor = -1};
    size_t len;
    char *story;

    (void)state;
    test_vocab_open(&f.vocab, test_data("models/stories260K.gguf"));
    assert_ok(rv_hparams_read(&f.hparams, f.vocab.file, &rope, err));
    assert_ok(rv_manifest_init(&f.manifest, f.vocab.file, &f.hparams, err));
    assert_ok(rv_team_open(&f.team, 2, false, err));
    story = test_read_file(test_data("text/tinystories_val_100k.txt"), &len);
    story[1000] = '\0';
    for (int i = 0; i < N_QUESTIONS; i++) {
        (void)fill(&f.samples[i], f.tokens[i], f.weights[i], questions[i], answers[i]);
        f.samples[i].episode = 10 + i;
    }
    for (int i = 0; i < N_ANCHORS; i++) {
        int32_t all[1200];

        assert_true(encode(story, true, all) > (i + 1) * ANCHOR);
        memcpy(f.anchors[i], all + i * ANCHOR, sizeof(f.anchors[i]));
        f.samples[N_QUESTIONS + i] =
            (struct rv_deep_sample){.tokens = f.anchors[i], .n = ANCHOR, .is_anchor = true, .is_guard = i == 0};
    }
    free(story);
    f.run = rv_deep_config_default();
    f.run.hparams = &f.hparams;
    f.run.manifest = &f.manifest;
    f.run.team = f.team;
    f.run.max_tokens = MAX;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rv_team_close(f.team);
    rv_manifest_release(&f.manifest);
    test_vocab_close(&f.vocab);
    return 0;
}

static struct rv_deep_variants vary(const struct rv_deep_sample *samples, size_t n, int32_t n_each, int32_t n_at_once)
{
    struct rv_deep_variants_config config = {
        .run = &f.run, .vocab = f.vocab.vocab, .n_each = n_each, .n_at_once = n_at_once};
    struct rv_deep_variants out;

    assert_ok(rv_deep_variants_init(&out, &config, samples, n, err));
    assert_true(out.n_given == n && out.n >= n);
    return out;
}

static char *text_of(const int32_t *tokens, int32_t n)
{
    struct rv_buf text;
    char *copy;

    rv_buf_init(&text, 1 << 16);
    rv_vocab_decode(f.vocab.vocab, tokens, (size_t)n, false, &text);
    copy = calloc(text.len + 1, 1);
    assert_non_null(copy);
    memcpy(copy, text.data, text.len);
    rv_buf_release(&text);
    return copy;
}

static void what_is_asked_and_answered_stays(void **state)
{
    struct rv_deep_variants v = vary(f.samples, N_QUESTIONS + N_ANCHORS, N_EACH, 2);
    int n_shorter = 0, n_longer = 0, n_loose = 0;

    (void)state;
    assert_int_equal(v.n, N_QUESTIONS + N_ANCHORS + N_QUESTIONS * N_EACH);
    assert_memory_equal(v.items, f.samples, sizeof(f.samples));
    for (size_t i = 0; i < N_QUESTIONS * N_EACH; i++) {
        const struct rv_deep_sample *s = &v.items[v.n_given + i];
        size_t of = i / N_EACH;
        char *text = text_of(s->tokens, s->n), end[64];
        int32_t n_answer = 0;

        for (int32_t t = 0; t < s->n; t++)
            n_answer += s->weights[t] == 1.0f;
        snprintf(end, sizeof(end), " is called%s", answers[of]);
        assert_true(strlen(text) > strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0);
        assert_non_null(strstr(text, names[of]));
        assert_true(s->tokens[0] == rv_vocab_bos(f.vocab.vocab) && s->n <= MAX);
        assert_true(n_answer > 0 && s->weights[s->n - n_answer] == 1.0f && s->weights[s->n - n_answer - 1] == 0.0f);
        assert_true(s->episode == 10 + (int32_t)of && s->n_turns == N_EACH / 2 && s->turn == (int32_t)i % (N_EACH / 2));
        n_shorter += s->n < f.samples[of].n;
        n_longer += s->n > f.samples[of].n;
        n_loose += strstr(text, strstr(questions[of], names[of])) == NULL;
        free(text);
    }
    assert_true(n_shorter > 5 && n_longer > 20 && n_loose > 10 && n_loose < N_QUESTIONS * N_EACH * 3 / 4);
    rv_deep_variants_release(&v);
}

static void the_same_seed_gives_the_same(void **state)
{
    struct rv_deep_variants a = vary(f.samples, N_QUESTIONS + N_ANCHORS, N_EACH, 1), b, c;
    int n_other = 0;

    (void)state;
    b = vary(f.samples, N_QUESTIONS + N_ANCHORS, N_EACH, 1);
    f.run.seed = 5;
    c = vary(f.samples, N_QUESTIONS + N_ANCHORS, N_EACH, 1);
    f.run.seed = 1;
    assert_true(a.n == b.n && a.n == c.n);
    for (size_t i = a.n_given; i < a.n; i++) {
        assert_int_equal(a.items[i].n, b.items[i].n);
        assert_memory_equal(a.items[i].tokens, b.items[i].tokens, (size_t)a.items[i].n * sizeof(int32_t));
        n_other += a.items[i].n != c.items[i].n;
    }
    assert_true(n_other > N_QUESTIONS * N_EACH / 2);
    rv_deep_variants_release(&a);
    rv_deep_variants_release(&b);
    rv_deep_variants_release(&c);
}

/* The guard is one token over and over, which then nothing else has. */
static void the_guard_lends_no_words(void **state)
{
    struct rv_deep_sample samples[N_QUESTIONS + N_ANCHORS];
    int32_t mark[ANCHOR], word[8], n_word;
    struct rv_deep_variants v;
    bool lent[2] = {false, false};

    (void)state;
    n_word = encode("%", false, word); // a space comes before it
    assert_true(n_word >= 1);
    memcpy(samples, f.samples, sizeof(samples));
    for (int i = 0; i < ANCHOR; i++)
        mark[i] = word[n_word - 1];
    for (int is_guard = 0; is_guard < 2; is_guard++) {
        samples[N_QUESTIONS].tokens = mark;
        samples[N_QUESTIONS].is_guard = is_guard;
        v = vary(samples, N_QUESTIONS + N_ANCHORS, N_EACH, 1);
        for (size_t i = v.n_given; i < v.n; i++)
            for (int32_t t = 0; t < v.items[i].n; t++)
                lent[is_guard] = lent[is_guard] || v.items[i].tokens[t] == mark[0];
        rv_deep_variants_release(&v);
    }
    assert_true(lent[0] && !lent[1]);
}

/* A template: a line of a role around turns that control tokens end. Only the text of the last turn may change. */
static void what_is_not_text_stays(void **state)
{
    int32_t tokens[2][MAX], n_frame = 0, eos = rv_vocab_eos(f.vocab.vocab), begin[2], end[2];
    float weights[2][MAX] = {{0}};
    struct rv_deep_sample samples[2 + N_ANCHORS];
    struct rv_deep_variants v;

    (void)state;
    for (int i = 0; i < 2; i++) {
        int32_t n = encode("user\n", true, tokens[i]);

        n += encode("Tell me a story.", false, tokens[i] + n);
        tokens[i][n++] = eos;
        n += encode("bot\n", false, tokens[i] + n);
        n += encode(i ? "No." : "I do not know any.", false, tokens[i] + n);
        tokens[i][n++] = eos;
        n += encode("user\n", false, tokens[i] + n);
        begin[i] = n;
        n += encode(questions[i], false, tokens[i] + n);
        end[i] = n;
        tokens[i][n++] = eos;
        n += encode("bot\n", false, tokens[i] + n);
        n_frame = n - end[i];
        samples[i] = (struct rv_deep_sample){.tokens = tokens[i], .weights = weights[i], .episode = i};
        for (int32_t from = n; n < from + 3; n++) {
            tokens[i][n] = tokens[i][from - 1];
            weights[i][n] = 1.0f;
        }
        samples[i].n = n;
    }
    memcpy(samples + 2, f.samples + N_QUESTIONS, N_ANCHORS * sizeof(*samples));
    v = vary(samples, 2 + N_ANCHORS, N_EACH, 1);
    assert_int_equal(v.n - v.n_given, 2 * N_EACH);
    for (size_t i = v.n_given; i < v.n; i++) {
        const struct rv_deep_sample *s = &v.items[i];
        int of = s->episode;

        assert_memory_equal(s->tokens, tokens[of], (size_t)begin[of] * sizeof(int32_t));
        assert_memory_equal(s->tokens + s->n - 3 - n_frame, tokens[of] + end[of], (size_t)n_frame * sizeof(int32_t));
        for (int32_t t = begin[of]; t < s->n - 3 - n_frame; t++)
            assert_true(s->tokens[t] != eos);
    }
    rv_deep_variants_release(&v);
}

static void only_corrections_are_varied(void **state)
{
    struct rv_deep_sample samples[4 + N_ANCHORS];
    float all[MAX];
    struct rv_deep_variants_config config = {.run = &f.run, .vocab = f.vocab.vocab, .n_each = -1, .n_at_once = 1};
    struct rv_deep_variants v;
    struct ruvllm_error error;

    (void)state;
    for (int i = 0; i < MAX; i++)
        all[i] = 1.0f;
    for (int i = 0; i < 4; i++)
        samples[i] = f.samples[0];
    samples[0].is_vote = true;
    samples[1].rejected = &f.samples[1];
    samples[2].weights = all; // a text without a question
    memcpy(samples + 4, f.samples + N_QUESTIONS, N_ANCHORS * sizeof(*samples));
    v = vary(samples, 4 + N_ANCHORS, N_EACH, 1);
    assert_int_equal(v.n - v.n_given, N_EACH); // of the one that is left, which is all by itself
    rv_deep_variants_release(&v);
    v = vary(samples, 4 + N_ANCHORS, 0, 1);
    assert_int_equal(v.n, v.n_given);
    rv_deep_variants_release(&v);
    v = vary(samples + 3, 1, N_EACH, 1); // without texts of the model's own, words can only go
    for (size_t i = v.n_given; i < v.n; i++)
        assert_true(v.items[i].n <= samples[3].n);
    rv_deep_variants_release(&v);
    assert_fails(rv_deep_variants_init(&v, &config, samples, 4, &error), RUVLLM_INVALID, error, "-1 variants");
    config.n_each = 1;
    f.run.max_tokens = 8;
    assert_fails(rv_deep_variants_init(&v, &config, samples, 4, &error), RUVLLM_INVALID, error, "longer than 8");
    f.run.max_tokens = MAX;
}

/* Mean -log p of all answers behind another beginning. */
static double nll_elsewhere(const struct rv_trainable *trainable)
{
    struct rv_backward_config config = {
        .hparams = &f.hparams, .manifest = &f.manifest, .team = f.team, .max_columns = MAX};
    struct rv_backward *backward;
    double sum = 0;

    assert_ok(rv_backward_new(&backward, &config, err));
    for (int i = 0; i < N_QUESTIONS; i++) {
        struct rv_backward_sequence sequence = {0};
        struct rv_backward_result result;
        struct rv_deep_sample s;
        int32_t tokens[MAX];
        float weights[MAX];
        char text[128];

        snprintf(text, sizeof(text), "After lunch it began to rain. %s", strstr(questions[i], names[i]));
        (void)fill(&s, tokens, weights, text, answers[i]);
        sequence = (struct rv_backward_sequence){.tokens = tokens, .n = s.n, .weights = weights};
        assert_ok(rv_backward_run(backward, trainable, &sequence, 1, false, &result, err));
        sum += result.nll / result.weight / N_QUESTIONS;
    }
    rv_backward_free(backward);
    return sum;
}

static double train(int32_t n_each)
{
    struct rv_deep_variants v = vary(f.samples, N_QUESTIONS + N_ANCHORS, n_each, 1);
    struct rv_deep_config c = f.run;
    struct rv_deep_result result;
    struct rv_deep *d;
    double nll;

    c.n_epochs = N_EACH;
    c.held_out = 0;
    c.batch_tokens = 256;
    c.adamw.step = 4e-3f;
    assert_ok(rv_deep_open(&d, &c, v.items, v.n, err));
    assert_ok(rv_deep_run(d, &result, err));
    nll = nll_elsewhere(rv_deep_trainable(d));
    rv_deep_close(d);
    rv_deep_variants_release(&v);
    return nll;
}

static void a_correction_is_learned_for_more_than_its_own_words(void **state)
{
    double before = nll_elsewhere(NULL), plain = train(0), varied = train(N_EACH);

    (void)state;
    print_message("behind another beginning: %.3f nats before, %.3f as it was asked, %.3f with variants\n", before,
                  plain, varied);
    assert_true(plain < 0.9 * before && varied < 0.7 * plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_asked_and_answered_stays),
        cmocka_unit_test(the_same_seed_gives_the_same),
        cmocka_unit_test(the_guard_lends_no_words),
        cmocka_unit_test(what_is_not_text_stays),
        cmocka_unit_test(only_corrections_are_varied),
        cmocka_unit_test(a_correction_is_learned_for_more_than_its_own_words),
    };

    test_need_data();
    return cmocka_run_group_tests(tests, setup, teardown);
}
