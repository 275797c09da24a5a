/*
 * A step is planned in three passes: a row for every sequence that decodes, most urgent first, so that whoever has to
 * give up its blocks for another was not yet given a row; prompts by their turn; and only then the batch is written
 * from what each running request was given (n_rows). Preempted requests go back to the queue after that.
 */
#include "sched/scheduler.h"

#include "base/alloc.h"
#include "sched/running_set.h"
#include "sched/turn.h"

#include <string.h>

enum {
    MAX_TURNS = 32,    // prompts that can have a part in one step
    TURN_SHARE = 4,    // of a budget that others want too, one part in so many is not for the first in turn
    QUANTUM_STEPS = 8, // tenants' shares are compared in units of so many steps' prompt rows
    PAUSE = 8,         // steps until one that found no room is tried again; looking it up in the tree takes time
};

struct rv_scheduler {
    struct rv_scheduler_config config;
    struct rv_running_set running;
    struct rv_fair_share share;
    struct rv_turn *waiting; // in no order; room for the preempted besides
    int32_t n_waiting;
    int32_t max_waiting;
    uint64_t n_submitted;
    int32_t pause;   // plans in which nobody is admitted
    bool is_blocked; // in this plan nobody more is admitted
    bool is_planned; // a step was handed out and not completed
    uint64_t n_migrated;

    struct rv_turn turns[MAX_TURNS];
    struct rv_scheduler_part *parts; // max_running
    int32_t n_parts;
    int32_t *tokens; // max_rows, as the next three
    int32_t *pos;
    int32_t *seq;
    int32_t *out_rows;
};

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t max_of(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* ---- the queue ------------------------------------------------------------------------------ */

static void queue_add(struct rv_scheduler *s, struct rv_request *r)
{
    RV_ASSERT(s->n_waiting < s->max_waiting);
    r->state = RV_REQUEST_WAITING;
    r->i_waiting = s->n_waiting;
    s->waiting[s->n_waiting++] = rv_turn_of(r);
}

static void queue_remove(struct rv_scheduler *s, struct rv_request *r)
{
    struct rv_turn *last = &s->waiting[--s->n_waiting];

    s->waiting[r->i_waiting] = *last;
    last->request->i_waiting = r->i_waiting;
    r->i_waiting = -1;
}

/*
 * True when the least urgent of those that run may lose its blocks to one that waits. Only priority as given counts for
 * that: if waiting did, requests would take blocks from each other in turn. Who lost them before is harder to move.
 */
static bool outranks_last(const struct rv_scheduler *s, const struct rv_request *r)
{
    const struct rv_request *last = rv_running_set_last(&s->running);

    return last && r->priority > rv_request_rank(last);
}

ruvllm_status rv_scheduler_check_size(const struct rv_scheduler *scheduler, const struct rv_request *request,
                                      int32_t max_tokens, struct ruvllm_error *err)
{
    size_t bytes = rv_kv_seq_bytes_squeezed(&request->kv, max_tokens);
    size_t budget = rv_block_pool_budget(scheduler->config.pool);

    if (bytes > budget)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_KV_CACHE,
                            "%d tokens take %zu bytes of keys and values, and all requests together have %zu",
                            max_tokens, bytes, budget);
    return RUVLLM_OK;
}

ruvllm_status rv_scheduler_submit(struct rv_scheduler *scheduler, struct rv_request *request, int32_t max_tokens,
                                  struct ruvllm_error *err)
{
    struct rv_scheduler *s = scheduler;
    ruvllm_status rc = rv_scheduler_check_size(s, request, max_tokens, err);

    RV_ASSERT(request->state == RV_REQUEST_OUT && request->kv.n_blocks == 0);
    RV_ASSERT(request->n_prompt > 0 && request->n_tokens >= request->n_prompt && max_tokens >= request->n_tokens);
    RV_ASSERT((int64_t)request->kv.cap_blocks * RV_KV_BLOCK_TOKENS >= max_tokens);
    if (rc)
        return rc;
    if (s->n_waiting >= s->config.max_waiting)
        return rv_fail(err, RUVLLM_BUSY, "%d requests are waiting already; try again later", s->n_waiting);
    request->ticket = s->n_submitted++;
    request->tenant = rv_fair_share_enter(&s->share, request->scope.tenant);
    request->n_cached = request->n_preempted = request->n_rows = request->n_given = 0;
    request->n_entered = request->n_guessed = 0;
    request->was_admitted = false;
    request->served_us = request->arrived_us;
    request->cursor = (struct rv_prefix_cursor){0};
    request->spilled = (struct rv_spill_run){0};
    request->n_spilled = 0;
    queue_add(s, request);
    if (outranks_last(s, request))
        s->pause = 0;
    return RUVLLM_OK;
}

