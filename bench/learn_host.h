/*
 * An engine that serves and learns, for the rows of bench_learn and for bench_votes: opened as a server would, with a
 * store on the disk.
 */
#ifndef RV_BENCH_LEARN_HOST_H
#define RV_BENCH_LEARN_HOST_H

#include "ruvllm_learn.h"

#include <stdbool.h>
#include <stdint.h>

struct host_config {
    const char *path;  // of the model
    const char *store; // a file that stays; NULL: one that goes with the host. Not looked at without learning
    bool learns;
    int32_t rank; // 0: the engine's own
    int32_t context;
    int32_t n_streams; // answered at once
    int32_t n_threads; // 0: one
};

struct host {
    ruvllm_engine *engine;
    ruvllm_store *store; // NULL: it does not learn
    char temporary[512]; // the store's file that is to go; empty: none
};

void host_open(struct host *host, const struct host_config *config);
void host_close(struct host *host);
struct ruvllm_model_info host_info(const struct host *host);

/* An answer to be made. Tokens are random but for the seed's sake the same every time. */
struct host_ask {
    const char *tenant;
    uint64_t seed;
    int32_t n_prompt;
    int32_t n_answer;
    float temperature;
    int32_t n_logprobs;                        // as in ruvllm_generate_params
    void (*on_event)(void *user, uint64_t id); // as in ruvllm_request
    void *user;
};

uint64_t host_submit(struct host *host, const struct host_ask *ask);
/* Waits for the end of a request; the caller's, freed with ruvllm_response_free. */
struct ruvllm_response *host_wait(struct host *host, uint64_t id);
/* Both, with *id of the request if it is wanted. */
struct ruvllm_response *host_ask(struct host *host, const struct host_ask *ask, uint64_t *id);
bool host_same_answer(const struct ruvllm_response *a, const struct ruvllm_response *b);

struct ruvllm_feedback_result host_vote(struct host *host, const char *tenant, uint64_t id, double score);
/* A hash of every bit of what answers the tenant now; *generation of it. */
uint64_t host_hash(struct host *host, const char *tenant, int64_t *generation);

#endif
