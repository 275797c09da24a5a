#include "sched/speculate.h"

enum {
    LEAST_MATCH = 2, // tokens that must agree before a guess is made
    MOST_MATCH = 8,  // more do not make a place better
    RETRY = 32       // steps after which one that does not pay is tried again
};

static const double MEMORY = 0.9;                      // of a record's past, with each look
static const double CLOCK_SHARE = 0.1;                 // of a new time in the running mean
static const double FIRST_RIGHT = 1.4, FIRST_SEEN = 2; // what a sequence is believed before anything is known of it

void rv_speculate_note_step(struct rv_speculate_clock *clock, int32_t n_rows, int64_t us)
{
    double *mean, time = (double)us;

    if (n_rows < 1 || n_rows > RV_SPECULATE_MAX_ROWS)
        return;
    if (!clock->was_met[n_rows]) {
        clock->was_met[n_rows] = true;
        return;
    }
    mean = &clock->us[n_rows];
    if (*mean > 0 && time > 2 * *mean)
        time = 2 * *mean; // something else ran in between
    *mean = *mean > 0 ? *mean + CLOCK_SHARE * (time - *mean) : time;
}

void rv_speculate_note_draft(struct rv_speculate_clock *clock, int64_t us)
{
    double time = (double)us;

    clock->draft_us = clock->draft_us > 0 ? clock->draft_us + CLOCK_SHARE * (time - clock->draft_us) : time;
}

void rv_speculate_note_guesses(struct rv_speculate_record *record, int32_t n_right, int32_t n_guessed)
{
    int32_t n_seen = n_right < n_guessed ? n_right + 1 : n_right;

    record->n_right = MEMORY * record->n_right + (double)n_right;
    record->n_seen = MEMORY * record->n_seen + (double)n_seen;
}

/* ---- the sequence's own text ---------------------------------------------------------------- */

/* How many tokens before `at` and before `n` are the same, up to MOST_MATCH. */
static int32_t match_length(const int32_t *tokens, int32_t at, int32_t n)
{
    int32_t length = 0;

    while (length < MOST_MATCH && length < at && tokens[at - 1 - length] == tokens[n - 1 - length])
        length++;
    return length;
}

int32_t rv_speculate_look_up(const int32_t *tokens, int32_t n, int32_t n_max, int32_t *out)
{
    int32_t best = 0, best_length = LEAST_MATCH - 1, n_found = 0;

    for (int32_t at = n - 1; at > 0 && best_length < MOST_MATCH; at--) {
        if (tokens[at - 1] != tokens[n - 1])
            continue;
        int32_t length = match_length(tokens, at, n);

        if (length > best_length) {
            best = at;
            best_length = length;
        }
    }
    /* A text that repeats itself goes on beyond its end as it went on before. */
    for (; best > 0 && n_found < n_max; n_found++)
        out[n_found] = best + n_found < n ? tokens[best + n_found] : out[best + n_found - n];
    return n_found;
}

/* ---- how many ------------------------------------------------------------------------------- */

/* Time of a step of so many rows: as measured, or in proportion between the nearest that were, or as the nearest was.
 */
static double step_time(const struct rv_speculate_clock *clock, int32_t n_rows)
{
    int32_t below = n_rows, above = n_rows;

    while (below > 0 && clock->us[below] <= 0)
        below--;
    while (above <= RV_SPECULATE_MAX_ROWS && clock->us[above] <= 0)
        above++;
    if (below == above)
        return clock->us[n_rows];
    if (above > RV_SPECULATE_MAX_ROWS)
        return clock->us[below]; // it will be seen
    if (below == 0)
        return clock->us[above];
    return clock->us[below] +
           (clock->us[above] - clock->us[below]) * (double)(n_rows - below) / (double)(above - below);
}

int32_t rv_speculate_choose(struct rv_speculate_record *record, const struct rv_speculate_clock *clock, int32_t n_rows,
                            int32_t n_sequences, int32_t n_found)
{
    double right = (record->n_right + FIRST_RIGHT) / (record->n_seen + FIRST_SEEN);
    double time = step_time(clock, n_rows), rate = time > 0 ? (double)n_sequences / time : 0;
    double best_gain = 0, expected = 0, power = 1;
    int32_t best = 0;

    if (time <= 0)
        return 0; // nothing was measured yet
    for (int32_t k = 1; k <= n_found && n_rows + k <= RV_SPECULATE_MAX_ROWS; k++) {
        double gain;

        power *= right;
        expected += power;
        gain = expected - rate * (step_time(clock, n_rows + k) - time) - (double)k * clock->draft_us / time;
        if (gain > best_gain) {
            best_gain = gain;
            best = k;
        }
    }
    if (best > 0 || n_found == 0) {
        record->n_idle = 0;
        return best;
    }
    if (++record->n_idle < RETRY)
        return 0;
    record->n_idle = 0;
    return clock->draft_us > 0 && n_found > 1 ? 2 : 1; // the first catches up: only the second tells what a draft costs
}
