/*
 * A scheduler with a small pool and a tree, and the engine around it played by the suite: steps are "computed" by
 * writing each row's token into its block, and the next token is a function of the position, so that it can be seen at
 * any time whether a sequence's blocks hold what they should, however often they were lost and computed again.
 */
#ifndef RV_TESTS_SUPPORT_SCHED_FIXTURE_H
#define RV_TESTS_SUPPORT_SCHED_FIXTURE_H

#include "sched/scheduler.h"
#include "support/kv_fixture.h"

enum { SCHED_FIXTURE_TOKENS = 9000 };

struct sched_fixture {
    struct rv_scheduler_config config;
    struct rv_tier_policy policy;
    struct rv_block_pool *pool;
    struct rv_prefix_tree *tree;
    struct rv_spill_file *spill; // may be NULL
    struct rv_scheduler *scheduler;
    int64_t now_us;
    int32_t n_blocks;
};

struct sched_request {
    struct rv_request request;
    int32_t *tokens; // max_tokens
    int32_t text;    // requests with the same number begin with the same tokens
    int32_t n_same;  // this many of them; the rest is the request's own
    int32_t max_tokens;
    int32_t n_results; // rows that came out
    uint8_t *results;  // how often each position was a result
    uint64_t own;
};

/* Opens with what is set in `config` (0: max_running 8, max_waiting 64, max_rows 256, prefill_rows 64, age_ms 1000). */
void sched_fixture_open(struct sched_fixture *f, int32_t n_blocks, const struct rv_scheduler_config *config);
/* The same with a spill file for n_spilled blocks of full precision; a plan writes and reads what is set, or 1 GiB. */
void sched_fixture_open_spilling(struct sched_fixture *f, int32_t n_blocks, const struct rv_scheduler_config *config,
                                 int32_t n_spilled);
/* All requests must be out; fails unless every block is free or idle, and every idle one can be dropped. */
void sched_fixture_close(struct sched_fixture *f);
/* Walks everything there is to walk. */
void sched_fixture_check(const struct sched_fixture *f);

/* A request of n_prompt tokens that will grow to max_tokens. */
void sched_request_init(struct sched_fixture *f, struct sched_request *r, uint64_t tenant, int32_t n_prompt,
                        int32_t max_tokens);
/* Gives it the first n_same tokens of a text, before it is submitted. */
void sched_request_begin_with(struct sched_request *r, int32_t text, int32_t n_same);
/* Gives it other tokens from position `from` on. */
void sched_request_change(struct sched_request *r, int32_t from);
void sched_request_release(struct sched_request *r);
void sched_fixture_submit(struct sched_fixture *f, struct sched_request *r);
/* Makes it and submits it. */
void sched_fixture_start(struct sched_fixture *f, struct sched_request *r, uint64_t tenant, int32_t n_prompt,
                         int32_t max_tokens);
/* Takes it out and frees it. */
void sched_fixture_end(struct sched_fixture *f, struct sched_request *r);

/* Guesses behind the tokens of a request that decodes, as many as it has room for: first right ones, then wrong ones.
 */
void sched_request_guess(struct sched_request *r, int32_t n_right, int32_t n_wrong);

/* Plans and holds the step against the contract. False when there is nothing to do. */
bool sched_fixture_plan(struct sched_fixture *f, struct rv_scheduler_step *step);
/* Computes a planned step and appends the next token of everybody who got a result and has one to come. */
void sched_fixture_compute(struct sched_fixture *f, const struct rv_scheduler_step *step);
/* Both, and 10 ms pass. */
bool sched_fixture_step(struct sched_fixture *f);
/* The part of a request in a step, or NULL. */
const struct rv_scheduler_part *sched_fixture_part(const struct rv_scheduler_step *step, const struct sched_request *r);
/* Its rows in a step. */
int32_t sched_fixture_rows(const struct rv_scheduler_step *step, const struct sched_request *r);
struct rv_scheduler_stats sched_fixture_stats(const struct sched_fixture *f);
/* True when all its tokens are there and the last was computed. */
bool sched_request_is_done(const struct sched_request *r);
/* Steps until it is done; fails the case after n_steps. */
void sched_fixture_run(struct sched_fixture *f, const struct sched_request *r, int32_t n_steps);

#endif
