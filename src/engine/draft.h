/*
 * A small model that guesses for a large one with the same vocabulary. It follows every sequence of the engine in keys
 * and values of its own, takes back what turned out otherwise, and says what it holds for likeliest.
 *
 * The engine thread's. Nothing allocates after rv_draft_open. What fails here costs guesses, never an answer.
 */
#ifndef RV_ENGINE_DRAFT_H
#define RV_ENGINE_DRAFT_H

#include "engine/model.h"

struct rv_draft;

struct rv_draft_config {
    const char *path;
    const struct ruvllm_model *target; // of the engine; outlives the draft
    int32_t n_threads;
    int32_t n_slots; // sequences at once
};

/* INVALID when the vocabularies are not the same; UNSUPPORTED for a model that does not run in the own graph. */
RV_CHECKED ruvllm_status rv_draft_open(struct rv_draft **out, const struct rv_draft_config *config,
                                       struct ruvllm_error *err);
void rv_draft_close(struct rv_draft *draft);

/* What is to be guessed for one sequence, and what was. */
struct rv_draft_wish {
    int32_t slot;
    uint64_t owner;        // of the slot: another one begins anew
    const int32_t *tokens; // all known ones
    int32_t n_tokens;
    int32_t n_wanted;
    int32_t *out; // room for n_wanted
    int32_t n_given;
};

/*
 * Guesses for all of them in turns. Who is far behind, as with a new prompt, catches up a piece and gets none yet.
 * Returns how many microseconds a guess took, without catching up; 0: there was none to tell it by.
 */
int64_t rv_draft_guess(struct rv_draft *draft, struct rv_draft_wish *wishes, int32_t n);
/* Nobody has the slot any more. */
void rv_draft_vacate(struct rv_draft *draft, int32_t slot);

#endif