void rv_scheduler_remove(struct rv_scheduler *scheduler, struct rv_request *request)
{
    struct rv_scheduler *s = scheduler;

    if (request->state == RV_REQUEST_OUT)
        return;
    if (request->state == RV_REQUEST_WAITING)
        queue_remove(s, request);
    else
        rv_running_set_remove(&s->running, request);
    for (int32_t i = 0; s->is_planned && i < s->n_parts; i++) {
        if (s->parts[i].request == request)
            s->parts[i].request = NULL;
    }
    rv_kv_seq_clear(&request->kv);
    rv_running_set_forget(&s->running, request);
    rv_fair_share_leave(&s->share, request->tenant);
    request->state = RV_REQUEST_OUT;
    s->pause = 0;
}

/* ---- admission ------------------------------------------------------------------------------ */

/* Shares what the tree has of a request's tokens. The last one is computed in any case: its result is wanted. */
static void share_prefix(struct rv_scheduler *s, struct rv_request *r)
{
    int32_t n = r->n_tokens - 1, n_blocks;

    if (!s->config.tree || r->no_cache)
        return;
    if (r->wants_all_rows)
        n = min_of(n, r->n_given); // what was never a result has to be computed
    /* The sequence's own table takes the numbers, and sharing writes each where it lies already. */
    n_blocks = rv_prefix_tree_find(s->config.tree, &r->scope, r->tokens, n, r->kv.blocks, &r->cursor);
    for (int32_t i = 0; i < n_blocks; i++)
        rv_kv_seq_share(&r->kv, r->kv.blocks[i]);
}

/* What a sequence will still take for the tokens it is known to have, beyond the n_blocks it has. */
static size_t bytes_to_come(const struct rv_request *r, int32_t n_blocks)
{
    int32_t n_held = min_of(r->n_tokens, n_blocks * RV_KV_BLOCK_TOKENS);
    size_t all = rv_kv_seq_bytes_of(&r->kv, r->n_tokens), held = rv_kv_seq_bytes_of(&r->kv, n_held);

    return all > held ? all - held : 0;
}

/* What a request would take that is admitted: its blocks in the spill file, and then its first chunk or all its tokens.
 */
static size_t bytes_to_begin(const struct rv_scheduler *s, const struct rv_request *r, int32_t max_rows)
{
    int32_t n_blocks = max_of(r->kv.n_blocks, r->spilled.n_blocks), n_rows = min_of(max_rows, rv_request_n_pending(r));
    int32_t len = r->n_tokens - rv_request_n_pending(r);
    size_t chunk, wanted = bytes_to_come(r, n_blocks), restored = 0;

    if (r->spilled.n_blocks > 0)
        restored = rv_spill_file_bytes(s->config.spill, &r->spilled, r->kv.n_blocks, INT32_MAX);
    n_rows = min_of(n_rows, rv_kv_seq_room_at(&r->kv, len));
    chunk = (size_t)((len + n_rows + RV_KV_BLOCK_TOKENS - 1) / RV_KV_BLOCK_TOKENS - n_blocks) *
            rv_block_pool_block_bytes(s->config.pool, RV_KV_BLOCK_F16);
    return restored + (wanted > chunk ? wanted : chunk);
}

/*
 * True when there is room for everything the request is known to need (its first chunk in full precision, the rest as
 * it ages), beside what those that run are known to need, and some to spare for what they will say. With less it would
 * be begun only to lose its blocks again. Alone, a request takes what it gets.
 */
static bool has_room(const struct rv_scheduler *s, const struct rv_request *r, int32_t max_rows)
{
    size_t wanted = bytes_to_begin(s, r, max_rows);

    if (s->running.n == 0)
        return true;
    for (int32_t i = 0; i < s->running.n; i++)
        wanted += bytes_to_come(s->running.requests[i], s->running.requests[i]->kv.n_blocks);
    wanted += (size_t)(s->running.n + 1) * rv_block_pool_block_bytes(s->config.pool, RV_KV_BLOCK_F16);
    return wanted <= rv_running_set_available(&s->running);
}

