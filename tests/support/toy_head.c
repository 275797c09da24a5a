#include "support/toy_head.h"

#include "kernels/vec.h"
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_ANCHORS = 1024, N_STATES = 2000 };

static void draw_state(struct toy_head *toy, float *out)
{
    for (int d = 0; d < TOY_DIMS; d++)
        out[d] = rv_vec_from_bf16(rv_vec_to_bf16((float)rv_rng_normal(&toy->rng) * (d < 3 ? 3.0f : 1.0f)));
}

void toy_head_open(struct toy_head *out, size_t n_vocab, uint64_t seed)
{
    float *states = malloc(sizeof(float) * N_STATES * TOY_DIMS);

    *out = (struct toy_head){.n_vocab = n_vocab};
    rv_rng_init(&out->rng, seed);
    for (size_t i = 0; i < n_vocab * TOY_DIMS; i++)
        out->w[i] = 0.5f * (float)rv_rng_normal(&out->rng);
    out->tensor = (struct rv_gguf_tensor){.type = GGML_TYPE_F32, .data = out->w};
    out->manifest.roots[RV_ROOT_EMBEDDING] = &out->tensor;
    out->manifest.tied = true;
    out->hparams.n_embd = TOY_DIMS;
    out->hparams.n_vocab = (int32_t)n_vocab;
    for (int i = 0; i < N_STATES; i++)
        draw_state(out, states + i * TOY_DIMS);
    assert_ok(rv_whitening_init(&out->whitening, states, N_STATES, TOY_DIMS, err));
    free(states);
    assert_ok(rv_head_gradient_init(&out->gradient, &out->manifest, &out->hparams, err));
    assert_ok(rv_anchors_init(&out->anchors, TOY_DIMS, err));
    for (int i = 0; i < N_ANCHORS / TOY_ANSWER; i++) {
        struct rv_trace *trace = toy_head_answer(out, NULL);

        rv_anchors_add(&out->anchors, trace);
        rv_trace_unref(trace);
    }
}

void toy_head_close(struct toy_head *toy)
{
    rv_anchors_release(&toy->anchors);
    rv_head_gradient_release(&toy->gradient);
    rv_whitening_release(&toy->whitening);
}

void toy_head_read(const struct toy_head *toy, const struct rv_head_adapter *adapter, const float *state, double *out)
{
    float change[TOY_DIMS] = {0};
    double sum = 0;

    if (adapter)
        rv_head_adapter_apply(adapter, state, change);
    for (size_t v = 0; v < toy->n_vocab; v++) {
        out[v] = 0;
        for (int d = 0; d < TOY_DIMS; d++)
            out[v] += (double)toy->w[v * TOY_DIMS + (size_t)d] * (double)(state[d] + change[d]);
        sum += exp(out[v]);
    }
    for (size_t v = 0; v < toy->n_vocab; v++)
        out[v] -= log(sum);
}

struct rv_trace *toy_head_answer(struct toy_head *toy, const struct rv_head_adapter *adapter)
{
    struct rv_trace *trace;

    assert_ok(rv_trace_new(&trace, 1, "", TOY_DIMS, TOY_ANSWER, err));
    for (int i = 0; i < TOY_ANSWER; i++) {
        double logprobs[TOY_VOCAB_MAX], mark = rv_rng_uniform(&toy->rng), passed = 0;
        float state[TOY_DIMS], logits[TOY_VOCAB_MAX];
        size_t token;

        draw_state(toy, state);
        toy_head_read(toy, adapter, state, logprobs);
        for (token = 0; token + 1 < toy->n_vocab; token++) {
            passed += exp(logprobs[token]);
            if (passed > mark)
                break;
        }
        for (size_t v = 0; v < toy->n_vocab; v++)
            logits[v] = (float)logprobs[v];
        rv_head_gradient_capture(&toy->gradient, trace, state, logits, 1, (int32_t)token);
    }
    return trace;
}

bool toy_head_has(const struct rv_trace *trace, int32_t token)
{
    for (int32_t i = 0; i < trace->n_rows; i++) {
        if (trace->tokens[i] == token)
            return true;
    }
    return false;
}

void toy_head_vote(struct toy_head *toy, const struct rv_head_adapter *adapter, int32_t token, int n,
                   struct rv_rehearsal *rehearsal)
{
    for (int i = 0; i < n; i++) {
        struct rv_trace *trace = toy_head_answer(toy, adapter);
        bool is_good = toy_head_has(trace, token);

        assert_ok(rv_rehearsal_add(rehearsal, trace, is_good, is_good ? 1 : -1, i + 1, err));
        rv_trace_unref(trace);
    }
}
