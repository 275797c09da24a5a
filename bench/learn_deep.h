/*
 * Deep runs in a lab, for the rows that train: samples beside texts of the model's own, a gate on others of them, and
 * the result as an adapter that the decoder reads with. By the code the engine does it with.
 */
#ifndef RV_BENCH_LEARN_DEEP_H
#define RV_BENCH_LEARN_DEEP_H

#include "learn_common.h"
#include "learn/deep.h"

/* How a run is made. */
struct deep_recipe {
    int32_t rank;
    int32_t n_epochs;
    float kl_weight;
    float held_out; // 0: facts cannot be guessed from others, so only the guard decides
    float ewc;      // with a run before
    /* What is 0 of these is as in rv_deep_config_default(), or none. */
    int32_t n_variants;   // other ways to ask for a correction, an epoch
    int32_t batch_tokens; // of a step
    int32_t n_turns;      // that anchors take
    float max_self;       // by how much its own text may become less likely, by the guard
};

struct deep_bed {
    struct lab lab;
    struct rv_team *team;
    struct lab_texts anchors; // trained beside; of the first of them a quarter is guard
    struct lab_texts own;     // to see what is lost: nothing was chosen by them
    double own_nll;
    double anchor_nll;
    float *values; // of the last run; NULL: none
    float *fisher;
    struct rv_adapter *adapter; // what the last run has come to; NULL: nothing
};

void deep_open(struct deep_bed *bed, const struct learn_args *args, int32_t n_anchors, int32_t n_anchors_if_large);
/* Turns for which about so many of the anchors that are no guard are in an epoch. */
int32_t deep_turns(const struct deep_bed *bed, int32_t n_at_once);
void deep_close(struct deep_bed *bed);
/* What runs have come to; the texts stay. */
void deep_forget(struct deep_bed *bed);
/* Of millions of parameters: an epoch teaches more, and takes longer. */
bool deep_is_large(const struct deep_bed *bed);
/* Trains; goes on from the run before when there was one. False: nothing was gained, and all is as before. */
bool deep_train(struct deep_bed *bed, const struct rv_deep_sample *samples, size_t n, const struct deep_recipe *recipe);
/* By how much the model's own texts have become less likely. */
double deep_self(struct deep_bed *bed);

/* ---- domains ---------------------------------------------------------------------------------- */

enum { DEEP_SAMPLE = 112 }; // tokens of a sample, behind the one every text begins with

/* Pieces of a file. */
struct deep_domain {
    int32_t *tokens; // n rows of DEEP_SAMPLE + 1
    int32_t n;
    float weights[DEEP_SAMPLE + 1];
    struct rv_deep_sample *samples;
};

/* `n` samples from byte `offset` of a file of the test data on; their episodes are numbered from `episode`. */
void deep_domain_open(struct deep_domain *domain, const struct deep_bed *bed, const char *file, size_t offset,
                      int32_t n, int32_t episode);
void deep_domain_close(struct deep_domain *domain);
/* Mean negative log-likelihood, with what was learned. */
double deep_domain_nll(struct deep_bed *bed, const struct deep_domain *domain);

#endif
