#include "learn/tenant_learner.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "kernels/vec.h"
#include "learn/distil.h"
#include "learn/head_basis.h"

#include <math.h>
#include <string.h>

enum { VERSION = 1, HEADER_BYTES = 8 };

static const double REACH_UP = 0.012, REACH_DOWN = 0.024, LEAST_SHARE = 0.07, MAX_ODDS = 3;
static const double SURPRISE = 1; // advantage of a bad vote, from which on it is remembered

/* Of a bad answer's tokens those that had rivals: their odds go down to a quarter. */
static const struct rv_memory_page_choice AGAINST = {.strength = -0.75f, .least = 0.1f, .most = 0.9f, .max_keys = 4};

/* ---- states --------------------------------------------------------------------------------- */

static void copy_state(struct rv_tenant_state *to, const struct rv_tenant_state *from)
{
    struct rv_head_adapter adapter = to->adapter;
    struct rv_memory *memory = to->memory;

    *to = *from;
    to->adapter = adapter;
    rv_head_adapter_copy(&to->adapter, &from->adapter);
    to->memory = from->memory ? rv_memory_ref(from->memory) : NULL;
    rv_memory_unref(memory);
}

static struct rv_tenant_state *slot_of(struct rv_tenant_learner *l, int64_t generation)
{
    return &l->snapshots[generation % RV_TENANT_LEARNER_SNAPSHOTS];
}

/* Nothing is folded in a snapshot, so it has no rows to spare. */
ruvllm_status rv_tenant_learner_make_room(struct rv_tenant_learner *l, int64_t generation, struct ruvllm_error *err)
{
    struct rv_head_adapter *adapter = &slot_of(l, generation)->adapter;
    size_t n = (size_t)l->now.adapter.rank * (size_t)l->now.adapter.n_dims;

    if (adapter->a)
        return RUVLLM_OK;
    *adapter = (struct rv_head_adapter){.n_dims = l->now.adapter.n_dims, .rank = l->now.adapter.rank};
    adapter->a = rv_calloc(n, sizeof(*adapter->a));
    adapter->b = rv_calloc(n, sizeof(*adapter->b));
    if (adapter->a && adapter->b)
        return RUVLLM_OK;
    rv_head_adapter_release(adapter);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a snapshot of %zu numbers", 2 * n);
}

/* Room for the next generation's snapshot, before anything changes. */
static ruvllm_status make_room(struct rv_tenant_learner *l, struct ruvllm_error *err)
{
    return rv_tenant_learner_make_room(l, l->now.generation + 1, err);
}

/* The newest memory with its keys; older ones share these, and have tables of their own. */
static uint64_t memory_bytes(const struct rv_tenant_learner *l)
{
    enum { TABLE_BYTES = 24 }; // of a key in a memory, roughly
    uint64_t row = (uint64_t)l->now.adapter.n_dims * sizeof(uint16_t) + sizeof(struct rv_memory_key);
    uint64_t bytes = (uint64_t)rv_memory_n_keys(l->now.memory) * (row + TABLE_BYTES);

    for (int i = 0; i < RV_TENANT_LEARNER_SNAPSHOTS; i++) {
        if (l->snapshots[i].memory != l->now.memory)
            bytes += (uint64_t)rv_memory_n_keys(l->snapshots[i].memory) * TABLE_BYTES;
    }
    return bytes;
}

uint64_t rv_tenant_learner_n_bytes(const struct rv_tenant_learner *l)
{
    uint64_t dims = (uint64_t)l->now.adapter.n_dims, rank = (uint64_t)l->now.adapter.rank;
    uint64_t rows = RV_HEAD_ADAPTER_SCRATCH + 2 * (rank + RV_HEAD_ADAPTER_STEP_RANK);

    for (int i = 0; i < RV_TENANT_LEARNER_SNAPSHOTS; i++)
        rows += l->snapshots[i].adapter.a ? 2 * rank : 0;
    return sizeof(*l) + rows * dims * sizeof(float) + memory_bytes(l);
}

void rv_tenant_learner_resume(struct rv_tenant_learner *l, int64_t generation)
{
    copy_state(&l->now, slot_of(l, generation));
}

static void next_generation(struct rv_tenant_learner *l)
{
    l->now.generation++;
    copy_state(slot_of(l, l->now.generation), &l->now);
}

ruvllm_status rv_tenant_learner_new(struct rv_tenant_learner **out, const struct rv_whitening *whitening, int32_t rank,
                                    struct ruvllm_error *err)
{
    struct rv_tenant_learner *l = rv_calloc(1, sizeof(*l));
    ruvllm_status rc;

