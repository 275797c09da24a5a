/*
 * A process in which tenants vote is killed, again and again: what it had acknowledged is in the log, once, under the
 * number it was told; and the log, read from its beginning, gives the very bits that answered after each event.
 *
 * RUVLLM_KILLS says how often (10).
 */
#include "base/rng.h"
#include "base/str_map.h"
#include "learn/learner.h"
#include "store/store_events.h"
#include "support/kill_fixture.h"
#include "support/learn_fixture.h"
#include "support/store_fixture.h"

#include <string.h>
#include <unistd.h>

enum { DIMS = 32, ROWS = 8, N_TENANTS = 3, MAX_EVENTS = 1 << 18 };

static const char *const tenants[N_TENANTS] = {"a", "b", "c"};

struct ack {
    int32_t tenant;
    int32_t i; // what was done
    int64_t seq;
    int64_t generation;
    uint64_t bits; // that answered from then on
};

/* What this program knows: by tenant and number of the event. */
static struct ack acked[N_TENANTS][MAX_EVENTS]; // seq 0: not acknowledged
static int32_t n_begun[N_TENANTS];              // the next thing to do

static const struct learn_fixture *fixture_of(ruvllm_store *store)
{
    static struct learn_fixture f;

    f = (struct learn_fixture){
        .n_dims = DIMS, .n_rows = ROWS, .rank = 2, .store = store, .tenant_bytes = (uint64_t)1 << 30};
    return &f;
}

static double score_of(int32_t i)
{
    return (double)(i % 997) / 996;
}

/* Every ninth thing is a way back. */
static bool is_way_back(int32_t i)
{
    return i % 9 == 8;
}

/* ---- who is killed ------------------------------------------------------------------------- */

struct stream {
    struct rv_learner *learner;
    const struct learn_fixture *fixture;
    int32_t tenant;
};

static void *stream_votes(void *arg)
{
    const struct stream *s = arg;
    const char *tenant = tenants[s->tenant];

    for (int32_t i = n_begun[s->tenant];; i++) {
        uint64_t id = (uint64_t)i * N_TENANTS + (uint64_t)s->tenant + 1;
        struct ack ack = {.tenant = s->tenant, .i = i};
        struct rv_learner_result result;
        int64_t now;
        ruvllm_status rc;

        learn_fixture_answer(s->learner, s->fixture, tenant, id);
        (void)learn_fixture_bits(s->learner, tenant, &now);
        rc = is_way_back(i) && now > 2 ? rv_learner_go_back(s->learner, tenant, now - 2, &result, NULL)
                                       : rv_learner_vote(s->learner, tenant, id, score_of(i), &result, NULL);
        if (rc)
            _exit(1);
        ack.seq = result.seq;
        ack.generation = result.generation;
        ack.bits = learn_fixture_bits(s->learner, tenant, NULL);
        kill_fixture_say(&ack, sizeof(ack));
    }
    return NULL;
}

static void work_until_killed(const char *url)
{
    struct stream streams[N_TENANTS];
    const struct learn_fixture *fixture;
    struct rv_learner *learner;
    ruvllm_store *store;

    if (ruvllm_store_open(&store, url, NULL, NULL))
        _exit(3);
    fixture = fixture_of(store);
    if (learn_fixture_try(fixture, &learner, NULL))
        _exit(3);
    for (int32_t t = 0; t < N_TENANTS; t++)
        streams[t] = (struct stream){.learner = learner, .fixture = fixture, .tenant = t};
    kill_fixture_stream(stream_votes, streams, N_TENANTS, sizeof(*streams));
}

/* ---- who looks ----------------------------------------------------------------------------- */

static void note(const void *made)
{
    const struct ack *ack = made;
    struct ack *place = &acked[ack->tenant][ack->seq];

    assert_true(ack->seq > 0 && ack->seq < MAX_EVENTS);
    assert_int_equal(place->seq, 0); // no two things have one number
    *place = *ack;
    n_begun[ack->tenant] = ack->i + 1;
}

/* One tenant's log as it is read, event by event, into a state that began empty. */
struct reading {
    int32_t tenant;
    int64_t seq;
    struct rv_tenant_learner *state;
    size_t n_checked;
};

static ruvllm_status give_numbers(void *user, int32_t layer, enum rv_part part, struct rv_adapter_numbers *out,
                                  struct ruvllm_error *err)
{
    (void)layer;
    (void)part;
    (void)err;
    *out = *(const struct rv_adapter_numbers *)user;
    return RUVLLM_OK;
}