static bool preempt_for(struct rv_scheduler *s, const struct rv_request *r)
{
    bool can = outranks_last(s, r);

    if (can)
        rv_running_set_preempt_last(&s->running);
    return can;
}

static bool admit(struct rv_scheduler *s, struct rv_request *r, int32_t max_rows)
{
    if (!rv_running_set_can_restore(&s->running, r)) {
        s->is_blocked = true; // until the next plan
        return false;
    }
    if (s->running.n == s->running.max && !preempt_for(s, r))
        return false;
    share_prefix(s, r);
    while (!has_room(s, r, max_rows)) {
        if (preempt_for(s, r))
            continue;
        rv_kv_seq_clear(&r->kv);
        r->cursor = (struct rv_prefix_cursor){0};
        s->pause = PAUSE;
        s->is_blocked = true;
        return false;
    }
    if (!r->was_admitted)
        r->n_cached = min_of(r->kv.len, r->n_prompt);
    r->was_admitted = true;
    queue_remove(s, r);
    rv_running_set_restore(&s->running, r);
    rv_running_set_add(&s->running, r);
    return true;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* What changed between steps: tokens may have been taken back, and with them blocks the cursor stands behind. */
static void begin_plan(struct rv_scheduler *s)
{
    for (int32_t i = 0; i < s->running.n; i++) {
        struct rv_request *r = s->running.requests[i];

        r->n_rows = 0;
        if (r->cursor.n_blocks > r->kv.len / RV_KV_BLOCK_TOKENS)
            r->cursor = (struct rv_prefix_cursor){0};
    }
    rv_running_set_begin_plan(&s->running);
    s->is_blocked = s->pause > 0 && s->running.n > 0;
    s->pause -= s->pause > 0;
}

/* Rows for guesses, of those that nobody else could want, and as far as there is room without anybody giving way. */
static int32_t give_guess_rows(struct rv_scheduler *s, struct rv_request *r, int32_t max_rows)
{
    int32_t n = min_of(r->n_guessed, max_rows);

    /* Where blocks change their tier, everything before is certain: it happens at the same places without guesses. */
    n = max_of(min_of(n, rv_kv_seq_room(&r->kv) - 2), 0);
    if (n > 0 &&
        (rv_kv_seq_n_needed(&r->kv, 1 + n) > rv_block_pool_n_free(s->config.pool) || !rv_kv_seq_reserve(&r->kv, 1 + n)))
        n = 0;
    rv_request_drop_guesses(r, n);
    r->n_rows += n;
    return n;
}

/* A row for everyone who waits for the next token, and those of its guesses. Returns how many rows that were. */
static int32_t give_decode_rows(struct rv_scheduler *s)
{
    struct rv_running_set *set = &s->running;
    int32_t n = 0, n_left = s->config.max_rows - set->n;

    for (int32_t i = 0; i < set->n; i++) {
        struct rv_request *r = set->requests[i];

        if (!rv_request_is_decoding(r))
            continue;
        r->n_rows = rv_running_set_reserve(set, r, 1);
        if (r->n_guessed > 0)
            n_left -= give_guess_rows(s, r, r->n_rows > 0 ? n_left : 0);
        n += r->n_rows;
        /* Then it is the last one by now: everybody after it has been preempted for it. */
        if (r->n_rows == 0 && set->n > 1)
            rv_running_set_preempt_last(set);
    }
    return n;
}

/* What the tenant had that was served least among those with prompts. */
static uint64_t least_served(const struct rv_scheduler *s)
{
    uint64_t least = UINT64_MAX;

    for (int32_t i = 0; i < s->running.n; i++) {
        const struct rv_request *r = s->running.requests[i];

        if (rv_request_is_prompting(r) && s->share.tenants[r->tenant].served < least)
            least = s->share.tenants[r->tenant].served;
    }
    for (int32_t i = 0; i < s->n_waiting; i++) {
        if (s->share.tenants[s->waiting[i].tenant].served < least)
            least = s->share.tenants[s->waiting[i].tenant].served;
    }
    return least;
}

/* The prompts whose turn it is, in order; returns how many there are in all. */
static int32_t list_turns(struct rv_scheduler *s, int64_t now_us, struct rv_turn_list *list)
{
    const struct rv_request *last = rv_running_set_last(&s->running);
    int32_t n_running = 0, least = s->running.n == s->running.max ? rv_request_rank(last) + 1 : INT32_MIN;

    *list = (struct rv_turn_list){.share = &s->share,
                                  .now_us = now_us,
                                  .age_us = (int64_t)s->config.age_ms * 1000,
                                  .quantum = (uint64_t)s->config.prefill_rows * QUANTUM_STEPS,
                                  .turns = s->turns,
                                  .max = MAX_TURNS};
    list->least = least_served(s) / list->quantum;
    for (int32_t i = 0; i < s->running.n; i++) {
        struct rv_turn turn;

        if (!rv_request_is_prompting(s->running.requests[i]))
            continue;
        turn = rv_turn_of(s->running.requests[i]);
        rv_turn_list_add(list, &turn);
        n_running++;
    }
    for (int32_t i = 0; !s->is_blocked && i < s->n_waiting; i++) {
        /* In a full house only who could take a place from another; admit() looks closer. */
        if (s->waiting[i].rank >= least)
            rv_turn_list_add(list, &s->waiting[i]);
    }
    return n_running + s->n_waiting;
}

/* Raises a prompt's rows by up to n_more; returns by how many. */
static int32_t give_rows(struct rv_scheduler *s, struct rv_request *r, int32_t n_more)
{
    int32_t n_before = r->n_rows, n = n_before + n_more;

    n = min_of(n, rv_request_n_pending(r));
    n = min_of(n, rv_kv_seq_room(&r->kv));
    if (n > n_before)
        r->n_rows = rv_running_set_reserve(&s->running, r, n);
    return r->n_rows - n_before;
}

static int32_t take_turn(struct rv_scheduler *s, struct rv_request *r, int32_t max_rows)
{
    if (r->state == RV_REQUEST_WAITING) {
        if (r->i_waiting < 0 || s->is_blocked)
            return 0; // preempted by someone before it in this plan, or someone before it waits for room
        if (!admit(s, r, max_rows))
            return 0;
    }
    return give_rows(s, r, max_rows);
}

/*
 * Prompts by their turn. A step out of which somebody's first token comes is kept short: prompts that do not end in it
 * get together no more rows than those that do, or one share of the budget if that is more.
 */
static void give_prompt_rows(struct rv_scheduler *s, int64_t now_us, int32_t n_decode)
{
    struct rv_turn_list list;
    int32_t n_prompts = list_turns(s, now_us, &list), n_ending = 0, n_others = 0;
    int32_t budget = s->config.max_rows - n_decode, most;

    if (n_decode > 0 || n_prompts > 1)
        budget = min_of(budget, s->config.prefill_rows);
    most = n_prompts > 1 ? budget - budget / TURN_SHARE : budget; // for one; the rest is for the next in turn
    for (int32_t i = 0; i < list.n && n_ending + n_others < budget; i++) {
        struct rv_request *r = list.turns[i].request;
        int32_t n = min_of(most, budget - n_ending - n_others);

        if (n_ending > 0 && rv_request_n_pending(r) > n)
            n = min_of(n, max_of(n_ending, budget / TURN_SHARE) - n_others);
        n = n > 0 ? take_turn(s, r, n) : 0;
        *(n == rv_request_n_pending(r) ? &n_ending : &n_others) += n;
    }
    for (int32_t i = 0; i < list.n && n_ending == 0 && n_others < budget; i++) {
        if (list.turns[i].request->n_rows > 0)
            n_others += give_rows(s, list.turns[i].request, budget - n_others);
    }
}

/*
 * Nobody could go on: those whose turn it was found nobody less urgent. The most urgent one can take from everybody. If
 * even that is not enough, it stands in a block that the tree has too and lacks the room for a copy: then the tokens
 * of that block are computed again.
 */
static void give_first_a_row(struct rv_scheduler *s)
{
    struct rv_request *r = s->running.n > 0 ? s->running.requests[0] : NULL;

    if (!r || rv_request_n_pending(r) < 1)
        return;
    r->n_rows = rv_running_set_reserve(&s->running, r, 1);
    if (r->n_rows > 0)
        return;
    (void)rv_kv_seq_trim(&r->kv, r->kv.len - r->kv.len % RV_KV_BLOCK_TOKENS);
    r->n_rows = rv_running_set_reserve(&s->running, r, 1);
}

/* ---- the step ------------------------------------------------------------------------------- */

static void write_part(struct rv_scheduler *s, struct rv_request *r, struct rv_scheduler_step *step)
{
    struct rv_scheduler_part *part = &s->parts[s->n_parts];
    int32_t end = r->kv.len + r->n_rows, first_out = end;

    if (end == r->n_tokens)
        first_out = end - 1 - r->n_guessed;
    if (r->wants_all_rows && r->n_given < first_out)
        first_out = r->n_given > r->kv.len ? r->n_given : r->kv.len;
    *part = (struct rv_scheduler_part){.request = r,
                                       .first_row = step->n_rows,
                                       .n_rows = r->n_rows,
                                       .first_out = step->n_out,
                                       .n_out = end - first_out};
    for (int32_t pos = r->kv.len; pos < end; pos++) {
        if (pos >= first_out)
            s->out_rows[step->n_out++] = step->n_rows;
        s->tokens[step->n_rows] = r->tokens[pos];
        s->pos[step->n_rows] = pos;
        s->seq[step->n_rows] = s->n_parts;
        step->n_rows++;
    }
    s->n_parts++;
}

/* Decoding sequences first; each kind most urgent first. */
static void write_step(struct rv_scheduler *s, int64_t now_us, struct rv_scheduler_step *step)
{
    *step = (struct rv_scheduler_step){
        .parts = s->parts, .tokens = s->tokens, .pos = s->pos, .seq = s->seq, .out_rows = s->out_rows};
    s->n_parts = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < s->running.n; i++) {
            struct rv_request *r = s->running.requests[i];
            bool is_decode = rv_request_is_decoding(r);

            if (r->n_rows == 0 || is_decode != (pass == 0))
                continue;
            if (r->n_rows >= min_of(rv_request_n_pending(r), s->config.prefill_rows / TURN_SHARE))
                r->served_us = now_us; // a few rows that were left over do not end a prompt's waiting
            write_part(s, r, step);
        }
    }
    step->n_parts = s->n_parts;
    s->is_planned = step->n_rows > 0;
}

