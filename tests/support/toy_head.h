/* A head of a few tokens over random states: what learning at the head can be tried on without a model. */
#ifndef RV_TESTS_SUPPORT_TOY_HEAD_H
#define RV_TESTS_SUPPORT_TOY_HEAD_H

#include "base/rng.h"
#include "learn/anchors.h"
#include "learn/head_adapter.h"
#include "learn/head_table.h"
#include "learn/rehearsal.h"

enum { TOY_DIMS = 24, TOY_VOCAB_MAX = 64, TOY_ANSWER = 16 };

struct toy_head {
    size_t n_vocab;
    float w[TOY_VOCAB_MAX * TOY_DIMS];
    struct rv_gguf_tensor tensor;
    struct rv_manifest manifest;
    struct rv_hparams hparams;
    struct rv_whitening whitening;
    struct rv_anchors anchors; // 1024 of them
    struct rv_head_gradient gradient;
    struct rv_rng rng;
};

void toy_head_open(struct toy_head *out, size_t n_vocab, uint64_t seed);
void toy_head_close(struct toy_head *toy);
/* Logarithms of all tokens' probabilities for a state, under an adapter (NULL: none). */
void toy_head_read(const struct toy_head *toy, const struct rv_head_adapter *adapter, const float *state, double *out);
/* An answer of TOY_ANSWER tokens; a new trace. */
struct rv_trace *toy_head_answer(struct toy_head *toy, const struct rv_head_adapter *adapter);
bool toy_head_has(const struct rv_trace *trace, int32_t token);
/* n answers, good ones being those with the token; held-out ones among them. */
void toy_head_vote(struct toy_head *toy, const struct rv_head_adapter *adapter, int32_t token, int n,
                   struct rv_rehearsal *rehearsal);

#endif
