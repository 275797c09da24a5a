/*
 * Writes the corpus of fuzz_checkpoint. Run it by hand when the form changes, and commit what it writes:
 *
 *     build/release/tests/fuzz/make_checkpoint_corpus tests/fuzz/corpus/checkpoint
 */
#include "base/alloc.h"
#include "learn/tenant_checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS = 16, RANK = 2 };

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "cannot write '%s'\n", what);
    exit(1);
}

/* Keys of an answer of two tokens. */
static struct rv_memory_page *make_keys(const struct rv_whitening *whitening, int i)
{
    const struct rv_memory_page_choice choice = {.strength = 1, .least = 0, .most = 1, .max_keys = 2};
    struct rv_memory_page *page = NULL;
    struct rv_trace *trace;
    float scratch[DIMS];

    must(!rv_trace_new(&trace, 1, "", DIMS, 2, NULL), "a trace");
    for (int k = 0; k < 2 * DIMS; k++)
        trace->states[k] = trace->gradients[k] = trace->probes[k] = (uint16_t)(0x3F80 + (i * 5 + k) % 32);
    trace->tokens[0] = i;
    trace->tokens[1] = i + 1;
    trace->logprobs[0] = trace->logprobs[1] = -1;
    trace->n_rows = 2;
    must(!rv_memory_page_add(&page, trace, &choice, whitening, scratch, NULL), "keys");
    rv_trace_unref(trace);
    return page;
}

static void vote(struct rv_tenant_learner *learner, int i, bool has_keys)
{
    uint16_t memory[4 * DIMS];
    struct rv_tenant_vote made = {.score = i % 2,
                                  .advantage = 1,
                                  .step = {.n_pairs = 1 + i % 2, .a = memory, .b = memory + 2 * DIMS, .kl = 0.01}};

    for (int k = 0; k < 4 * DIMS; k++)
        memory[k] = (uint16_t)(0x3C00 + (i * 7 + k) % 64);
    made.keys = has_keys ? make_keys(learner->whitening, i) : NULL;
    must(!rv_tenant_learner_apply(learner, &made, NULL), "a vote");
    rv_memory_page_unref(made.keys);
}

/* After so many votes, the last of which remember something, and with `cut` bytes missing. */
static void save(const char *folder, const char *name, const struct rv_whitening *whitening, int n_votes, int n_keys,
                 size_t cut)
{
    struct rv_tenant_learner *learner;
    char path[1024];
    void *bytes;
    size_t len;
    FILE *file;

    must(!rv_tenant_learner_new(&learner, whitening, RANK, NULL), name);
    for (int i = 0; i < n_votes; i++)
        vote(learner, i, i >= n_votes - n_keys);
    must(!rv_tenant_checkpoint_write(learner, &bytes, &len, NULL), name);
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    must(file && fwrite(bytes, 1, len - cut, file) == len - cut && fclose(file) == 0, path);
    rv_free(bytes);
    rv_tenant_learner_free(learner);
}

int main(int argc, char **argv)
{
    struct rv_whitening whitening;
    float states[64 * DIMS];

    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < 64 * DIMS; i++)
        states[i] = (float)((i * 37) % 101) - 50.0f;
    must(!rv_whitening_init(&whitening, states, 64, DIMS, NULL), "the whitening");
    save(argv[1], "one", &whitening, 1, 0, 0);
    save(argv[1], "three", &whitening, 3, 0, 0);
    save(argv[1], "all", &whitening, 40, 3, 0);
    save(argv[1], "memory", &whitening, 2, 2, 0);
    save(argv[1], "cut", &whitening, 3, 1, 5);
    rv_whitening_release(&whitening);
    return 0;
}
