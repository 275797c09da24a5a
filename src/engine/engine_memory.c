#include "engine/engine_memory.h"

#include "base/alloc.h"
#include "learn/memory.h"

#include <string.h>

ruvllm_status rv_engine_memory_init(struct rv_engine_memory *out, size_t n_dims, size_t n_vocab,
                                    struct ruvllm_error *err)
{
    out->state = rv_realloc_array(NULL, n_dims, sizeof(*out->state));
    out->logits = rv_realloc_array(NULL, n_vocab, sizeof(*out->logits));
    if (out->state && out->logits)
        return RUVLLM_OK;
    rv_engine_memory_release(out);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a row of %zu logits", n_vocab);
}

void rv_engine_memory_release(struct rv_engine_memory *memory)
{
    rv_free(memory->state);
    rv_free(memory->logits);
    *memory = (struct rv_engine_memory){0};
}

const float *rv_engine_memory_mix(struct rv_engine_memory *memory, const struct rv_job *job, const float *state,
                                  float *row, size_t n_vocab)
{
    const struct rv_request *r = &job->request;
    struct rv_memory_answer answer;

    if (!rv_memory_ask(job->memory, r->tokens, r->n_tokens, state, memory->state, &answer))
        return row;
    memcpy(memory->logits, row, n_vocab * sizeof(*row));
    rv_memory_mix(&answer, row, n_vocab);
    return memory->logits;
}
