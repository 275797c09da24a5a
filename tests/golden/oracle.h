/*
 * libllama as the judge: logits of token sequences, one fresh sequence at a time, f16 cache, flash attention as it
 * chooses.
 */
#ifndef RV_TESTS_GOLDEN_ORACLE_H
#define RV_TESTS_GOLDEN_ORACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct oracle;

/* What libllama is told about rope over the file's word. */
struct oracle_rope {
    enum { ORACLE_ROPE_FROM_MODEL, ORACLE_ROPE_NONE, ORACLE_ROPE_LINEAR, ORACLE_ROPE_YARN } scaling;
    float freq_scale; // 0: the file's, here and below
    float freq_base;
    float beta_fast;
    float beta_slow;
    uint32_t original_context;
};

struct oracle_params {
    int32_t n_ctx;
    int32_t n_threads;
    bool no_repack;                 // weights stay laid out as in the file
    const struct oracle_rope *rope; // may be NULL
};

/* Fails the running case when the model cannot be loaded. */
struct oracle *oracle_open(const char *path, const struct oracle_params *params);
void oracle_close(struct oracle *oracle);
/* From now on with a LoRA file at full strength. False when libllama does not take it. */
bool oracle_use_lora(struct oracle *oracle, const char *path);

int32_t oracle_n_vocab(const struct oracle *oracle);
/* -1 when the model has none. */
int32_t oracle_bos(const struct oracle *oracle);
bool oracle_is_end(const struct oracle *oracle, int32_t token);
/* Ids of `text`, BOS if the model wants it; special tokens spelled in it count. At most `cap`; the number. */
size_t oracle_tokenize(const struct oracle *oracle, const char *text, size_t len, int32_t *out, size_t cap);

/*
 * Begins a sequence with `tokens` and gives the logits of positions `first`..n-1, n_vocab floats each. `n_batch`
 * tokens are computed at once: 512 as llama.cpp does by default, 1 as it decodes.
 */
void oracle_forward(struct oracle *oracle, const int32_t *tokens, size_t n, size_t first, size_t n_batch,
                    float *logits);
/* Appends one token to the sequence and gives its logits, valid until the next call. */
const float *oracle_decode(struct oracle *oracle, int32_t token);

#endif
