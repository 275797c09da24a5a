/*
 * Guessing tokens ahead: a sequence's own text is looked through for what followed its last tokens before, and the
 * guesses are computed in the same step as the token that is due. Whether they were right is seen from the results; a
 * wrong one costs its row, and never changes the answer.
 *
 * How many are guessed is what pays: of each sequence it is known how often guesses were right, of the machine how long
 * steps of so many rows take. As many are made as give most tokens a second. What guesses really lose and win is
 * booked: where they do not pay they are tried as long as there is credit, which is one token in a hundred of those
 * that came.
 *
 * Single owner: the engine thread. Nothing allocates.
 */
#ifndef RV_SCHED_SPECULATE_H
#define RV_SCHED_SPECULATE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    RV_SPECULATE_MAX = 8,       // guesses for one sequence in a step
    RV_SPECULATE_MAX_ROWS = 128 // steps with more rows guess nothing
};

/* What guessing has come to for one sequence, or for all; zeroed: nothing yet. */
struct rv_speculate_record {
    double n_right; // of the recent guesses that were looked at
    double n_seen;
    int32_t n_idle; // times that guessing did not seem to pay and was not tried, one after the other
};

/* How long steps take by their number of rows; zeroed: not known yet. */
struct rv_speculate_clock {
    double us[RV_SPECULATE_MAX_ROWS + 1];    // running mean; 0: no such step so far
    double draft_us;                         // of a draft model's guess; 0: there is none, or not yet
    double catch_up_us;                      // likewise for each token it has to read before
    bool was_met[RV_SPECULATE_MAX_ROWS + 1]; // the first step of a size does not count: its graph is built in it
    double credit;                           // tokens that guesses which do not pay may lose now
    struct rv_speculate_record all;          // what a sequence of which nothing is known yet is believed
};

/* A draft model took so long for one guess for everybody. */
void rv_speculate_note_draft(struct rv_speculate_clock *clock, int64_t us);
/* It took so long to read n_tokens that it had missed; of a few that tells nothing. */
void rv_speculate_note_catch_up(struct rv_speculate_clock *clock, int32_t n_tokens, int64_t us);
/* A step of n_rows that computed no prompt took so long. */
void rv_speculate_note_step(struct rv_speculate_clock *clock, int32_t n_rows, int64_t us);
/* n_right guesses held, and, unless all did, the one after them did not. */
void rv_speculate_note_guesses(struct rv_speculate_record *record, struct rv_speculate_clock *clock, int32_t n_right,
                               int32_t n_guessed);

/*
 * What followed the longest earlier place in `tokens` that ends as they end, the latest of them, but at least two
 * tokens long; up to n_max into `out`. Returns how many.
 */
int32_t rv_speculate_look_up(const int32_t *tokens, int32_t n, int32_t n_max, int32_t *out);

/* A step in the making, and what one of its sequences may have of it. */
struct rv_speculate_offer {
    int32_t n_rows;      // that it has already
    int32_t n_sequences; // that wait for their next token
    int32_t n_found;     // guesses there are
    int32_t n_left;      // tokens that the answer may still have
    int32_t n_behind;    // those a draft model has to read before it can make a guess
};

/* How many of the guesses to compute. A sequence that gave up tries again now and then. */
int32_t rv_speculate_choose(struct rv_speculate_record *record, struct rv_speculate_clock *clock,
                            const struct rv_speculate_offer *offer);

#endif
