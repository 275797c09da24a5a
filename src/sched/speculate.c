#include "sched/speculate.h"

enum {
    LEAST_MATCH = 2, // tokens that must agree before a guess is made
    MOST_MATCH = 8,  // more do not make a place better
    RETRY = 32,      // steps after which one that is far from paying is tried again, at the earliest
    FEW_BEHIND = 2,  // tokens that a draft model reads with its guess
    FAR_BEHIND = 16  // tokens from which on the time of reading them grows with their number
};

/*
 * Found by playing answers of 128 tokens with guesses of any quality on machines of any prices (the game in
 * test_speculate.c): a shorter memory, or less faith in what all came to, gives up good guesses after bad luck.
 */
static const double MEMORY = 0.95, LONG_MEMORY = 0.99; // of a record's past, with each look: one's own, everybody's
static const double FIRST_RIGHT = 1.4, FIRST_SEEN = 2; // what all are believed before anything is known
static const double FAITH = 4;                         // guesses of one's own that what all came to counts for
static const double MAY_LOSE = 0.01;                   // of the tokens, by guesses that do not pay
static const double MOST_CREDIT = 4;                   // tokens that may be lost at once, however much was won before
static const double NEAR = 0.5;                        // of a plan's loss: who loses less than that nearly pays
static const double CLOCK_SHARE = 0.1;                 // of a new time in the running mean

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

static double clamp(double x, double limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

static void add_credit(struct rv_speculate_clock *clock, double n_tokens)
{
    clock->credit = clamp(clock->credit + n_tokens, MOST_CREDIT);
}

void rv_speculate_note_guesses(struct rv_speculate_record *record, struct rv_speculate_clock *clock, int32_t n_right,
                               int32_t n_guessed)
{
    int32_t n_seen = n_right < n_guessed ? n_right + 1 : n_right;

    add_credit(clock, n_right);
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

    return (record->n_right + first * FAITH) / (record->n_seen + FAITH);
}

/* Tokens that are lost by a draft model's reading what it missed. */
static double reading(const struct rv_speculate_clock *clock, const struct rv_speculate_offer *offer)
{
    int32_t n = offer->n_behind - FEW_BEHIND;

    return n > 0 ? n * clock->catch_up_us / step_time(clock, offer->n_rows) : 0;
}

/* A number of guesses and what is expected of it, in tokens. */
struct plan {
    int32_t n;
    double gain; // guesses that hold
    double loss; // what everybody loses by waiting for them
};

/* Tokens a second over those without guesses. */
static double speed_up(const struct plan *plan, const struct rv_speculate_offer *offer)
{
    return (offer->n_sequences + plan->gain) / (offer->n_sequences + plan->loss);
}

/* The fastest plan of at least n_least guesses; of none where there are not as many, or no rows for them. */
static struct plan find_plan(const struct rv_speculate_clock *clock, const struct rv_speculate_offer *offer,
                             double right, int32_t n_least)
{
    struct plan best = {0}, plan = {0};
    double power = 1;

    for (int32_t k = 1; k <= offer->n_found && offer->n_rows + k <= RV_SPECULATE_MAX_ROWS; k++) {
        power *= right;
        plan = (struct plan){.n = k, .gain = plan.gain + power, .loss = loss(clock, offer, k)};
        if (k >= n_least && (best.n == 0 || speed_up(&plan, offer) > speed_up(&best, offer)))
            best = plan;
    }
    return best;
}

/* Whether it brings more than it takes, and what is read for it is brought in by the rest of the answer. */
static bool pays(const struct plan *plan, const struct rv_speculate_offer *offer, double missed)
{
    return plan->gain > plan->loss && missed <= offer->n_left * (1 - 1 / speed_up(plan, offer));
}

/* Of a draft model the first guess catches up, and only the second tells what one costs. */
static int32_t n_tried(const struct rv_speculate_clock *clock, const struct rv_speculate_offer *offer)
{
    return clock->draft_us > 0 && offer->n_found > 1 ? 2 : 1;
}

/*
 * Whether a plan that does not pay is tried all the same: there is credit for what it will probably lose. Whose guesses
 * nearly pay goes on while there is some; one that is far from it waits, so that others come to try.
 */
static bool may_try(const struct rv_speculate_record *record, const struct rv_speculate_clock *clock,
                    const struct plan *plan, double missed)
{
    double net = plan->loss - plan->gain + missed;

    if (record->n_seen > 0 && record->n_idle < RETRY && net > NEAR * plan->loss)
        return false;
    return net <= clock->credit;
}

int32_t rv_speculate_choose(struct rv_speculate_record *record, struct rv_speculate_clock *clock,
                            const struct rv_speculate_offer *offer)
{
    double right = belief(record, &clock->all), missed;
    struct plan plan;

    if (step_time(clock, offer->n_rows) <= 0)
        return 0;                // nothing was measured yet
    add_credit(clock, MAY_LOSE); // for the token that comes in any case
    missed = reading(clock, offer);
    plan = find_plan(clock, offer, right, 1);
    if (plan.n > 0 && !pays(&plan, offer, missed)) {
        plan = find_plan(clock, offer, right, n_tried(clock, offer));
        record->n_idle += record->n_idle < INT32_MAX;
        if (plan.n > 0 && !may_try(record, clock, &plan, missed))
            return 0;
        add_credit(clock, -missed);
    }
    if (plan.n == 0)
        return 0;
    record->n_idle = 0;
    add_credit(clock, -plan.loss); // what holds is added when it is known
    return plan.n;
}