    *out = NULL;
    if (!l)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what a tenant learns");
    l->whitening = whitening;
    l->now.mean = 0.5;
    l->now.variance = 0.05;
    l->scratch = rv_realloc_array(NULL, RV_HEAD_ADAPTER_SCRATCH * (size_t)whitening->n_dims, sizeof(*l->scratch));
    rc = l->scratch ? rv_head_adapter_init(&l->now.adapter, whitening->n_dims, rank, err)
                    : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what a tenant learns");
    if (rc) {
        rv_tenant_learner_free(l);
        return rc;
    }
    *out = l;
    return RUVLLM_OK;
}

void rv_tenant_learner_free(struct rv_tenant_learner *learner)
{
    if (!learner)
        return;
    for (int i = 0; i < RV_TENANT_LEARNER_SNAPSHOTS; i++) {
        rv_head_adapter_release(&learner->snapshots[i].adapter);
        rv_memory_unref(learner->snapshots[i].memory);
    }
    rv_head_adapter_release(&learner->now.adapter);
    rv_memory_unref(learner->now.memory);
    rv_free(learner->scratch);
    rv_free(learner);
}

/* ---- votes ---------------------------------------------------------------------------------- */

/* How much a vote of its own counts among the tenant's: 1 for the first, then less. */
static double share_of(const struct rv_tenant_state *s)
{
    return 3 / ((double)s->n_votes + 3);
}

/*
 * A lone vote against an answer lowers tokens by their odds: what was unlikely anyway is left alone. Among many, only
 * the plain weight is fair: then what good and bad answers have in common cancels out.
 */
static void weigh_rows(const struct rv_trace *trace, double advantage, double share, float *weights)
{
    for (int32_t i = 0; i < trace->n_rows; i++) {
        double p = exp((double)trace->logprobs[i]), odds = p / (1 - p + 1e-6);

        odds = odds < MAX_ODDS ? odds : MAX_ODDS;
        weights[i] = (float)(advantage > 0 ? advantage : advantage * (share * odds + 1 - share));
    }
}

static double advantage_of(const struct rv_tenant_state *s, double score)
{
    double deviation = sqrt(s->variance) > 0.1 ? sqrt(s->variance) : 0.1;
    double a = (score - s->mean) / deviation;

    return a > 2 ? 2 : a < -2 ? -2 : a;
}

static double reach_of(const struct rv_tenant_state *s, double advantage)
{
    double share = share_of(s);

    return (advantage > 0 ? REACH_UP : REACH_DOWN) * (share > LEAST_SHARE ? share : LEAST_SHARE) * advantage *
           advantage / 4;
}

ruvllm_status rv_tenant_learner_init_vote(struct rv_tenant_vote *vote, int32_t n_dims, struct ruvllm_error *err)
{
    size_t n = (size_t)n_dims * RV_HEAD_ADAPTER_STEP_RANK;

    *vote = (struct rv_tenant_vote){0};
    vote->memory = rv_calloc(2 * n, sizeof(*vote->memory));
    if (!vote->memory)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a step of %d numbers", (int)n_dims);
    vote->step.a = vote->memory;
    vote->step.b = vote->memory + n;
    return RUVLLM_OK;
}

ruvllm_status rv_tenant_learner_weigh(struct rv_tenant_learner *learner, const struct rv_trace *trace, double score,
                                      struct rv_tenant_vote *vote, struct ruvllm_error *err)
{
    float weights[RV_TRACE_MAX_ROWS];
    struct rv_head_rows rows = {.n = (size_t)trace->n_rows,
                                .states = trace->states,
                                .gradients = trace->gradients,
                                .probes = trace->probes,
                                .weights = weights};
    ruvllm_status rc;

    if (!(score >= 0 && score <= 1))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "a score lies between 0 and 1, and is %g", score);
    rc = rv_tenant_learner_init_vote(vote, trace->n_dims, err);
    if (rc)
        return rc;
    vote->score = score;
    vote->advantage = advantage_of(&learner->now, score);
    weigh_rows(trace, vote->advantage, share_of(&learner->now), weights);
    if (learner->now.flood.n_paused > 0)
        return RUVLLM_OK;
    rv_head_adapter_step(&vote->step, &rows, learner->whitening,
                         reach_of(&learner->now, vote->advantage) * (trace->reach > 0 ? trace->reach : 1), 2,
                         learner->scratch);
    if (vote->advantage > -SURPRISE)
        return RUVLLM_OK;
    rc = rv_memory_page_add(&vote->keys, trace, &AGAINST, learner->whitening, learner->scratch, err);
    if (rc)
        rv_tenant_learner_release_vote(vote);
    return rc;
}

