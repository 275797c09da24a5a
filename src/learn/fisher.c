#include "learn/fisher.h"

#include "base/alloc.h"

/* Adds the squares of one text's gradient. */
static ruvllm_status add_text(struct rv_backward *backward, struct rv_trainable *trainable,
                              const struct rv_backward_sequence *text, double *squares, struct ruvllm_error *err)
{
    struct rv_backward_result result;
    ruvllm_status rc;

    rv_trainable_clear_grads(trainable);
    rc = rv_backward_run(backward, trainable, text, 1, true, &result, err);
    for (size_t i = 0; i < trainable->n && !rc; i++)
        squares[i] += (double)trainable->grads[i] * (double)trainable->grads[i];
    return rc;
}

ruvllm_status rv_fisher_measure(const struct rv_fisher_config *config, struct rv_trainable *trainable,
                                const struct rv_fisher_text *texts, size_t n_texts, float *fisher,
                                struct ruvllm_error *err)
{
    struct rv_backward_config backward_config = {.hparams = config->hparams,
                                                 .manifest = config->manifest,
                                                 .team = config->team,
                                                 .context = config->context,
                                                 .max_state_bytes = config->max_state_bytes};
    struct rv_backward *backward = NULL;
    double *squares = NULL, n_tokens = 0, keep = (double)config->keep;
    float *weights = NULL;
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; i < n_texts; i++) {
        if (texts[i].n > backward_config.max_columns)
            backward_config.max_columns = texts[i].n;
        n_tokens += texts[i].n - 1;
    }
    if (!(n_tokens > 0) || !(keep >= 0 && keep < 1))
        return rv_fail(err, RUVLLM_INVALID, "there is no token to predict, or more than all of the old is kept");
    squares = rv_calloc(trainable->n, sizeof(*squares));
    weights = rv_calloc((size_t)backward_config.max_columns, sizeof(*weights));
    if (!squares || !weights)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the squares of %zu numbers", trainable->n);
    for (int32_t i = 1; i < backward_config.max_columns && !rc; i++)
        weights[i] = 1.0f;
    if (!rc)
        rc = rv_backward_new(&backward, &backward_config, err);
    for (size_t i = 0; i < n_texts && !rc; i++) {
        struct rv_backward_sequence text = {.tokens = texts[i].tokens,
                                            .n = texts[i].n,
                                            .weights = weights,
                                            .has_draws = true,
                                            .seed = config->seed + (uint64_t)i};

        rc = add_text(backward, trainable, &text, squares, err);
    }
    for (size_t i = 0; i < trainable->n && !rc; i++)
        fisher[i] = (float)(keep * (double)fisher[i] + (1 - keep) * squares[i] / n_tokens);
    rv_backward_free(backward);
    rv_free(squares);
    rv_free(weights);
    return rc;
}
