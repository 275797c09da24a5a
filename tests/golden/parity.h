/*
 * Our engine beside libllama: the same tokens through both, in one process, on one ggml. What is measured is
 * returned; what is acceptable is for the suites to say.
 */
#ifndef RV_TESTS_GOLDEN_PARITY_H
#define RV_TESTS_GOLDEN_PARITY_H

#include "golden/divergence.h"
#include "golden/oracle.h"
#include "support/test.h"

enum { PARITY_ANSWER_MAX = 256 };

struct parity {
    struct oracle *oracle;
    ruvllm_model *model;
    int32_t n_ctx;
    size_t n_vocab;
    float *theirs; // n_ctx rows
    float *ours;
};

/*
 * Opens `oracle_path` with libllama and `our_path` with us, for sequences of up to n_ctx tokens, both with ggml's
 * attention: then all that is compared is our graph. Fails the case.
 */
void parity_open(struct parity *parity, const char *oracle_path, const char *our_path, int32_t n_ctx);
/* The same for one file with our own attention, which rounds otherwise. */
void parity_open_own(struct parity *parity, const char *path, int32_t n_ctx);
/* The same for one file, with words about rope over the file's own: `theirs` and `ours` should mean the same. */
void parity_open_rope(struct parity *parity, const char *path, int32_t n_ctx, const struct oracle_rope *theirs,
                      const struct ruvllm_model_params *ours);
void parity_close(struct parity *parity);

/* Adds the divergence of all positions of one sequence to `sum`. */
void parity_forward(struct parity *parity, const int32_t *tokens, size_t n, struct divergence *sum);

struct parity_noise {
    double gap; // largest change of the distance between the two best logits
    struct divergence self;
};

/*
 * What libllama's own choice of kernels does to the logits of `tokens`: computed in one batch and token by token.
 * Two engines cannot be asked to agree more closely than one agrees with itself.
 */
struct parity_noise parity_measure_noise(struct parity *parity, const int32_t *tokens, size_t n);

struct parity_greedy {
    size_t n_tokens;
    size_t n_different;   // where libllama's best beat our choice by less than the noise
    size_t n_wrong;       // by more
    double worst_gap;     // the largest such lead
    double worst_logprob; // largest distance of a chosen token's log-probability from libllama's
};

/*
 * Greedy answers of up to n_max tokens to `prompt`. Where the two differ the case is printed, and libllama's token
 * is put in place of ours, so that each step is judged alone. Both stop at the end of text.
 */
void parity_compare_greedy(struct parity *parity, const int32_t *prompt, size_t n_prompt, size_t n_max, double noise,
                           struct parity_greedy *sum);

/* An answer of ours. */
struct parity_answer {
    int32_t tokens[PARITY_ANSWER_MAX];
    float logprobs[PARITY_ANSWER_MAX];
    size_t n;
    bool ended; // by the model
};

/* Our greedy answer of up to n_max tokens. `is_fresh` makes the engine forget what it has computed before. */
void parity_answer(struct parity *parity, const int32_t *prompt, size_t n_prompt, size_t n_max, bool is_fresh,
                   struct parity_answer *answer);

#endif
