#include "learn/first_text.h"

#include "base/alloc.h"
#include "kernels/vec.h"
#include "learn/memory_radius.h"

#include <string.h>

enum { SHARED = 16 }; // tokens at the beginning: stories begin alike, and the same words are the same state

ruvllm_status rv_first_text_init(struct rv_first_text *out, size_t max_rows, int32_t n_dims, struct ruvllm_error *err)
{
    *out = (struct rv_first_text){.n_dims = n_dims, .cap = max_rows};
    out->states = rv_realloc_array(NULL, max_rows * (size_t)n_dims, sizeof(*out->states));
    out->texts = rv_calloc(max_rows, sizeof(*out->texts));
    out->contexts = rv_calloc(max_rows, RV_MEMORY_PAGE_CONTEXT * sizeof(*out->contexts));
    out->tokens = rv_calloc(max_rows, sizeof(*out->tokens));
    out->logprobs = rv_calloc(max_rows, sizeof(*out->logprobs));
    if (out->states && out->texts && out->contexts && out->tokens && out->logprobs)
        return RUVLLM_OK;
    rv_first_text_release(out);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu states of %d numbers", max_rows, (int)n_dims);
}

void rv_first_text_release(struct rv_first_text *text)
{
    rv_free(text->states);
    rv_free(text->texts);
    rv_free(text->contexts);
    rv_free(text->tokens);
    rv_free(text->logprobs);
    *text = (struct rv_first_text){0};
}

void rv_first_text_add(struct rv_first_text *text, const struct rv_trace *trace)
{
    size_t dims = (size_t)text->n_dims;

    for (int32_t i = 0; i < trace->n_rows && text->n < text->cap; i++, text->n++) {
        for (size_t d = 0; d < dims; d++)
            text->states[text->n * dims + d] = rv_vec_from_bf16(trace->states[(size_t)i * dims + d]);
        text->texts[text->n] = i < SHARED ? -1 : text->n_texts;
        rv_trace_context(trace, i, text->contexts + text->n * RV_MEMORY_PAGE_CONTEXT, RV_MEMORY_PAGE_CONTEXT);
        text->tokens[text->n] = trace->tokens[i];
        text->logprobs[text->n] = trace->logprobs[i];
    }
    text->n_texts++;
}

ruvllm_status rv_first_text_measure(const struct rv_first_text *text, struct rv_whitening *out,
                                    struct ruvllm_error *err)
{
    struct rv_memory_radius_rows rows = {.n = text->n,
                                         .states = text->states,
                                         .texts = text->texts,
                                         .contexts = text->contexts,
                                         .tokens = text->tokens,
                                         .logprobs = text->logprobs};
    ruvllm_status rc = rv_whitening_init(out, text->states, text->n, text->n_dims, err);

    if (rc)
        return rc;
    rc = rv_memory_radius_measure(&rows, out, rv_memory_radius_rate, &out->radius, err);
    if (rc)
        rv_whitening_release(out);
    return rc;
}
