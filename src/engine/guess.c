#include "engine/guess.h"

#include "base/alloc.h"
#include "engine/draft.h"

/* What is being prepared: the wishes that a draft model is asked for. */
struct rv_guess {
    struct rv_draft *draft;       // NULL: guesses come from the text
    struct rv_draft_wish *wishes; // max_sequences
    struct rv_job **jobs;         // likewise, whose they are
    struct rv_speculate_clock clock;
};

ruvllm_status rv_guess_open(struct rv_guess **out, const struct ruvllm_engine *engine, struct ruvllm_error *err)
{
    const struct ruvllm_engine_params *p = &engine->params;
    struct rv_draft_config config = {.path = p->draft_model,
                                     .target = engine->model,
                                     .n_threads = engine->model->wishes.n_threads,
                                     .n_slots = p->max_sequences};
    struct rv_guess *guess;
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (!p->speculate && !p->draft_model)
        return RUVLLM_OK;
    if (!rv_model_has_blocks(engine->model))
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_CONFIG,
                            "guessing ahead needs the engine's own graph on the CPU: leave speculation out");
    guess = rv_calloc(1, sizeof(*guess));
    if (!guess)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what guessing needs");
    if (p->draft_model) {
        guess->wishes = rv_calloc((size_t)p->max_sequences, sizeof(*guess->wishes));
        guess->jobs = rv_calloc((size_t)p->max_sequences, sizeof(struct rv_job *));
        rc = guess->wishes && guess->jobs ? rv_draft_open(&guess->draft, &config, err)
                                          : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what guessing needs");
    }
    if (rc) {
        rv_guess_close(guess);
        return rc;
    }
    *out = guess;
    return RUVLLM_OK;
}

void rv_guess_close(struct rv_guess *guess)
{
    if (!guess)
        return;
    rv_draft_close(guess->draft);
    rv_free(guess->wishes);
    rv_free(guess->jobs);
    rv_free(guess);
}

void rv_guess_vacate(struct rv_guess *guess, int32_t slot)
{
    if (guess && guess->draft)
        rv_draft_vacate(guess->draft, slot);
}

/* ---- before a step -------------------------------------------------------------------------- */

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Behind the last guess there must be room for the token that is drawn from its row. */
static int32_t room_of(const struct rv_job *job)
{
    return rv_job_max_tokens(job) - job->request.n_tokens - 1;
}

static bool is_decoding(const struct rv_job *job)
{
    return job->request.state == RV_REQUEST_RUNNING && rv_request_is_decoding(&job->request);
}

static void take_guesses(struct rv_job *job, int32_t n)
{
    job->request.n_tokens += n; // they lie there already
    job->request.n_guessed = n;
}

/* What the answer's shape forbids is not computed. It was a wrong guess all the same, and one that took its time. */
static void take_drafted(struct rv_job *job, const struct rv_draft_wish *wish)
{
    int32_t n = rv_reply_foresee(job->reply, wish->out, wish->n_given);

    take_guesses(job, n);
    if (n < wish->n_given)
        job->guess_cut = n + 1;
}

static void ask_draft(struct rv_guess *g, int32_t n)
{
    struct rv_draft_cost cost;

    if (n == 0)
        return;
    cost = rv_draft_guess(g->draft, g->wishes, n);
    if (cost.guess_us > 0)
        rv_speculate_note_draft(&g->clock, cost.guess_us);
    rv_speculate_note_catch_up(&g->clock, cost.n_caught_up, cost.catch_up_us);
    for (int32_t i = 0; i < n; i++)
        take_drafted(g->jobs[i], &g->wishes[i]);
}

/* How many guesses there are, or could be had, and at what price. */
static struct rv_speculate_offer find_guesses(struct rv_guess *g, struct rv_job *job, int32_t *out)
{
    const struct rv_request *r = &job->request;
    int32_t room = room_of(job);
    struct rv_speculate_offer offer = {.n_left = room, .n_found = min_of(room, RV_SPECULATE_MAX)};

    if (g->draft) {
        offer.n_behind = rv_draft_n_behind(g->draft, r->slot, job->id, r->tokens, r->n_tokens);
        return offer;
    }
    offer.n_found = rv_speculate_look_up(r->tokens, r->n_tokens, offer.n_found, out);
    offer.n_found = rv_reply_foresee(job->reply, out, offer.n_found);
    return offer;
}

void rv_guess_begin(struct ruvllm_engine *engine)
{
    struct rv_guess *g = engine->guess;
    int32_t n_sequences = 0, n_wishes = 0, n_rows;

    if (!g)
        return;
    for (const struct rv_job *job = engine->jobs; job; job = job->next)
        n_sequences += is_decoding(job);
    n_rows = n_sequences;
    for (struct rv_job *job = engine->jobs; job; job = job->next) {
        struct rv_request *r = &job->request;
        int32_t *out = r->tokens + r->n_tokens, n;
        struct rv_speculate_offer offer;

        if (!is_decoding(job))
            continue;
        offer = find_guesses(g, job, out);
        offer.n_rows = n_rows;
        offer.n_sequences = n_sequences;
        n = rv_speculate_choose(&job->guesses, &g->clock, &offer);
        n_rows += n;
        job->guess_cut = 0;
        if (!g->draft) {
            take_guesses(job, n);
        } else if (n > 0) {
            g->jobs[n_wishes] = job;
            g->wishes[n_wishes++] = (struct rv_draft_wish){.slot = r->slot,
                                                           .owner = job->id,
                                                           .tokens = r->tokens,
                                                           .n_tokens = r->n_tokens,
                                                           .n_wanted = n,
                                                           .out = out};
        }
    }
    ask_draft(g, n_wishes);
}

/* ---- after it ------------------------------------------------------------------------------- */

void rv_guess_note_guesses(struct rv_guess *guess, struct rv_job *job, int32_t n_right, int32_t n_guessed)
{
    if (guess && n_guessed + 1 == job->guess_cut)
        n_guessed++; // all before it were computed
    if (guess && n_guessed > 0)
        rv_speculate_note_guesses(&job->guesses, &guess->clock, n_right, n_guessed);
}

void rv_guess_note_step(struct rv_guess *guess, const struct rv_scheduler_step *step, int64_t us)
{
    if (!guess)
        return;
    for (int32_t i = 0; i < step->n_parts; i++) {
        if (step->parts[i].n_rows != step->parts[i].n_out)
            return; // it computed a prompt
    }
    rv_speculate_note_step(&guess->clock, step->n_rows, us);
}
