/*
 * How many requests a minute a key may make. Each key has a bucket that holds a minute's worth, starts full and fills
 * evenly; a request takes one from it. Only the I/O thread calls; time is given, so that tests own it.
 */
#ifndef RV_SERVER_RATE_LIMIT_H
#define RV_SERVER_RATE_LIMIT_H

#include "base/id_map.h"

struct rv_rate_limit_bucket {
    uint64_t key;
    double tokens;
    int64_t filled_us; // when `tokens` was true
    int32_t per_minute;
};

struct rv_rate_limit {
    struct rv_rate_limit_bucket *buckets;
    int32_t n_buckets;
    int32_t max_buckets;
    int32_t oldest; // where the search for a bucket to give away goes on
    struct rv_id_map by_key;
};

/* For up to max_keys keys at a time; beyond that the bucket that is fullest among a few is given away. */
RV_CHECKED ruvllm_status rv_rate_limit_init(struct rv_rate_limit *limit, int32_t max_keys, struct ruvllm_error *err);
void rv_rate_limit_release(struct rv_rate_limit *limit);
/*
 * Takes one request of `key` (a number that stands for it) at now_us under `per_minute` (0: no limit) and returns 0;
 * else the seconds after which the next one will be let through, at least 1.
 */
int32_t rv_rate_limit_take(struct rv_rate_limit *limit, uint64_t key, int32_t per_minute, int64_t now_us);

#endif