void rv_tenant_learner_release_vote(struct rv_tenant_vote *vote)
{
    rv_memory_page_unref(vote->keys);
    rv_free(vote->memory);
    *vote = (struct rv_tenant_vote){0};
}

/* Version, pairs, width; how far it goes; then A and B. Little-endian, as every machine we run on. */
ruvllm_status rv_tenant_learner_write_vote(const struct rv_tenant_vote *vote, int32_t n_dims, struct rv_str *out,
                                           struct ruvllm_error *err)
{
    uint8_t header[HEADER_BYTES] = {VERSION, (uint8_t)vote->step.n_pairs};
    size_t n = (size_t)vote->step.n_pairs * (size_t)n_dims * sizeof(uint16_t);
    size_t len = HEADER_BYTES + sizeof(double) + 2 * n;
    char *bytes = rv_malloc(len);

    if (!bytes)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", len);
    memcpy(header + 4, &n_dims, sizeof(n_dims));
    memcpy(bytes, header, HEADER_BYTES);
    memcpy(bytes + HEADER_BYTES, &vote->step.kl, sizeof(double));
    memcpy(bytes + HEADER_BYTES + sizeof(double), vote->step.a, n);
    memcpy(bytes + HEADER_BYTES + sizeof(double) + n, vote->step.b, n);
    *out = (struct rv_str){.data = bytes, .len = len};
    return RUVLLM_OK;
}

ruvllm_status rv_tenant_learner_read_vote(struct rv_tenant_vote *out, int32_t n_dims, double score, struct rv_str bytes,
                                          struct ruvllm_error *err)
{
    const uint8_t *header = (const uint8_t *)bytes.data;
    int32_t width = 0;
    size_t n;
    ruvllm_status rc;

    *out = (struct rv_tenant_vote){0};
    if (bytes.len >= HEADER_BYTES + sizeof(double))
        memcpy(&width, header + 4, sizeof(width));
    if (width != n_dims || header[0] != VERSION || header[1] > RV_HEAD_ADAPTER_STEP_RANK || !(score >= 0 && score <= 1))
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                            "an event of the log is damaged or of another model");
    n = (size_t)header[1] * (size_t)n_dims * sizeof(uint16_t);
    if (bytes.len != HEADER_BYTES + sizeof(double) + 2 * n)
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA, "an event of the log is cut short");
    rc = rv_tenant_learner_init_vote(out, n_dims, err);
    if (rc)
        return rc;
    out->score = score;
    out->step.n_pairs = header[1];
    memcpy(&out->step.kl, bytes.data + HEADER_BYTES, sizeof(double));
    memcpy(out->step.a, bytes.data + HEADER_BYTES + sizeof(double), n);
    memcpy(out->step.b, bytes.data + HEADER_BYTES + sizeof(double) + n, n);
    return RUVLLM_OK;
}

/* ---- generations ---------------------------------------------------------------------------- */

/* How the running picture of scores changes. */
static void count_score(struct rv_tenant_state *s, double score)
{
    double rate = s->n_votes < 49 ? 1.0 / (double)(s->n_votes + 2) : 0.02, off = score - s->mean;

    s->variance += rate * (off * off - s->variance);
    s->mean += rate * off;
    s->n_votes++;
}

ruvllm_status rv_tenant_learner_apply(struct rv_tenant_learner *learner, const struct rv_tenant_vote *vote,
                                      struct ruvllm_error *err)
{
    struct rv_tenant_state *s = &learner->now;
    struct rv_memory *memory = NULL;
    ruvllm_status rc = make_room(learner, err);

    if (!rc && vote->keys)
        rc = rv_memory_extend(&memory, s->memory, vote->keys, learner->whitening, err);
    if (rc)
        return rc;
    if (memory) {
        rv_memory_unref(s->memory);
        s->memory = memory;
    }
    if (vote->is_lesson) {
        s->n_lessons++;
    } else {
        rv_flood_add(&s->flood, vote->score, s->mean, s->generation);
        count_score(s, vote->score);
    }
    s->spent_kl += vote->step.kl;
    rv_head_adapter_fold(&s->adapter, &vote->step, 1.0f, learner->whitening, learner->scratch);
    next_generation(learner);
    return RUVLLM_OK;
}

ruvllm_status rv_tenant_learner_set_deep(struct rv_tenant_learner *learner, int64_t deep, struct rv_str distilled,
                                         struct ruvllm_error *err)
{
    struct rv_memory *memory = NULL;
    ruvllm_status rc = make_room(learner, err);

