#include "spec_probe.h"

#include "base/rng.h"
#include "engine/draft.h"
#include "engine/reply.h"
#include "engine_run.h"
#include "sample/weight.h"

#include <string.h>

enum { N_WORDS = 1024 };

static struct {
    bool is_on;
    double right;
    int32_t n_prompt;
    int32_t words[N_WORDS];
    struct rv_rng dice;
} script;

static struct times {
    double us[SPEC_PROBE_MAX_TIMES];
    int32_t n;
} steps[SPEC_PROBE_MAX_ROWS + 1], drafts;

static int32_t forced = -1, n_looked, n_right_ones;
static const struct rv_draft_wish *wish; // that the small model works on

void spec_probe_say(int32_t n_vocab, int32_t n_prompt, double right)
{
    struct rv_rng rng;

    rv_rng_init(&rng, 1);
    rv_rng_init(&script.dice, 2);
    script.right = right;
    script.n_prompt = n_prompt;
    for (int i = 0; i < N_WORDS; i++)
        script.words[i] = n_vocab / 8 + (int32_t)rv_rng_below(&rng, (uint64_t)n_vocab / 2); // plain text
    script.is_on = true;
}

void spec_probe_force(int32_t n_guesses)
{
    forced = n_guesses;
}

void spec_probe_clear(void)
{
    memset(steps, 0, sizeof(steps));
    memset(&drafts, 0, sizeof(drafts));
    n_looked = n_right_ones = 0;
}

static double median_of(struct times *t)
{
    size_t n = (size_t)(t->n < SPEC_PROBE_MAX_TIMES ? t->n : SPEC_PROBE_MAX_TIMES);

    return n > 0 ? engine_run_median(t->us, n) : 0;
}

struct spec_probe_tally spec_probe_count(void)
{
    struct spec_probe_tally tally = {.n_looked = n_looked, .n_right = n_right_ones, .draft_us = median_of(&drafts)};

    for (int i = 1; i <= SPEC_PROBE_MAX_ROWS; i++) {
        tally.n_steps[i] = steps[i].n;
        tally.step_us[i] = median_of(&steps[i]);
    }
    return tally;
}

static void add_time(struct times *t, double us)
{
    t->us[t->n % SPEC_PROBE_MAX_TIMES] = us;
    t->n++;
}

/* ---- what is said --------------------------------------------------------------------------------- */

/* Another than the token of the list is the one after it. */
static void make_likeliest(const float *row, int32_t at, bool is_right)
{
    ((float *)(uintptr_t)row)[script.words[at % N_WORDS] + (is_right ? 0 : 1)] = 1e30f;
}

ruvllm_status __real_rv_reply_take(struct rv_reply *reply, float *logits, int32_t *token, struct rv_reply_piece *piece,
                                   struct ruvllm_error *err);
ruvllm_status __wrap_rv_reply_take(struct rv_reply *reply, float *logits, int32_t *token, struct rv_reply_piece *piece,
                                   struct ruvllm_error *err);
ruvllm_status __wrap_rv_reply_take(struct rv_reply *reply, float *logits, int32_t *token, struct rv_reply_piece *piece,
                                   struct ruvllm_error *err)
{
    if (script.is_on)
        make_likeliest(logits, (int32_t)rv_reply_response(reply)->n_tokens, true);
    return __real_rv_reply_take(reply, logits, token, piece, err);
}

struct rv_draft_cost __real_rv_draft_guess(struct rv_draft *draft, struct rv_draft_wish *wishes, int32_t n);
struct rv_draft_cost __wrap_rv_draft_guess(struct rv_draft *draft, struct rv_draft_wish *wishes, int32_t n);
struct rv_draft_cost __wrap_rv_draft_guess(struct rv_draft *draft, struct rv_draft_wish *wishes, int32_t n)
{
    struct rv_draft_cost cost;

    wish = script.is_on && n == 1 ? wishes : NULL;
    cost = __real_rv_draft_guess(draft, wishes, n);
    wish = NULL;
    if (cost.guess_us > 0)
        add_time(&drafts, (double)cost.guess_us);
    return cost;
}

float __real_rv_weight_max(const float *logits, size_t n);
float __wrap_rv_weight_max(const float *logits, size_t n);
float __wrap_rv_weight_max(const float *logits, size_t n)
{
    if (wish)
        make_likeliest(logits, wish->n_tokens - script.n_prompt + wish->n_given,
                       rv_rng_uniform(&script.dice) < script.right);
    return __real_rv_weight_max(logits, n);
}

/* ---- how many, and what comes of them --------------------------------------------------------------- */

int32_t __real_rv_speculate_choose(struct rv_speculate_record *record, struct rv_speculate_clock *clock,
                                   const struct rv_speculate_offer *offer);
int32_t __wrap_rv_speculate_choose(struct rv_speculate_record *record, struct rv_speculate_clock *clock,
                                   const struct rv_speculate_offer *offer);
int32_t __wrap_rv_speculate_choose(struct rv_speculate_record *record, struct rv_speculate_clock *clock,
                                   const struct rv_speculate_offer *offer)
{
    if (forced < 0)
        return __real_rv_speculate_choose(record, clock, offer);
    return forced < offer->n_found ? forced : offer->n_found;
}

void __real_rv_speculate_note_step(struct rv_speculate_clock *clock, int32_t n_rows, int64_t us);
void __wrap_rv_speculate_note_step(struct rv_speculate_clock *clock, int32_t n_rows, int64_t us);
void __wrap_rv_speculate_note_step(struct rv_speculate_clock *clock, int32_t n_rows, int64_t us)
{
    if (n_rows <= SPEC_PROBE_MAX_ROWS)
        add_time(&steps[n_rows], (double)us);
    __real_rv_speculate_note_step(clock, n_rows, us);
}

void __real_rv_speculate_note_guesses(struct rv_speculate_record *record, struct rv_speculate_clock *clock,
                                      int32_t n_right, int32_t n_guessed);
void __wrap_rv_speculate_note_guesses(struct rv_speculate_record *record, struct rv_speculate_clock *clock,
                                      int32_t n_right, int32_t n_guessed);
void __wrap_rv_speculate_note_guesses(struct rv_speculate_record *record, struct rv_speculate_clock *clock,
                                      int32_t n_right, int32_t n_guessed)
{
    n_looked += n_right < n_guessed ? n_right + 1 : n_right;
    n_right_ones += n_right;
    __real_rv_speculate_note_guesses(record, clock, n_right, n_guessed);
}
