/* Pauses are cut into short sleeps, so that whoever waits can be told and can stop. */
#include "engine/hub_retry.h"

#include "base/clock.h"

#include <time.h>

enum { FIRST_MS = 250, LONGEST_MS = 15000, LONGEST_ASKED_MS = 120000, SLEEP_MS = 50 };

static bool sleep_for(const struct rv_hub_retry *retry, int64_t ms)
{
    int64_t end = rv_clock_us() + ms * 1000;

    for (;;) {
        int64_t left = (end - rv_clock_us() + 999) / 1000;
        int64_t step = left < SLEEP_MS ? left : SLEEP_MS;

        if (retry->on_pause && !retry->on_pause(retry->user, left > 0 ? left : 0))
            return false;
        if (left <= 0)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = (long)(step * 1000000)}, NULL);
    }
}

ruvllm_status rv_hub_retry_pause(struct rv_hub_retry *retry, ruvllm_status rc, const struct rv_hub_http_reply *reply,
                                 struct ruvllm_error *err)
{
    int64_t ms = FIRST_MS;

    if (!reply->is_transient)
        return rc;
    if (retry->n >= retry->max)
        return retry->n ? rv_fail_in(err, rc, "gave up after %d attempts", retry->n + 1) : rc;
    for (int32_t i = 0; i < retry->n && ms < LONGEST_MS; i++)
        ms *= 2;
    if (ms > LONGEST_MS)
        ms = LONGEST_MS;
    if (reply->retry_after_ms > LONGEST_ASKED_MS)
        return rv_fail(err, RUVLLM_BUSY, "the hub is busy and asks to come back in %lld seconds",
                       (long long)(reply->retry_after_ms / 1000));
    if (reply->retry_after_ms > ms)
        ms = reply->retry_after_ms;
    retry->n++;
    if (!sleep_for(retry, ms))
        return rv_fail(err, RUVLLM_CANCELLED, "stopped");
    return RUVLLM_OK;
}

void rv_hub_retry_moved(struct rv_hub_retry *retry)
{
    retry->n = 0;
}