    if (!rc)
        rc = rv_distil_drop(&memory, learner->now.memory, distilled, err);
    if (rc)
        return rc;
    rv_memory_unref(learner->now.memory);
    learner->now.memory = memory;
    learner->now.deep = deep;
    next_generation(learner);
    return RUVLLM_OK;
}

ruvllm_status rv_tenant_learner_skip(struct rv_tenant_learner *learner, struct ruvllm_error *err)
{
    ruvllm_status rc = make_room(learner, err);

    if (!rc)
        next_generation(learner);
    return rc;
}

bool rv_tenant_learner_has(const struct rv_tenant_learner *learner, int64_t generation)
{
    return generation == 0 ||
           (generation > 0 && learner->snapshots[generation % RV_TENANT_LEARNER_SNAPSHOTS].generation == generation);
}

ruvllm_status rv_tenant_learner_go_back(struct rv_tenant_learner *learner, int64_t generation, struct ruvllm_error *err)
{
    int64_t last = learner->now.generation;
    double budget = learner->now.kl_budget;
    ruvllm_status rc;

    if (!rv_tenant_learner_has(learner, generation))
        return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA,
                            "generation %lld is not, or no longer, kept: the newest is %lld, and %d are",
                            (long long)generation, (long long)last, RV_TENANT_LEARNER_SNAPSHOTS);
    rc = make_room(learner, err);
    if (rc)
        return rc;
    if (generation == 0) {
        learner->now.n_votes = 0;
        learner->now.mean = 0.5;
        learner->now.variance = 0.05;
        learner->now.spent_kl = 0;
        learner->now.deep = 0;
        learner->now.n_lessons = 0;
        rv_memory_unref(learner->now.memory);
        learner->now.memory = NULL;
        learner->now.anchor_kl = 0;
        learner->now.n_ticks = 0;
        learner->now.flood = (struct rv_flood){0};
        rv_head_adapter_clear(&learner->now.adapter);
    } else {
        copy_state(&learner->now, slot_of(learner, generation));
    }
    learner->now.flood.n_paused = 0; // who goes back by hand wants to go on
    learner->now.kl_budget = budget; // the model's, not the generation's
    learner->now.generation = last;
    learner->now.root = last + 1;
    next_generation(learner);
    return RUVLLM_OK;
}

bool rv_tenant_learner_can_tick(const struct rv_tenant_learner *learner, int64_t base)
{
    return base == learner->now.generation ||
           (base >= learner->now.root && base > 0 && rv_tenant_learner_has(learner, base));
}

ruvllm_status rv_tenant_learner_tick(struct rv_tenant_learner *learner, const struct rv_head_adapter *made,
                                     int64_t base, double kl, struct ruvllm_error *err)
{
    struct rv_tenant_state *s = &learner->now;
    ruvllm_status rc = make_room(learner, err);

    if (rc)
        return rc;
    if (!rv_tenant_learner_can_tick(learner, base))
        return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SONA,
                            "generation %lld, which a tick worked on, is not kept", (long long)base);
    if (base == s->generation && made->n_pairs <= s->adapter.rank) {
        rv_head_adapter_copy(&s->adapter, made);
    } else {
        const struct rv_head_adapter *from = base == s->generation ? &s->adapter : &slot_of(learner, base)->adapter;

        rc = rv_head_basis_shift(&s->adapter, made, from, learner->whitening, err);
        if (rc)
            return rc;
    }
    s->anchor_kl = kl;
    s->n_ticks++;
    next_generation(learner);
    return RUVLLM_OK;
}

int64_t rv_tenant_learner_kept_since(const struct rv_tenant_learner *learner, int64_t generation)
{
    if (generation > 0 && generation <= learner->now.generation - RV_TENANT_LEARNER_SNAPSHOTS)
        generation = learner->now.generation - RV_TENANT_LEARNER_SNAPSHOTS + 1; // none before it is kept
    while (generation < learner->now.generation && !rv_tenant_learner_has(learner, generation))
        generation++;
    return generation;
}

ruvllm_status rv_tenant_learner_pause(struct rv_tenant_learner *learner, int64_t generation, struct ruvllm_error *err)
{
    struct rv_tenant_state *s;
    ruvllm_status rc = rv_tenant_learner_go_back(learner, rv_tenant_learner_kept_since(learner, generation), err);

    if (rc)
        return rc;
    s = slot_of(learner, learner->now.generation);
    rv_flood_pause(&learner->now.flood);
    rv_flood_pause(&s->flood);
    return RUVLLM_OK;
}
