#include "sched/speculate.h"

enum {
    LEAST_MATCH = 2, // tokens that must agree before a guess is made
    MOST_MATCH = 8,  // more do not make a place better
    RETRY = 32,      // steps after which one that does not pay is tried again, at the earliest
    FAR_BEHIND = 16  // tokens from which on the time of reading them grows with their number
};

static const double MEMORY = 0.9, LONG_MEMORY = 0.99;  // of a record's past, with each look: one's own, everybody's
static const double MAY_LOSE = 0.01;                   // of the tokens, by trying again
static const double CLOCK_SHARE = 0.1;                 // of a new time in the running mean
static const double FIRST_RIGHT = 1.4, FIRST_SEEN = 2; // what a sequence is believed before anything is known of it

static void add_time(double *mean, double time)
{
    if (*mean > 0 && time > 2 * *mean)
        time = 2 * *mean; // something else ran in between
    *mean = *mean > 0 ? *mean + CLOCK_SHARE * (time - *mean) : time;
}

void rv_speculate_note_step(struct rv_speculate_clock *clock, int32_t n_rows, int64_t us)
{
    if (n_rows < 1 || n_rows > RV_SPECULATE_MAX_ROWS)
        return;
    if (!clock->was_met[n_rows]) {
        clock->was_met[n_rows] = true;
        return;
    }
    add_time(&clock->us[n_rows], (double)us);
}

void rv_speculate_note_draft(struct rv_speculate_clock *clock, int64_t us)
{
    add_time(&clock->draft_us, (double)us);
}

void rv_speculate_note_catch_up(struct rv_speculate_clock *clock, int32_t n_tokens, int64_t us)
{
    if (n_tokens >= FAR_BEHIND)
        add_time(&clock->catch_up_us, (double)us / n_tokens);
}

static void note(struct rv_speculate_record *record, double memory, int32_t n_right, int32_t n_seen)
{
    record->n_right = memory * record->n_right + (double)n_right;
    record->n_seen = memory * record->n_seen + (double)n_seen;
}

void rv_speculate_note_guesses(struct rv_speculate_record *record, struct rv_speculate_clock *clock, int32_t n_right,
                               int32_t n_guessed)
{
    int32_t n_seen = n_right < n_guessed ? n_right + 1 : n_right;

    note(record, MEMORY, n_right, n_seen);
    note(&clock->all, LONG_MEMORY, n_right, n_seen);
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

    if (n_rows > RV_SPECULATE_MAX_ROWS)
        return 0; // those are not measured
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

/* Tokens that the step's sequences lose by waiting for k guesses of one of them. */
static double loss(const struct rv_speculate_clock *clock, const struct rv_speculate_offer *offer, int32_t k)
{
    double time = step_time(clock, offer->n_rows);

    return ((double)offer->n_sequences * (step_time(clock, offer->n_rows + k) - time) + k * clock->draft_us) / time;
}

/* How likely the next guess is to hold. */
static double belief(const struct rv_speculate_record *record, const struct rv_speculate_record *all)
{
    double first = (all->n_right + FIRST_RIGHT) / (all->n_seen + FIRST_SEEN);

    return (record->n_right + first * FIRST_SEEN) / (record->n_seen + FIRST_SEEN);
}

/* Of a draft model the first guess catches up, and only the second tells what one costs. */
static int32_t n_tried(const struct rv_speculate_clock *clock, const struct rv_speculate_offer *offer)
{
    return clock->draft_us > 0 && offer->n_found > 1 ? 2 : 1;
}

/*
 * Whether one that does not pay is tried all the same: what it may lose is little beside the tokens that came, for
 * anybody, since the last time. One that was never tried need not wait: else answers that are short never would be.
 */
static bool is_time_to_retry(const struct rv_speculate_record *record, const struct rv_speculate_clock *clock,
                             const struct rv_speculate_offer *offer)
{
    double reading = offer->n_behind * clock->catch_up_us / step_time(clock, offer->n_rows);

    return (record->n_idle >= RETRY || record->n_seen <= 0) &&
           loss(clock, offer, n_tried(clock, offer)) + reading <= MAY_LOSE * clock->all.n_idle;
}

static void count_idle(struct rv_speculate_record *record)
{
    if (record->n_idle < INT32_MAX)
        record->n_idle++;
}

int32_t rv_speculate_choose(struct rv_speculate_record *record, struct rv_speculate_clock *clock,
                            const struct rv_speculate_offer *offer)
{
    double right = belief(record, &clock->all), best_gain = 0, expected = 0, power = 1;
    int32_t best = 0;

    if (step_time(clock, offer->n_rows) <= 0)
        return 0; // nothing was measured yet
    for (int32_t k = 1; k <= offer->n_found && offer->n_rows + k <= RV_SPECULATE_MAX_ROWS; k++) {
        double gain;

        power *= right;
        expected += power;
        gain = expected - loss(clock, offer, k);
        if (gain > best_gain) {
            best_gain = gain;
            best = k;
        }
    }
    if (best > 0 || offer->n_found == 0) {
        record->n_idle = best > 0 ? 0 : record->n_idle;
        return best;
    }
    count_idle(record);
    count_idle(&clock->all);
    if (!is_time_to_retry(record, clock, offer))
        return 0;
    record->n_idle = clock->all.n_idle = 0;
    return n_tried(clock, offer);
}
