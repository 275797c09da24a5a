/* Tokens of lessons as bytes: what is written is read again, and what could not be read is not written. */
#include "learn/lesson_tokens.h"
#include "support/test.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <string.h>

enum { VOCAB = 50, MAX = 6, ROUNDS = 4000 };

static int32_t some_token(struct rv_rng *rng, bool is_wild)
{
    static const int32_t wild[] = {-1, VOCAB, VOCAB + 1, INT32_MAX, INT32_MIN, VOCAB - 1, 0};

    return is_wild ? wild[rv_rng_below(rng, 7)] : (int32_t)rv_rng_below(rng, VOCAB);
}

static void what_can_be_written_can_be_read_and_nothing_else(void **state)
{
    int n_written = 0, n_refused = 0;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 5);
    for (int round = 0; round < ROUNDS; round++) {
        int32_t words[4 + 3 * MAX] = {1}, n[3], *at = words + 4;
        struct rv_lesson_tokens again;
        struct rv_str bytes;
        struct ruvllm_error why = {0};
        ruvllm_status written;

        for (int i = 0; i < 3; i++) {
            n[i] = words[1 + i] = (int32_t)rv_rng_below(&rng, MAX + 1);
            for (int32_t k = 0; k < n[i]; k++)
                *at++ = some_token(&rng, rv_rng_below(&rng, 12) == 0);
        }
        written = rv_lesson_tokens_write(&(struct rv_lesson_tokens){.prompt = words + 4,
                                                                    .n_prompt = n[0],
                                                                    .good = words + 4 + n[0],
                                                                    .n_good = n[1],
                                                                    .bad = words + 4 + n[0] + n[1],
                                                                    .n_bad = n[2]},
                                         VOCAB, &bytes, &why);
        assert_int_equal(written == RUVLLM_OK,
                         rv_lesson_tokens_read(
                             &again,
                             (struct rv_str){.data = (const char *)words, .len = (size_t)(at - words) * sizeof(*words)},
                             VOCAB, NULL) == RUVLLM_OK);
        if (written) {
            assert_true(written == RUVLLM_INVALID && why.message[0] != '\0' && bytes.len == 0 && !again.memory);
            n_refused++;
            continue;
        }
        assert_int_equal(bytes.len, (size_t)(at - words) * sizeof(*words));
        assert_memory_equal(bytes.data, words, bytes.len);
        assert_true(again.n_prompt == n[0] && again.n_good == n[1] && again.n_bad == n[2]);
        rv_free(again.memory);
        rv_free((char *)(uintptr_t)bytes.data);
        n_written++;
    }
    assert_true(n_written > ROUNDS / 8 && n_refused > ROUNDS / 8);
}

static void numbers_that_are_none_are_refused(void **state)
{
    static const int32_t token = 1;
    static const int32_t counts[] = {-1, INT32_MIN, (1 << 20) + 1, INT32_MAX};
    struct ruvllm_error why = {0};
    struct rv_str bytes;

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const struct rv_lesson_tokens tokens = {.prompt = &token, .n_prompt = 1, .good = &token, .n_good = counts[i]};

        assert_fails(rv_lesson_tokens_write(&tokens, VOCAB, &bytes, &why), RUVLLM_INVALID, why, "too many");
        assert_null(bytes.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_can_be_written_can_be_read_and_nothing_else),
        cmocka_unit_test(numbers_that_are_none_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
