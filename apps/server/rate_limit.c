/* A bucket that was given away starts full when its key comes back: a table too small errs on the caller's side. */
#include "server/rate_limit.h"

#include "base/alloc.h"

#include <math.h>

enum { CANDIDATES = 16 };

ruvllm_status rv_rate_limit_init(struct rv_rate_limit *limit, int32_t max_keys, struct ruvllm_error *err)
{
    ruvllm_status rc;

    *limit = (struct rv_rate_limit){.max_buckets = max_keys};
    rc = rv_id_map_init(&limit->by_key, (size_t)max_keys, err);
    if (rc)
        return rc;
    limit->buckets = rv_calloc((size_t)max_keys, sizeof(*limit->buckets));
    if (!limit->buckets) {
        rv_rate_limit_release(limit);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the request rates of %d keys", max_keys);
    }
    return RUVLLM_OK;
}

void rv_rate_limit_release(struct rv_rate_limit *limit)
{
    rv_id_map_release(&limit->by_key);
    rv_free(limit->buckets);
    *limit = (struct rv_rate_limit){0};
}

static void fill(struct rv_rate_limit_bucket *bucket, int64_t now_us)
{
    double since = (double)(now_us - bucket->filled_us) / 60e6;

    if (since > 0)
        bucket->tokens = fmin(bucket->per_minute, bucket->tokens + since * bucket->per_minute);
    bucket->filled_us = now_us;
}

/* The fullest of the next few: its key loses least. */
static int32_t choose_victim(struct rv_rate_limit *limit, int64_t now_us)
{
    int32_t best = limit->oldest;
    double best_fill = -1;

    for (int32_t i = 0; i < CANDIDATES && i < limit->max_buckets; i++) {
        int32_t at = (limit->oldest + i) % limit->max_buckets;
        struct rv_rate_limit_bucket *bucket = &limit->buckets[at];

        fill(bucket, now_us);
        if (bucket->tokens / bucket->per_minute > best_fill) {
            best_fill = bucket->tokens / bucket->per_minute;
            best = at;
        }
    }
    limit->oldest = (limit->oldest + CANDIDATES) % limit->max_buckets;
    return best;
}

static struct rv_rate_limit_bucket *bucket_of(struct rv_rate_limit *limit, uint64_t key, int32_t per_minute,
                                              int64_t now_us)
{
    int32_t at = rv_id_map_find(&limit->by_key, key);

    if (at >= 0)
        return &limit->buckets[at];
    if (limit->n_buckets < limit->max_buckets) {
        at = limit->n_buckets++;
    } else {
        at = choose_victim(limit, now_us);
        rv_id_map_remove(&limit->by_key, limit->buckets[at].key);
    }
    limit->buckets[at] =
        (struct rv_rate_limit_bucket){.key = key, .tokens = per_minute, .filled_us = now_us, .per_minute = per_minute};
    RV_ASSERT(rv_id_map_add(&limit->by_key, key, at));
    return &limit->buckets[at];
}

int32_t rv_rate_limit_take(struct rv_rate_limit *limit, uint64_t key, int32_t per_minute, int64_t now_us)
{
    struct rv_rate_limit_bucket *bucket;

    if (per_minute <= 0)
        return 0;
    bucket = bucket_of(limit, key, per_minute, now_us);
    bucket->per_minute = per_minute; // a key's rate may have been changed
    fill(bucket, now_us);
    if (bucket->tokens >= 1) {
        bucket->tokens -= 1;
        return 0;
    }
    return (int32_t)fmax(1, ceil((1 - bucket->tokens) * 60 / per_minute));
}