/* As learn_fixture_bits, of a state. */
static uint64_t bits_of(const struct rv_tenant_learner *state)
{
    static const struct rv_hparams hparams = {.n_embd = DIMS};
    static const struct rv_manifest manifest;
    const struct rv_head_adapter *from = &state->now.adapter;
    struct rv_adapter_shape shape = {
        .hparams = &hparams, .manifest = &manifest, .head_rank = from->n_pairs, .head_scale = 1};
    size_t n = (size_t)from->n_pairs * DIMS * sizeof(uint16_t);
    struct rv_adapter *adapter;
    float b[2 * DIMS];
    struct rv_adapter_numbers numbers = {.a = from->a, .b = b};
    uint64_t bits;

    if (from->n_pairs == 0)
        return learn_fixture_memory_bits(state->now.memory);
    for (int32_t i = 0; i < from->n_pairs; i++) {
        for (int32_t d = 0; d < DIMS; d++)
            b[d * from->n_pairs + i] = from->b[i * DIMS + d];
    }
    assert_ok(rv_adapter_new(&adapter, &shape, give_numbers, &numbers, err));
    bits = rv_str_map_hash(1, (const char *)adapter->head.a, n) ^ rv_str_map_hash(2, (const char *)adapter->head.b, n);
    rv_adapter_unref(adapter);
    return bits ^ learn_fixture_memory_bits(state->now.memory);
}

static bool see(void *user, const struct rv_store_event *e)
{
    struct reading *r = user;
    const struct ack *ack = &acked[r->tenant][e->seq];
    struct rv_str delta = e->delta;
    struct rv_history_note note;
    struct rv_tenant_vote vote;

    rv_history_take_note(&delta, &note);
    assert_int_equal(e->seq, r->seq + 1); // no gaps
    r->seq = e->seq;
    if (e->kind == RV_STORE_EVENT_ROLLBACK) {
        assert_ok(rv_tenant_learner_go_back(r->state, e->generation, err));
    } else {
        assert_ok(rv_tenant_learner_read_vote(&vote, DIMS, e->score, delta, err));
        assert_ok(rv_memory_page_read(&vote.keys, DIMS, e->memory, err));
        assert_ok(rv_tenant_learner_apply(r->state, &vote, err));
        rv_tenant_learner_release_vote(&vote);
    }
    if (!ack->seq)
        return true; // nobody was told of it
    assert_true(e->kind == RV_STORE_EVENT_ROLLBACK || e->score == score_of(ack->i));
    assert_int_equal(ack->generation, r->state->now.generation);
    assert_true(ack->bits == bits_of(r->state));
    r->n_checked++;
    return true;
}

static void look(ruvllm_store *store, struct reading readings[N_TENANTS])
{
    for (int32_t t = 0; t < N_TENANTS; t++) {
        readings[t].tenant = t;
        assert_ok(rv_store_events_replay(store, tenants[t], readings[t].seq, see, &readings[t], err));
    }
}

/* What a learner makes of it that begins now, by a checkpoint where there is one. */
static void expect_learned(ruvllm_store *store, const struct reading readings[N_TENANTS])
{
    struct rv_learner *learner = learn_fixture_open(fixture_of(store));

    for (int32_t t = 0; t < N_TENANTS; t++)
        assert_true(learn_fixture_bits(learner, tenants[t], NULL) == bits_of(readings[t].state));
    rv_learner_free(learner);
}

static size_t n_acked(void)
{
    size_t n = 0;

    for (int t = 0; t < N_TENANTS; t++) {
        for (int i = 0; i < MAX_EVENTS; i++)
            n += acked[t][i].seq != 0;
    }
    return n;
}

static void begin_reading(struct reading readings[N_TENANTS], const struct rv_whitening *whitening)
{
    for (int t = 0; t < N_TENANTS; t++) {
        rv_tenant_learner_free(readings[t].state);
        readings[t] = (struct reading){0};
        assert_ok(rv_tenant_learner_new(&readings[t].state, whitening, 2, err));
    }
}

static void the_log_gives_the_bits_that_answered(void **state)
{
    static const struct kill_fixture killed = {
        .ack_bytes = sizeof(struct ack), .work = work_until_killed, .note = note};
    const char *url = store_temp_url();
    long n_kills = kill_fixture_n(10);
    struct reading readings[N_TENANTS] = {0};
    struct rv_whitening whitening;
    ruvllm_store *store;
    struct rv_rng rng;
    size_t n = 0, n_checked = 0;

    (void)state;
    assert_ok(learn_fixture_whitening(DIMS, &whitening, err));
    begin_reading(readings, &whitening);
    rv_rng_init(&rng, 11);
    for (long k = 0; k < n_kills; k++) {
        n += kill_fixture_run(&killed, url, 1 + (size_t)rv_rng_below(&rng, 40));
        store = store_open(url);
        look(store, readings);
        expect_learned(store, readings);
        ruvllm_store_close(store);
    }
    begin_reading(readings, &whitening); // all of it once more, from empty
    store = store_open(url);
    look(store, readings);
    expect_learned(store, readings);
    ruvllm_store_close(store);
    for (int t = 0; t < N_TENANTS; t++) {
        n_checked += readings[t].n_checked;
        rv_tenant_learner_free(readings[t].state);
    }
    rv_whitening_release(&whitening);
    print_message("%ld kills, %zu acknowledged, %zu generations bit-identical\n", n_kills, n, n_checked);
    assert_true(n >= (size_t)n_kills && n == n_acked() && n == n_checked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_log_gives_the_bits_that_answered)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
