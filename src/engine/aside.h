/*
 * A sequence that is computed beside the requests an engine serves, piece by piece between its steps. In between, the
 * blocks of what is already computed are held, and the engine goes on with everybody else's tokens; so a long text
 * delays them by one piece at a time.
 *
 * Threads: init and release run on the caller's; run and give_back on the engine's, as errands (rv_engine_call).
 */
#ifndef RV_ENGINE_ASIDE_H
#define RV_ENGINE_ASIDE_H

#include "engine/engine.h"

struct rv_aside {
    uint64_t tenant;
    struct rv_kv_seq kv;
    int32_t slot;     // -1: none yet
    int32_t max_rows; // of a piece: what an engine prefills at once
    int32_t *rows;    // scratch: positions, sequence numbers and rows to read, max_rows of each
};

/* The next tokens of the sequence. */
struct rv_aside_piece {
    const int32_t *tokens;
    int32_t n; // 1 to max_rows
    enum rv_decoder_result result;
    bool is_read;                     // results are wanted, of all of them
    const struct rv_adapter_mix *mix; // NULL: none
};

/* Room for a sequence of n_tokens, whose blocks are taken as it is computed. */
RV_CHECKED ruvllm_status rv_aside_init(struct rv_aside *out, struct ruvllm_engine *engine, const char *tenant,
                                       size_t n_tokens, struct ruvllm_error *err);
/* After blocks and slot were given back, or the engine has closed. */
void rv_aside_release(struct rv_aside *aside);

/* As the backend's run. BUSY when there is no room beside what runs. */
RV_CHECKED ruvllm_status rv_aside_run(struct ruvllm_engine *engine, struct rv_aside *aside,
                                      const struct rv_aside_piece *piece, float **rows, struct ruvllm_error *err);
void rv_aside_give_back(struct ruvllm_engine *engine, struct rv_aside *aside);

#endif
