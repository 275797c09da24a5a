/* The bytes that an event of the log keeps of a lesson: keys and tokens out of anything, or a sentence why not. */
#include "fuzz_target.h"

#include "base/alloc.h"
#include "learn/lesson_tokens.h"
#include "learn/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DIMS = 4, VOCAB = 64 };

static void give_up(const char *what)
{
    (void)fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

/* What was read can be asked, and mixed into a row. */
static void use(struct rv_memory_page *page)
{
    uint16_t halves[DIMS] = {0x3f80, 0, 0, 0}; // the direction again
    float direction[DIMS] = {1, 0, 0, 0}, square = 1, variance = 2, state[DIMS] = {1, 0, -1, 2}, scratch[DIMS],
          logits[VOCAB] = {0};
    struct rv_whitening whitening = {.n_dims = DIMS,
                                     .n_directions = 1,
                                     .directions = direction,
                                     .halves = halves,
                                     .squares = &square,
                                     .variances = &variance,
                                     .rest = 1,
                                     .ridge = 0.02f,
                                     .radius = 8};
    struct rv_memory_answer answer;
    struct rv_memory *memory, *again;

    if (rv_memory_extend(&memory, NULL, page, &whitening, NULL))
        return;
    if (rv_memory_extend(&again, memory, page, &whitening, NULL) == RUVLLM_OK) {
        for (int32_t i = 0; i < page->n_keys; i++) {
            if (rv_memory_ask(again, page->keys[i].context, 1, state, scratch, &answer))
                rv_memory_mix(&answer, logits, VOCAB);
        }
        rv_memory_unref(again);
    }
    for (int i = 0; i < VOCAB; i++) {
        if (!isfinite(logits[i]))
            give_up("mixed rows are numbers");
    }
    rv_memory_unref(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rv_str bytes = {.data = (const char *)data + 1, .len = size ? size - 1 : 0};
    struct ruvllm_error err = {0};
    struct rv_lesson_tokens tokens;
    struct rv_memory_page *page;
    int64_t sum = 0;

    if (size == 0)
        return 0;
    if (data[0] & 1) {
        if (rv_memory_page_read(&page, DIMS, bytes, &err) == RUVLLM_OK) {
            if (page)
                use(page);
            rv_memory_page_unref(page);
            return 0;
        }
    } else if (rv_lesson_tokens_read(&tokens, bytes, VOCAB, &err) == RUVLLM_OK) {
        for (int32_t i = 0; i < tokens.n_prompt + tokens.n_good + tokens.n_bad; i++)
            sum += tokens.prompt[i];
        rv_free(tokens.memory);
        return sum < 0; // never: tokens are not below 0
    }
    if (err.message[0] == '\0')
        give_up("failures say why");
    return 0;
}
