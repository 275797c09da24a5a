/* See the header; rv_request is the first member of sched_request, which is how parts lead back to it. */
#include "support/sched_fixture.h"

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

static int32_t or_default(int32_t value, int32_t fallback)
{
    return value ? value : fallback;
}

static void open_scheduler(struct sched_fixture *f, const struct rv_scheduler_config *config)
{
    struct rv_scheduler_config *c = &f->config;

    if (config)
        *c = *config;
    c->pool = f->pool;
    c->tree = f->tree;
    c->spill = f->spill;
    c->spill_step_bytes = c->spill_step_bytes ? c->spill_step_bytes : (size_t)1 << 30;
    c->max_running = or_default(c->max_running, 8);
    c->max_waiting = or_default(c->max_waiting, 64);
    c->max_rows = or_default(c->max_rows, 256);
    c->prefill_rows = or_default(c->prefill_rows, 64);
    c->age_ms = or_default(c->age_ms, 1000);
    assert_ok(rv_scheduler_new(&f->scheduler, c, err));
}

static void open_blocks(struct sched_fixture *f, int32_t n_blocks)
{
    struct rv_prefix_tree_config tree = {.tenant_floor = 2, .secret = {1, 2, 3}};

    *f = (struct sched_fixture){.policy = rv_tier_policy_default(), .n_blocks = n_blocks};
    f->pool = kv_fixture_pool(n_blocks);
    tree.pool = f->pool;
    tree.max_nodes = rv_block_pool_n_ids(f->pool);
    assert_ok(rv_prefix_tree_new(&f->tree, &tree, err));
}

void sched_fixture_open(struct sched_fixture *f, int32_t n_blocks, const struct rv_scheduler_config *config)
{
    open_blocks(f, n_blocks);
    open_scheduler(f, config);
}

void sched_fixture_open_spilling(struct sched_fixture *f, int32_t n_blocks, const struct rv_scheduler_config *config,
                                 int32_t n_spilled)
{
    struct rv_spill_file_config spill = {.dir = "/tmp"};

    open_blocks(f, n_blocks);
    spill.pool = f->pool;
    spill.budget = (uint64_t)n_spilled * rv_block_pool_block_bytes(f->pool, RV_KV_BLOCK_F16);
    assert_ok(rv_spill_file_open(&f->spill, &spill, err));
    open_scheduler(f, config);
}

void sched_fixture_check(const struct sched_fixture *f)
{
    assert_true(rv_block_pool_check(f->pool));
    assert_true(rv_prefix_tree_check(f->tree));
    assert_true(rv_scheduler_check(f->scheduler));
    if (f->spill)
        assert_true(rv_spill_file_check(f->spill));
}

void sched_fixture_close(struct sched_fixture *f)
{
    int32_t n_nodes = rv_prefix_tree_n_nodes(f->tree);

    sched_fixture_check(f);
    rv_scheduler_free(f->scheduler);
    if (f->spill)
        assert_int_equal(rv_spill_file_n_blocks(f->spill), 0);
    rv_spill_file_close(f->spill);
    assert_int_equal(rv_block_pool_n_idle(f->pool), n_nodes);
    assert_int_equal(rv_prefix_tree_evict(f->tree, 0, INT32_MAX), n_nodes);
    assert_int_equal(rv_block_pool_n_free(f->pool), f->n_blocks);
    rv_prefix_tree_free(f->tree);
    assert_true(rv_block_pool_check(f->pool));
    rv_block_pool_free(f->pool);
}

/* ---- requests ------------------------------------------------------------------------------- */

static int32_t token_at(const struct sched_request *r, int32_t pos)
{
    uint64_t z = (pos < r->n_same ? (uint64_t)r->text : r->own) * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)pos;

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return 1 + (int32_t)((z ^ z >> 31) % KV_FIXTURE_TOKENS);
}

/* No two requests say the same unless they are told to. */
static uint64_t new_number(void)
{
    static uint64_t n = 1000000;

    return n++;
}

