/*
 * Between an engine and its guesses, for bench_spec alone: its functions are put in the place of the library's by the
 * linker. They can have both models say a given list of tokens, fix the number of guesses, and count what comes of
 * them.
 *
 * Models that have the shapes of real ones and random weights say nothing, but cost what those cost. So the row that a
 * token is chosen from is changed just before: the large model's to the token of the list, the small one's with dice to
 * that token or to another. Everything is computed as always.
 *
 * Set and read while no engine works.
 */
#ifndef RV_BENCH_SPEC_PROBE_H
#define RV_BENCH_SPEC_PROBE_H

#include "sched/speculate.h"

#include <stddef.h>

enum { SPEC_PROBE_MAX_ROWS = RV_SPECULATE_MAX + 1, SPEC_PROBE_MAX_TIMES = 512 };

/* From now on answers to prompts of n_prompt tokens are given, and each guess of a draft is right with a probability.
 */
void spec_probe_say(int32_t n_vocab, int32_t n_prompt, double right);
/* So many guesses for every step, where they are to be had; below 0: as the engine chooses. */
void spec_probe_force(int32_t n_guesses);

/* What was counted since spec_probe_clear. */
struct spec_probe_tally {
    int32_t n_looked, n_right;                // guesses of which it was seen whether they hold, and did
    int32_t n_steps[SPEC_PROBE_MAX_ROWS + 1]; // without a prompt, by their rows
    double step_us[SPEC_PROBE_MAX_ROWS + 1];  // median; 0: there was no such step
    double draft_us;                          // likewise of a draft's guess
};

void spec_probe_clear(void);
struct spec_probe_tally spec_probe_count(void);

#endif
