/*
 * A process that streams events is killed, again and again: what it had acknowledged is there, once, under the number
 * it was told. After each kill it goes on one event before the last acknowledged one, as a client would that is not
 * sure.
 *
 * RUVLLM_KILLS says how often (20).
 */
#include "base/rng.h"
#include "store/store_events.h"
#include "support/kill_fixture.h"
#include "support/store_fixture.h"

#include <string.h>
#include <unistd.h>

enum { N_THREADS = 4, N_TENANTS = 3, MAX_EACH = 1 << 20 };

struct ack {
    int32_t thread;
    int32_t i;
    int64_t seq;
};

/* What this program knows of an event: by thread and counter. */
static int64_t acked_seq[N_THREADS][MAX_EACH]; // 0: not acknowledged
static uint8_t n_seen[N_THREADS][MAX_EACH];
static int32_t n_acked[N_THREADS]; // the next counter of a thread

static const char *tenant_of(int32_t thread, int32_t i)
{
    static const char *const tenants[N_TENANTS] = {"a", "b", "c"};

    return tenants[(thread + i) % N_TENANTS];
}

/* ---- who is killed ------------------------------------------------------------------------- */

struct stream {
    ruvllm_store *store;
    int32_t thread;
};

static void *stream_events(void *arg)
{
    static const char delta[4096] = {1};
    const struct stream *s = arg;
    int32_t i = n_acked[s->thread] > 0 ? n_acked[s->thread] - 1 : 0;

    for (;; i++) {
        struct rv_store_event e = {.tenant = tenant_of(s->thread, i),
                                   .kind = RV_STORE_EVENT_VOTE,
                                   .score = 1,
                                   .delta = {.data = delta, .len = sizeof(delta)}};
        struct ack ack = {.thread = s->thread, .i = i};

        memcpy(e.uid, "k", 1);
        memcpy(e.uid + 4, &ack.thread, 4);
        memcpy(e.uid + 8, &ack.i, 4);
        if (rv_store_events_append(s->store, &e, 1, NULL))
            _exit(1);
        ack.seq = e.seq;
        kill_fixture_say(&ack, sizeof(ack));
    }
    return NULL;
}

static void work_until_killed(const char *url)
{
    struct stream streams[N_THREADS];
    ruvllm_store *store;

    if (ruvllm_store_open(&store, url, NULL, NULL))
        _exit(3);
    for (int32_t t = 0; t < N_THREADS; t++)
        streams[t] = (struct stream){.store = store, .thread = t};
    kill_fixture_stream(stream_events, streams, N_THREADS, sizeof(*streams));
}

/* ---- who looks ----------------------------------------------------------------------------- */

static void note(const void *made)
{
    const struct ack *ack = made;
    int64_t *seq = &acked_seq[ack->thread][ack->i];

    assert_true(ack->i < MAX_EACH && ack->seq > 0);
    if (*seq)
        assert_int_equal(*seq, ack->seq); // told again: the same number
    *seq = ack->seq;
    if (ack->i >= n_acked[ack->thread])
        n_acked[ack->thread] = ack->i + 1;
}

struct look {
    int64_t last[N_TENANTS]; // number of the last event that was looked at
    int tenant;
};

static bool see(void *user, const struct rv_store_event *e)
{
    struct look *look = user;
    int32_t thread, i;

    memcpy(&thread, e->uid + 4, 4);
    memcpy(&i, e->uid + 8, 4);
    assert_int_equal(e->seq, look->last[look->tenant] + 1); // no gaps
    assert_int_equal(e->delta.len, 4096);
    look->last[look->tenant] = e->seq;
    assert_int_equal(++n_seen[thread][i], 1);
    assert_string_equal(e->tenant, tenant_of(thread, i));
    if (acked_seq[thread][i])
        assert_int_equal(acked_seq[thread][i], e->seq);
    return true;
}

static void look_at_what_is_new(const char *url, struct look *look)
{
    static const char *const tenants[N_TENANTS] = {"a", "b", "c"};
    ruvllm_store *store = store_open(url);

    for (look->tenant = 0; look->tenant < N_TENANTS; look->tenant++)
        assert_ok(rv_store_events_replay(store, tenants[look->tenant], look->last[look->tenant], see, look, err));
    ruvllm_store_close(store);
}

static void expect_all_acknowledged(const int32_t from[N_THREADS])
{
    for (int t = 0; t < N_THREADS; t++) {
        for (int32_t i = from[t]; i < n_acked[t]; i++)
            assert_int_equal(n_seen[t][i], 1);
    }
}

static void nothing_acknowledged_is_lost_or_doubled(void **state)
{
    static const struct kill_fixture killed = {
        .ack_bytes = sizeof(struct ack), .work = work_until_killed, .note = note};
    const char *url = store_temp_url();
    long n_kills = kill_fixture_n(20);
    static const int32_t beginning[N_THREADS];
    int32_t before[N_THREADS];
    struct look look = {0};
    struct rv_rng rng;
    size_t n = 0;

    (void)state;
    rv_rng_init(&rng, 7);
    for (long k = 0; k < n_kills; k++) {
        memcpy(before, n_acked, sizeof(before));
        n += kill_fixture_run(&killed, url, 1 + (size_t)rv_rng_below(&rng, 60));
        look_at_what_is_new(url, &look);
        expect_all_acknowledged(before);
    }
    /* All of it once more, from the beginning. */
    memset(n_seen, 0, sizeof(n_seen));
    memset(&look, 0, sizeof(look));
    look_at_what_is_new(url, &look);
    expect_all_acknowledged(beginning);
    print_message("%ld kills, %zu acknowledged\n", n_kills, n);
    assert_true(n >= (size_t)n_kills);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_acknowledged_is_lost_or_doubled)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
