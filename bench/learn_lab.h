/*
 * A model to experiment on, for the rows of bench_learn: it answers many prompts at once, with adapters and traces, by
 * the decoder that the engine serves with, and votes are weighed and applied by the code that the engine learns with.
 * Everything random comes from one stream, so a seed says it all. What fails ends the program with a sentence.
 */
#ifndef RV_BENCH_LEARN_LAB_H
#define RV_BENCH_LEARN_LAB_H

#include "base/rng.h"
#include "engine/model.h"
#include "kv/kv_seq.h"
#include "learn/head_gradient.h"
#include "learn/tenant_learner.h"

enum { LAB_SEQS = 32, LAB_CONTEXT = 256, LAB_TEXT = 128, LAB_BROKEN = 100 };

struct lab {
    struct ruvllm_model *model;
    size_t n_vocab, n_dims;
    struct rv_head_gradient gradient;
    struct rv_whitening whitening; // of the model's own texts; lab_whiten()
    struct rv_rng rng;
    struct rv_block_pool *pool;
    struct rv_decoder *decoder;
    struct rv_kv_seq seqs[LAB_SEQS];
    float *weights;                // of a draw
    const struct rv_adapter *deep; // beside the adapter of every answer and text; borrowed, NULL: none
};

/* Ends the program with status LAB_BROKEN; `err` may be NULL. */
_Noreturn void lab_die(const char *what, const struct ruvllm_error *err);
/* Ends the program when there is no memory. */
void *lab_need(void *memory);

void lab_open(struct lab *lab, const char *path, uint64_t seed);
/* For who votes: a whitening that is the same for every seed; the random stream stays where it was. */
void lab_whiten(struct lab *lab);
void lab_close(struct lab *lab);

/* ---- answers -------------------------------------------------------------------------------- */

/*
 * One of the answers that are made together. The row hook is called before each draw, with the state the head read and
 * the logits, which it may change.
 */
struct lab_answer {
    int32_t *tokens;                  // the prompt, and room for the answer behind it
    const struct rv_adapter *adapter; // NULL: none
    struct rv_trace *trace;           // is emptied, then filled; NULL: none
};

typedef void (*lab_row_fn)(void *user, int32_t answer, int32_t i, const float *state, float *logits);

/* Goes on from prompts of n_prompt tokens with n more each, at temperature 1; up to LAB_SEQS at once. */
void lab_generate(struct lab *lab, const struct lab_answer *answers, int32_t n_answers, int32_t n_prompt, int32_t n,
                  lab_row_fn on_row, void *user);
/* States and logits of a text of up to LAB_TEXT tokens; row i is what token i + 1 is drawn from. */
void lab_read(struct lab *lab, const struct rv_adapter *adapter, const int32_t *tokens, int32_t n, lab_row_fn on_row,
              void *user);
bool lab_has_word(const struct lab *lab, const int32_t *tokens, size_t n, const char *word);

/* ---- texts ---------------------------------------------------------------------------------- */

/* Texts that the model has written by itself. */
struct lab_texts {
    int32_t n, length;
    int32_t *tokens; // n rows of length
};

struct lab_texts lab_write_texts(struct lab *lab, int32_t n, int32_t length);
void lab_free_texts(struct lab_texts *texts);
/* Mean negative log-likelihood of the tokens from number `from` (1 or more) on. */
double lab_nll(struct lab *lab, const struct rv_adapter *adapter, const int32_t *tokens, int32_t n, int32_t from);
/* Of whole texts. */
double lab_texts_nll(struct lab *lab, const struct rv_adapter *adapter, const struct lab_texts *texts);

/* ---- learning ------------------------------------------------------------------------------- */

struct rv_trace *lab_new_trace(const struct lab *lab, int32_t n);
struct rv_tenant_learner *lab_new_learner(const struct lab *lab, int32_t rank);
void lab_vote(struct rv_tenant_learner *learner, const struct rv_trace *trace, double score);
/* What answers, as requests use it; NULL when nothing was learned. The caller's reference. */
struct rv_adapter *lab_publish(const struct lab *lab, const struct rv_head_adapter *learned);
/* A hash of every bit of it. */
uint64_t lab_hash_adapter(const struct rv_adapter *adapter);

#endif
