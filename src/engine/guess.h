/*
 * Guesses in the engine: before a step every sequence that waits for its next token may get some (sched/speculate.h);
 * after it the results say which of them hold.
 *
 * Each row is drawn from as without guesses, one after the other, until what is drawn is not what was guessed. So the
 * answer is distributed as without, and, up to the rounding of steps with more rows, it is the same answer.
 *
 * The engine thread's.
 */
#ifndef RV_ENGINE_GUESS_H
#define RV_ENGINE_GUESS_H

#include "engine/engine.h"

struct rv_guess;

/* *out is NULL for an engine whose params want no guesses. Its model is open. */
RV_CHECKED ruvllm_status rv_guess_open(struct rv_guess **out, const struct ruvllm_engine *engine,
                                       struct ruvllm_error *err);
/* This and the others accept NULL. */
void rv_guess_close(struct rv_guess *guess);

/* Gives the sequences of the next step their guesses. */
void rv_guess_begin(struct ruvllm_engine *engine);
/* Of the job's guesses that were computed so many held, one after the other. */
void rv_guess_note_guesses(struct rv_guess *guess, struct rv_job *job, int32_t n_right, int32_t n_guessed);
/* How long a step took. */
void rv_guess_note_step(struct rv_guess *guess, const struct rv_scheduler_step *step, int64_t us);
/* A sequence left its slot. */
void rv_guess_vacate(struct rv_guess *guess, int32_t slot);

#endif