void sched_request_init(struct sched_fixture *f, struct sched_request *r, uint64_t tenant, int32_t n_prompt,
                        int32_t max_tokens)
{
    *r = (struct sched_request){.max_tokens = max_tokens, .own = new_number()};
    r->tokens = calloc((size_t)max_tokens, sizeof(*r->tokens));
    r->results = calloc((size_t)max_tokens, 1);
    assert_true(r->tokens && r->results);
    r->request = (struct rv_request){.scope = {.model = 1, .tenant = tenant},
                                     .arrived_us = f->now_us,
                                     .tokens = r->tokens,
                                     .n_prompt = n_prompt,
                                     .n_tokens = n_prompt};
    assert_ok(rv_kv_seq_init(&r->request.kv, f->pool, &f->policy, max_tokens, err));
    sched_request_begin_with(r, 0, 0);
}

void sched_request_begin_with(struct sched_request *r, int32_t text, int32_t n_same)
{
    r->text = text;
    r->n_same = n_same;
    for (int32_t i = 0; i < r->request.n_tokens; i++)
        r->tokens[i] = token_at(r, i);
}

void sched_request_change(struct sched_request *r, int32_t from)
{
    r->own = new_number();
    r->n_same = r->n_same < from ? r->n_same : from;
    for (int32_t i = from; i < r->request.n_tokens; i++)
        r->tokens[i] = token_at(r, i);
}

void sched_request_release(struct sched_request *r)
{
    rv_kv_seq_release(&r->request.kv);
    free(r->tokens);
    free(r->results);
    *r = (struct sched_request){0};
}

void sched_fixture_submit(struct sched_fixture *f, struct sched_request *r)
{
    assert_ok(rv_scheduler_submit(f->scheduler, &r->request, r->max_tokens, err));
}

void sched_fixture_end(struct sched_fixture *f, struct sched_request *r)
{
    rv_scheduler_remove(f->scheduler, &r->request);
    assert_int_equal(r->request.kv.n_blocks, 0);
    sched_request_release(r);
}

void sched_fixture_start(struct sched_fixture *f, struct sched_request *r, uint64_t tenant, int32_t n_prompt,
                         int32_t max_tokens)
{
    sched_request_init(f, r, tenant, n_prompt, max_tokens);
    sched_fixture_submit(f, r);
}

struct rv_scheduler_stats sched_fixture_stats(const struct sched_fixture *f)
{
    struct rv_scheduler_stats stats;

    rv_scheduler_stats_get(f->scheduler, &stats);
    return stats;
}

