/*
 * Masks of counted characters on a vocabulary of 152,000 tokens, against a reader of bytes written down here: every
 * token, at every step of random answers.
 */
#include "base/rng.h"
#include "engine/model.h"
#include "sample/grammar.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>

enum { N_ANSWERS = 6, MAX_STEPS = 60 };

/* least..most characters that are neither '.' nor '"', then '.', then "!" or nothing. */
struct reader {
    int n_chars;
    int n_more;     // bytes of a character that are still to come
    uint8_t lo, hi; // bounds of the next of them
    int ended;      // 1: after the '.', 2: after the '!'
};

static bool read_byte(struct reader *r, uint8_t byte, int least, int most)
{
    if (r->ended) {
        r->ended++;
        return r->ended == 2 && byte == '!';
    }
    if (r->n_more > 0) {
        if (byte < r->lo || byte > r->hi)
            return false;
        r->n_more--;
        r->lo = 0x80;
        r->hi = 0xBF;
        return true;
    }
    if (byte == '.') {
        r->ended = 1;
        return r->n_chars >= least;
    }
    if (byte == '"' || r->n_chars == most || (byte >= 0x80 && byte < 0xC2) || byte > 0xF4)
        return false;
    r->n_chars++;
    r->n_more = byte < 0x80 ? 0 : byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    r->lo = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
    r->hi = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
    return true;
}

static bool read_token(struct reader *r, const struct rv_token_trie *trie, int32_t token, int least, int most)
{
    uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];
    size_t len = rv_token_trie_bytes(trie, token, bytes);

    for (size_t i = 0; i < len; i++)
        if (!read_byte(r, bytes[i], least, most))
            return false;
    return len > 0;
}

static bool is_allowed(struct reader r, const struct rv_token_trie *trie, int32_t token, int least, int most)
{
    if (rv_vocab_is_eog(trie->vocab, token))
        return r.ended > 0;
    return read_token(&r, trie, token, least, most);
}

static int32_t pick(const uint64_t *bits, size_t n, struct rv_rng *rng)
{
    int32_t token;

    do
        token = (int32_t)rv_rng_below(rng, (uint32_t)n);
    while (!(bits[token / 64] >> (token % 64) & 1));
    return token;
}

static void follow(struct rv_grammar *g, const struct rv_token_trie *trie, int least, int most, struct rv_rng *rng)
{
    struct rv_grammar_matcher *m;
    struct reader r = {0};

    assert_ok(rv_grammar_matcher_new(&m, g, err));
    for (int step = 0; step < MAX_STEPS; step++) {
        const uint64_t *bits;
        int32_t token;

        assert_ok(rv_grammar_matcher_mask(m, &bits, err));
        for (int32_t i = 0; i < (int32_t)trie->n_tokens; i++)
            if ((bits[i / 64] >> (i % 64) & 1) != is_allowed(r, trie, i, least, most))
                fail_msg("{%d,%d} after %d characters, %d bytes to come: token %d", least, most, r.n_chars, r.n_more,
                         (int)i);
        token = pick(bits, trie->n_tokens, rng);
        if (rv_vocab_is_eog(trie->vocab, token))
            break;
        assert_ok(rv_grammar_matcher_accept(m, token, err));
        assert_true(read_token(&r, trie, token, least, most));
    }
    rv_grammar_matcher_free(m);
}

static void masks_of_counts_are_what_reading_bytes_says(void **state)
{
    static const int counts[][2] = {{0, 40}, {12, 60}, {8, 8}, {150, 300}};
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct rv_token_trie *trie;
    ruvllm_model *model;
    struct rv_rng rng;

    (void)state;
    test_need_file(test_model("qwen2.5-0.5b-q8_0.gguf"));
    params.vocab_only = true;
    assert_ok(ruvllm_model_open(&model, test_model("qwen2.5-0.5b-q8_0.gguf"), &params, err));
    assert_ok(rv_token_trie_new(&trie, model->vocab, err));
    assert_true(trie->n_tokens > 150000);
    rv_rng_init(&rng, 5);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct rv_grammar_source source = {.kind = RV_GRAMMAR_REGEX};
        struct rv_grammar *g;
        char text[64];

        snprintf(text, sizeof(text), "[^.\"]{%d,%d}\\.!?", counts[i][0], counts[i][1]);
        source.text = text;
        source.len = strlen(text);
        assert_ok(rv_grammar_new(&g, &source, trie, err));
        for (int k = 0; k < N_ANSWERS; k++)
            follow(g, trie, counts[i][0], counts[i][1], &rng);
        rv_grammar_unref(g);
    }
    rv_token_trie_free(trie);
    ruvllm_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks_of_counts_are_what_reading_bytes_says)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