bool rv_scheduler_plan(struct rv_scheduler *scheduler, int64_t now_us, struct rv_scheduler_step *step)
{
    struct rv_scheduler *s = scheduler;

    begin_plan(s);
    give_prompt_rows(s, now_us, give_decode_rows(s));
    write_step(s, now_us, step);
    if (step->n_rows == 0) {
        give_first_a_row(s);
        write_step(s, now_us, step);
    }
    while (s->running.lost) {
        struct rv_request *lost = s->running.lost;

        s->running.lost = lost->next_lost;
        queue_add(s, lost);
    }
    return step->n_rows > 0;
}

void rv_scheduler_complete(struct rv_scheduler *scheduler, const struct rv_scheduler_step *step)
{
    struct rv_scheduler *s = scheduler;

    RV_ASSERT(s->is_planned && step->parts == s->parts);
    s->is_planned = false;
    for (int32_t i = 0; i < step->n_parts; i++) {
        struct rv_request *r = step->parts[i].request;
        int32_t n = step->parts[i].n_rows, len, certain;

        if (!r)
            continue;
        len = r->kv.len;
        rv_kv_seq_advance(&r->kv, n);
        certain = r->kv.len - r->n_guessed;
        r->n_entered = min_of(r->n_entered, len);
        rv_fair_share_charge(&s->share, r->tenant, n, r->share);
        if (r->n_given < r->kv.len)
            r->n_given = r->kv.len;
        if (s->config.tree && !r->no_cache && certain / RV_KV_BLOCK_TOKENS > r->n_entered / RV_KV_BLOCK_TOKENS)
            rv_prefix_tree_insert(s->config.tree, &r->scope, r->tokens, r->kv.blocks, certain / RV_KV_BLOCK_TOKENS,
                                  &r->cursor);
        r->n_entered = certain;
        if (r->kv.len / RV_KV_SEQ_STRIDE > len / RV_KV_SEQ_STRIDE)
            s->n_migrated += (uint64_t)rv_kv_seq_migrate(&r->kv);
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

static ruvllm_status check_config(const struct rv_scheduler_config *c, struct ruvllm_error *err)
{
    const char *field = NULL;

    if (c->max_running < 1)
        field = "max_running";
    else if (c->max_waiting < 1 || c->max_waiting > INT32_MAX / 4 - c->max_running)
        field = "max_waiting";
    else if (c->max_rows < c->max_running)
        field = "max_rows";
    else if (c->prefill_rows < 1)
        field = "prefill_rows";
    if (field)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG, "'%s' is out of range", field);
    return RUVLLM_OK;
}

static ruvllm_status allocate(struct rv_scheduler *s, struct ruvllm_error *err)
{
    const struct rv_scheduler_config *c = &s->config;
    size_t n_rows = (size_t)c->max_rows;
    ruvllm_status rc;

    s->max_waiting = c->max_waiting + c->max_running;
    s->waiting = rv_calloc((size_t)s->max_waiting, sizeof(*s->waiting));
    s->parts = rv_calloc((size_t)c->max_running, sizeof(*s->parts));
    s->tokens = rv_calloc(n_rows, sizeof(*s->tokens));
    s->pos = rv_calloc(n_rows, sizeof(*s->pos));
    s->seq = rv_calloc(n_rows, sizeof(*s->seq));
    s->out_rows = rv_calloc(n_rows, sizeof(*s->out_rows));
    if (!s->waiting || !s->parts || !s->tokens || !s->pos || !s->seq || !s->out_rows)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a queue of %d requests", s->max_waiting);
    rc = rv_running_set_init(&s->running, c->pool, c->tree, c->max_running, err);
    rv_running_set_spill_to(&s->running, c->spill, c->spill_step_bytes);
    s->running.on_vacant = c->on_vacant;
    s->running.user = c->user;
    return rc ? rc : rv_fair_share_init(&s->share, s->max_waiting, err);
}

ruvllm_status rv_scheduler_new(struct rv_scheduler **out, const struct rv_scheduler_config *config,
                               struct ruvllm_error *err)
{
    struct rv_scheduler *s = NULL;
    ruvllm_status rc = check_config(config, err);

    *out = NULL;
    if (rc)
        return rc;
    s = rv_calloc(1, sizeof(*s));
    if (!s)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a scheduler");
    s->config = *config;
    rc = allocate(s, err);
    if (rc) {
        rv_scheduler_free(s);
        return rc;
    }
    *out = s;
    return RUVLLM_OK;
}

void rv_scheduler_free(struct rv_scheduler *scheduler)
{
    struct rv_scheduler *s = scheduler;

    if (!s)
        return;
    rv_running_set_release(&s->running);
    rv_fair_share_release(&s->share);
    rv_free(s->waiting);
    rv_free(s->parts);
    rv_free(s->tokens);
    rv_free(s->pos);
    rv_free(s->seq);
    rv_free(s->out_rows);
    rv_free(s);
}

void rv_scheduler_stats_get(const struct rv_scheduler *scheduler, struct rv_scheduler_stats *out)
{
    const struct rv_scheduler *s = scheduler;

    *out = (struct rv_scheduler_stats){.n_running = s->running.n,
                                       .n_waiting = s->n_waiting,
                                       .n_preempted = s->running.n_preempted,
                                       .n_squeezed = s->running.n_squeezed,
                                       .n_evicted = s->running.n_evicted,
                                       .n_migrated = s->n_migrated,
                                       .n_spilled = s->running.n_spilled,
                                       .n_restored = s->running.n_restored};
}

bool rv_scheduler_check(const struct rv_scheduler *scheduler)
{
    const struct rv_scheduler *s = scheduler;
    int32_t n_requests = 0;

    for (int32_t i = 0; i < s->n_waiting; i++) {
        const struct rv_request *r = s->waiting[i].request;

        if (r->n_spilled > r->n_tokens || (r->n_spilled > 0) != (r->spilled.n_blocks > 0) ||
            r->n_spilled > r->spilled.n_blocks * RV_KV_BLOCK_TOKENS ||
            r->n_spilled <= (r->spilled.n_blocks - 1) * RV_KV_BLOCK_TOKENS)
            return false;

        if (r->state != RV_REQUEST_WAITING || r->i_waiting != i || r->kv.n_blocks != 0 ||
            s->waiting[i].n_left != rv_request_n_pending(r) || s->waiting[i].rank != rv_request_rank(r))
            return false;
    }
    for (int32_t i = 0; i < s->share.n_rows; i++)
        n_requests += s->share.tenants[i].n_requests > 0 ? s->share.tenants[i].n_requests : 0;
    return n_requests == s->n_waiting + s->running.n && rv_fair_share_check(&s->share) &&
           rv_running_set_check(&s->running);
}