bool sched_request_is_done(const struct sched_request *r)
{
    return r->request.n_tokens == r->max_tokens && r->request.kv.len == r->max_tokens;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void check_part(const struct rv_scheduler_step *step, int32_t index)
{
    const struct rv_scheduler_part *part = &step->parts[index];
    const struct rv_request *r = part->request;
    bool is_last = r->kv.len + part->n_rows == r->n_tokens;

    assert_int_equal(r->state, RV_REQUEST_RUNNING);
    assert_in_range(part->n_rows, 1, rv_request_n_pending(r));
    assert_true(part->n_rows <= rv_kv_seq_room(&r->kv));
    assert_true(r->kv.n_blocks * RV_KV_BLOCK_TOKENS >= r->kv.len + part->n_rows);
    if (!r->wants_all_rows)
        assert_int_equal(part->n_out, is_last ? 1 + r->n_guessed : 0);
    for (int32_t i = 0; i < part->n_rows; i++) {
        int32_t row = part->first_row + i;

        assert_int_equal(step->pos[row], r->kv.len + i);
        assert_int_equal(step->tokens[row], r->tokens[r->kv.len + i]);
        assert_int_equal(step->seq[row], index);
    }
    for (int32_t i = 0; i < part->n_out; i++)
        assert_int_equal(step->out_rows[part->first_out + i], part->first_row + part->n_rows - part->n_out + i);
}

static void check_step(const struct sched_fixture *f, const struct rv_scheduler_step *step)
{
    int32_t n_rows = 0, n_out = 0, n_decode = 0;

    for (int32_t i = 0; i < step->n_parts; i++) {
        assert_int_equal(step->parts[i].first_row, n_rows);
        assert_int_equal(step->parts[i].first_out, n_out);
        check_part(step, i);
        if (rv_request_is_decoding(step->parts[i].request))
            n_decode += 1 + step->parts[i].request->n_guessed;
        n_rows += step->parts[i].n_rows;
        n_out += step->parts[i].n_out;
    }
    assert_int_equal(step->n_rows, n_rows);
    assert_int_equal(step->n_out, n_out);
    assert_in_range(n_rows, 1, f->config.max_rows);
    if (n_decode > 0)
        assert_true(n_rows - n_decode <= f->config.prefill_rows);
}

bool sched_fixture_plan(struct sched_fixture *f, struct rv_scheduler_step *step)
{
    if (!rv_scheduler_plan(f->scheduler, f->now_us, step))
        return false;
    check_step(f, step);
    return true;
}

void sched_request_guess(struct sched_request *r, int32_t n_right, int32_t n_wrong)
{
    if (r->request.state != RV_REQUEST_RUNNING || !rv_request_is_decoding(&r->request))
        return;
    for (int32_t i = 0; i < n_right + n_wrong && r->request.n_tokens < r->max_tokens; i++) {
        int32_t token = token_at(r, r->request.n_tokens);

        r->tokens[r->request.n_tokens++] = i < n_right ? token : token % KV_FIXTURE_TOKENS + 1;
        r->request.n_guessed++;
    }
}

/* As the engine does: what was guessed wrong, and all behind it, was never said. */
static void take_guesses_back(struct sched_request *r)
{
    int32_t n = r->request.n_tokens - r->request.n_guessed;

    while (n < r->request.n_tokens && r->tokens[n] == token_at(r, n))
        n++;
    if (r->request.n_guessed == 0)
        return;
    r->request.n_guessed = 0;
    r->request.n_tokens = n;
    assert_int_equal(rv_kv_seq_trim(&r->request.kv, n), n);
}

void sched_fixture_compute(struct sched_fixture *f, const struct rv_scheduler_step *step)
{
    for (int32_t i = 0; i < step->n_parts; i++) {
        struct rv_request *request = step->parts[i].request;

        for (int32_t row = step->parts[i].first_row; request && row < step->parts[i].first_row + step->parts[i].n_rows;
             row++) {
            int32_t block = request->kv.blocks[step->pos[row] / RV_KV_BLOCK_TOKENS];

            assert_int_equal(rv_block_pool_refs(f->pool, block), 1);
            assert_false(rv_block_pool_is_cached(f->pool, block));
            kv_fixture_write(f->pool, block, step->pos[row] % RV_KV_BLOCK_TOKENS, step->tokens[row]);
        }
    }
    rv_scheduler_complete(f->scheduler, step);
    for (int32_t i = 0; i < step->n_parts; i++) {
        const struct rv_scheduler_part *part = &step->parts[i];
        struct sched_request *r = (struct sched_request *)part->request;

        if (!r)
            continue;
        take_guesses_back(r);
        for (int32_t k = 0; k < part->n_out; k++)
            r->results[step->pos[step->out_rows[part->first_out + k]]]++;
        r->n_results += part->n_out;
        if (part->n_out > 0 && r->request.n_tokens < r->max_tokens) {
            r->tokens[r->request.n_tokens] = token_at(r, r->request.n_tokens);
            r->request.n_tokens++;
        }
    }
}

bool sched_fixture_step(struct sched_fixture *f)
{
    struct rv_scheduler_step step;

    if (!sched_fixture_plan(f, &step))
        return false;
    sched_fixture_compute(f, &step);
    f->now_us += 10000;
    return true;
}

const struct rv_scheduler_part *sched_fixture_part(const struct rv_scheduler_step *step, const struct sched_request *r)
{
    for (int32_t i = 0; i < step->n_parts; i++) {
        if (step->parts[i].request == &r->request)
            return &step->parts[i];
    }
    return NULL;
}

int32_t sched_fixture_rows(const struct rv_scheduler_step *step, const struct sched_request *r)
{
    const struct rv_scheduler_part *part = sched_fixture_part(step, r);

    return part ? part->n_rows : 0;
}

void sched_fixture_run(struct sched_fixture *f, const struct sched_request *r, int32_t n_steps)
{
    for (int32_t i = 0; i < n_steps && !sched_request_is_done(r); i++)
        assert_true(sched_fixture_step(f));
    assert_true(sched_request_is_done(r));
    sched_fixture_check(f);
}
