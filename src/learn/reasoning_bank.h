/*
 * The ReasoningBank: what a tenant asked and how the answers were judged, found again by likeness to a new question. A
 * question is the state the model was in at its end, so what counts as alike is what the model is about to answer
 * alike.
 *
 * Every judged answer is a pattern. A tenant's patterns are in the store, if there is one, and in memory once they were
 * searched; of each, the newest `max_patterns` are kept. Writing waits for up to a second and for company: who dies in
 * that time loses the patterns of that second, while the votes they came from are in the event log.
 *
 * Threads: every call may be made from any. Adding waits for nobody: it leaves the pattern in an inbox, which the
 * writer's thread or the next search takes in. `lock` guards what is in memory and is held for a scan; `save_lock` is
 * held while the writer writes, so that who reads a tenant from the store sees either all or nothing of it. Order:
 * save_lock, lock, inbox_lock.
 */
#ifndef RV_LEARN_REASONING_BANK_H
#define RV_LEARN_REASONING_BANK_H

#include "learn/pattern_scan.h"
#include "learn/trace.h"
#include "store/store.h"

struct rv_reasoning_bank;

struct rv_reasoning_bank_config {
    struct ruvllm_store *store;           // outlives it; NULL: nothing outlives the process
    const char *model;                    // what the store knows it by
    const struct rv_whitening *whitening; // outlives it
    size_t max_patterns;                  // of a tenant; 0: 100,000
    size_t max_in_memory; // of all tenants; the tenant that was not asked for longest goes; 0: 1,000,000
};

enum rv_reasoning_verdict { RV_REASONING_BAD = 1, RV_REASONING_MIXED, RV_REASONING_GOOD };

struct rv_reasoning_pattern {
    int64_t seq; // of the event it came from; 0: none
    int64_t time_us;
    double quality; // 0 to 1
    enum rv_reasoning_verdict verdict;
    int64_t n_used; // times it was found since it is in memory
    float likeness; // to what was searched; 1 in lists
};

RV_CHECKED ruvllm_status rv_reasoning_bank_new(struct rv_reasoning_bank **out,
                                               const struct rv_reasoning_bank_config *config, struct ruvllm_error *err);
/* Writes what waits, as far as the store lets it. */
void rv_reasoning_bank_free(struct rv_reasoning_bank *bank);

/* A judged answer; `embedding` by rv_pattern_scan_embed, seq 0 for none. Waits for nothing but memory. */
RV_CHECKED ruvllm_status rv_reasoning_bank_add(struct rv_reasoning_bank *bank, const char *tenant,
                                               const uint16_t *embedding, double quality, int64_t seq,
                                               struct ruvllm_error *err);
/* What an answer's question looks like: the state before its first token. False when there is none. */
bool rv_reasoning_bank_question(const struct rv_reasoning_bank *bank, const struct rv_trace *trace, uint16_t *out);
/*
 * A judged answer by its trace. It was learned from already, so a pattern that cannot be kept is a line in the log. An
 * event that waits for its number (seq 0) is known by its time; time_us 0: now.
 */
void rv_reasoning_bank_note(struct rv_reasoning_bank *bank, const struct rv_trace *trace, double quality, int64_t seq,
                            int64_t time_us);
/* The up to `max` patterns of the tenant that are most like it, the best first, at most RV_PATTERN_SCAN_MAX_HITS. */
RV_CHECKED ruvllm_status rv_reasoning_bank_search(struct rv_reasoning_bank *bank, const char *tenant,
                                                  const uint16_t *embedding, struct rv_reasoning_pattern *out,
                                                  size_t max, size_t *n, struct ruvllm_error *err);
/* The newest `max`, newest first; *n_all (may be NULL) is how many there are. */
RV_CHECKED ruvllm_status rv_reasoning_bank_list(struct rv_reasoning_bank *bank, const char *tenant,
                                                struct rv_reasoning_pattern *out, size_t max, size_t *n, size_t *n_all,
                                                struct ruvllm_error *err);
/*
 * Removes the pattern of an event, or all patterns of a tenant (seq 0), in memory and in the store. `time_us` is the
 * event's: its pattern may be older than its number.
 */
RV_CHECKED ruvllm_status rv_reasoning_bank_forget(struct rv_reasoning_bank *bank, const char *tenant, int64_t seq,
                                                  int64_t time_us, struct ruvllm_error *err);
/* A tenant's patterns were changed in the store, or anybody's (NULL): they are read again. There must be a store. */
void rv_reasoning_bank_drop(struct rv_reasoning_bank *bank, const char *tenant);
/* Writes what waits, now. */
RV_CHECKED ruvllm_status rv_reasoning_bank_flush(struct rv_reasoning_bank *bank, struct ruvllm_error *err);
/* Patterns that were given up because the store was away for too long. */
uint64_t rv_reasoning_bank_n_lost(struct rv_reasoning_bank *bank);

#endif
