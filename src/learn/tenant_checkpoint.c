/*
 * A header, then each generation that is kept: its numbers, the rows of A, the columns of B. Little-endian, as every
 * machine we run on. The bytes come from a database that may be anybody's: each number is judged before it is used.
 */
#include "learn/tenant_checkpoint.h"

#include "base/alloc.h"
#include "base/str_map.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { VERSION = 1 };

static const int64_t GENERATION_MAX = (int64_t)1 << 60; // counting up from there is safe

struct header {
    int32_t version;
    int32_t n_dims;
    int32_t rank;
    int32_t n_states;
    int64_t numbers_bytes; // of a state's numbers: another build's may be others
    uint64_t hash;         // of all that follows: tells what was damaged, not what was forged
};

/* A state's numbers are all that stands before its adapter, whatever they are. */
enum { NUMBERS = offsetof(struct rv_tenant_state, adapter) };

static size_t rows_bytes(int64_t n_pairs, int32_t n_dims)
{
    return (size_t)n_pairs * (size_t)n_dims * sizeof(float);
}

/* ---- to bytes ------------------------------------------------------------------------------- */

static size_t bytes_of(const struct rv_tenant_learner *l, int32_t *n_states)
{
    size_t len = sizeof(struct header);

    *n_states = 0;
    for (int i = 0; i < RV_TENANT_LEARNER_SNAPSHOTS; i++) {
        const struct rv_tenant_state *s = &l->snapshots[i];

        if (!s->generation)
            continue;
        len += NUMBERS + sizeof(int64_t) + 2 * rows_bytes(s->adapter.n_pairs, s->adapter.n_dims);
        ++*n_states;
    }
    return len;
}

static char *put(char *at, const void *data, size_t len)
{
    if (len)
        memcpy(at, data, len);
    return at + len;
}

static char *put_state(char *at, const struct rv_tenant_state *s)
{
    size_t n = rows_bytes(s->adapter.n_pairs, s->adapter.n_dims);
    int64_t n_pairs = s->adapter.n_pairs;

    at = put(at, s, NUMBERS);
    at = put(at, &n_pairs, sizeof(n_pairs));
    at = put(at, s->adapter.a, n);
    return put(at, s->adapter.b, n);
}

ruvllm_status rv_tenant_checkpoint_write(const struct rv_tenant_learner *learner, void **out, size_t *len,
                                         struct ruvllm_error *err)
{
    struct header h = {.version = VERSION,
                       .n_dims = learner->now.adapter.n_dims,
                       .rank = learner->now.adapter.rank,
                       .numbers_bytes = NUMBERS};
    char *bytes, *at;

    *len = bytes_of(learner, &h.n_states);
    *out = bytes = rv_malloc(*len);
    if (!bytes)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a checkpoint of %zu bytes", *len);
    at = bytes + sizeof(h);
    for (int i = 0; i < RV_TENANT_LEARNER_SNAPSHOTS; i++) {
        if (learner->snapshots[i].generation)
            at = put_state(at, &learner->snapshots[i]);
    }
    h.hash = rv_str_map_hash(VERSION, bytes + sizeof(h), *len - sizeof(h));
    memcpy(bytes, &h, sizeof(h));
    return RUVLLM_OK;
}

/* ---- and back ------------------------------------------------------------------------------- */

static ruvllm_status damaged(struct ruvllm_error *err)
{
    return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                        "a checkpoint is damaged, or of another model or rank than this one");
}

struct reader {
    const char *at;
    size_t left;
};

static bool take(struct reader *r, void *out, size_t len)
{
    if (r->left < len)
        return false;
    if (len)
        memcpy(out, r->at, len);
    r->at += len;
    r->left -= len;
    return true;
}

static bool are_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return false;
    }
    return true;
}

static bool is_possible(const struct rv_tenant_state *s, int64_t n_pairs, int32_t rank)
{
    return s->generation > 0 && s->generation <= GENERATION_MAX && s->n_votes >= 0 && s->n_votes <= s->generation &&
           isfinite(s->mean) && isfinite(s->variance) && s->variance >= 0 && isfinite(s->spent_kl) && n_pairs >= 0 &&
           n_pairs <= rank;
}

/* One generation into its place. */
static ruvllm_status read_state(struct rv_tenant_learner *l, struct reader *r, struct ruvllm_error *err)
{
    int32_t n_dims = l->now.adapter.n_dims, rank = l->now.adapter.rank;
    struct rv_tenant_state numbers = {0}, *slot;
    int64_t n_pairs = 0;
    size_t n;
    ruvllm_status rc;

    if (!take(r, &numbers, NUMBERS) || !take(r, &n_pairs, sizeof(n_pairs)) || !is_possible(&numbers, n_pairs, rank))
        return damaged(err);
    slot = &l->snapshots[numbers.generation % RV_TENANT_LEARNER_SNAPSHOTS];
    n = rows_bytes(n_pairs, n_dims);
    if (slot->generation)
        return damaged(err); // two of them at one place
    rc = rv_tenant_learner_make_room(l, numbers.generation, err);
    if (rc)
        return rc;
    if (!take(r, slot->adapter.a, n) || !take(r, slot->adapter.b, n) ||
        !are_finite(slot->adapter.a, n / sizeof(float)) || !are_finite(slot->adapter.b, n / sizeof(float)))
        return damaged(err);
    memcpy(slot, &numbers, NUMBERS);
    slot->adapter.n_pairs = (int32_t)n_pairs;
    return RUVLLM_OK;
}

static ruvllm_status read_states(struct rv_tenant_learner *l, struct reader *r, int32_t n, struct ruvllm_error *err)
{
    int64_t newest = 0;
    ruvllm_status rc = RUVLLM_OK;

    for (int32_t i = 0; !rc && i < n; i++)
        rc = read_state(l, r, err);
    for (int i = 0; i < RV_TENANT_LEARNER_SNAPSHOTS; i++)
        newest = l->snapshots[i].generation > newest ? l->snapshots[i].generation : newest;
    /* Those that are kept are the last ones, without gaps. */
    for (int64_t g = newest; !rc && g > newest - n; g--) {
        if (g < 1 || !rv_tenant_learner_has(l, g))
            rc = damaged(err);
    }
    if (!rc && r->left)
        rc = damaged(err);
    if (!rc)
        rv_tenant_learner_resume(l, newest);
    return rc;
}

ruvllm_status rv_tenant_checkpoint_read(struct rv_tenant_learner **out, const void *data, size_t len,
                                        const struct rv_whitening *whitening, int32_t rank, struct ruvllm_error *err)
{
    struct reader r = {.at = data, .left = len};
    struct header h;
    ruvllm_status rc;

    *out = NULL;
    if (!take(&r, &h, sizeof(h)) || h.version != VERSION || h.n_dims != whitening->n_dims || h.rank != rank ||
        h.numbers_bytes != NUMBERS || h.n_states < 1 || h.n_states > RV_TENANT_LEARNER_SNAPSHOTS ||
        h.hash != rv_str_map_hash(VERSION, r.at, r.left))
        return damaged(err);
    rc = rv_tenant_learner_new(out, whitening, rank, err);
    if (!rc)
        rc = read_states(*out, &r, h.n_states, err);
    if (rc) {
        rv_tenant_learner_free(*out);
        *out = NULL;
    }
    return rc;
}
