/* The registry of adapters under threads: races for a generation, mixes that want all places, storms; and crowds of
 * ids. */
#include "engine/adapter_threads.h"

#include "base/clock.h"
#include "base/rng.h"
#include "engine/adapter_census.h"
#include "support/adapter_fixture.h"
#include "support/adapter_shelf.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MANY_BYTES = 1 << 30, N_THREADS = 8 };

static struct adapter_shelf shelf;

static struct rv_adapter_choice newest(const char *id)
{
    return (struct rv_adapter_choice){.id = id, .weight = 1};
}

static void nap(long us)
{
    const struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};

    nanosleep(&pause, NULL);
}

static void open_shelf(struct rv_adapter_registry **r, int32_t max_layered, int32_t max_generations)
{
    adapter_shelf_init(&shelf);
    *r = adapter_shelf_open(&shelf, max_layered, MANY_BYTES, max_generations);
}

static void publish_layered(struct rv_adapter_registry *r, int n)
{
    char id[16];

    for (int i = 0; i < n; i++) {
        snprintf(id, sizeof(id), "a%d", i);
        adapter_shelf_publish(r, id, (uint64_t)i + 1, 0);
    }
    rv_adapter_registry_settle(r);
}

struct mixer {
    struct rv_adapter_registry *registry;
    int number;
    bool is_right;
};

/* Takes all places at once, again and again, others than its neighbours. */
static void *mix(void *arg)
{
    struct mixer *me = arg;
    char ids[8][8];

    me->is_right = true;
    for (int i = 0; i < 8; i++)
        snprintf(ids[i], sizeof(ids[i]), "a%d", i);
    for (int round = 0; round < 40; round++) {
        struct rv_adapter_choice choices[4];
        struct rv_adapter_ticket ticket;

        for (int k = 0; k < 4; k++)
            choices[k] = newest(ids[(round + me->number * 3 + k * (1 + me->number % 2)) % 8]);
        if (rv_adapter_registry_fetch(me->registry, &ticket, choices, 4, NULL)) {
            me->is_right = false;
            return NULL;
        }
        me->is_right = me->is_right && ticket.mix.n_adapters == 4;
        rv_adapter_registry_release(me->registry, &ticket);
    }
    return NULL;
}

static void mixes_do_not_wait_for_each_other(void **state)
{
    struct rv_adapter_registry *r;
    struct mixer mixers[N_THREADS];
    pthread_t threads[N_THREADS];

    (void)state;
    open_shelf(&r, 4, 16);
    publish_layered(r, 8);
    shelf.read_us = 100;
    for (int i = 0; i < N_THREADS; i++) {
        mixers[i] = (struct mixer){.registry = r, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, mix, &mixers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(mixers[i].is_right);
    }
    assert_int_equal(adapter_shelf_stats(r).n_layered, 4);
    adapter_shelf_close(&shelf, r);
}

struct racer {
    struct rv_adapter_registry *registry;
    int number;
    int n_won, n_lost;
    bool is_right;
};

enum { N_RACES = 200 };

static void *race(void *arg)
{
    struct racer *me = arg;
    int64_t known = 0;

    me->is_right = true;
    while (me->n_won + me->n_lost < N_RACES) {
        struct rv_adapter_offer offer = {.id = "prize", .expected = known};
        struct ruvllm_error error = {0};
        int64_t generation;
        ruvllm_status rc;

        offer.adapter = adapter_shelf_make(0, (uint64_t)(me->number * N_RACES + me->n_won + me->n_lost + 1));
        nap(20); // others publish meanwhile
        rc = rv_adapter_registry_publish(me->registry, &offer, &generation, &error);
        rv_adapter_unref(offer.adapter);
        if (rc == RUVLLM_OK) {
            me->is_right = me->is_right && generation == known + 1;
            me->n_won++;
            known = generation;
        } else {
            struct rv_adapter_choice choice = newest("prize");
            struct rv_adapter_ticket ticket = {0};

            me->is_right = me->is_right && rc == RUVLLM_CONFLICT;
            me->n_lost++;
            if (rv_adapter_registry_pin(me->registry, &ticket, &choice, 1, NULL))
                me->is_right = false;
            known = ticket.generation;
            rv_adapter_registry_release(me->registry, &ticket);
        }
    }
    return NULL;
}

static void every_loser_of_a_race_gets_conflict(void **state)
{
    struct rv_adapter_registry *r;
    struct racer racers[N_THREADS];
    pthread_t threads[N_THREADS];
    int n_won = 0, n_lost = 0;
    struct rv_adapter_choice choice = newest("prize");
    struct rv_adapter_ticket ticket = {0};

    (void)state;
    open_shelf(&r, 4, 4);
    for (int i = 0; i < N_THREADS; i++) {
        racers[i] = (struct racer){.registry = r, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(racers[i].is_right);
        n_won += racers[i].n_won;
        n_lost += racers[i].n_lost;
    }
    assert_ok(rv_adapter_registry_pin(r, &ticket, &choice, 1, err));
    assert_int_equal(ticket.generation, n_won); // one generation for each that was told so
    rv_adapter_registry_release(r, &ticket);
    print_message("%d published, %d told of a conflict\n", n_won, n_lost);
    rv_adapter_registry_settle(r);
    adapter_shelf_close(&shelf, r);
}

enum { N_STORM = 400, N_IDS = 12 };

/* Tickets that wait on a condition of their own, as requests do on their engine. */
struct storm {
    struct rv_adapter_registry *registry;
    uint64_t seed;
    int n_held;
    bool is_right;
};

/* Everything anybody may do, on ids that all share. */
static void *storm(void *arg)
{
    struct storm *me = arg;
    struct rv_rng rng;
    char id[16];

    me->is_right = true;
    rv_rng_init(&rng, me->seed);
    for (int i = 0; i < N_STORM; i++) {
        uint64_t what = rv_rng_below(&rng, 10), which = rv_rng_below(&rng, N_IDS);

        snprintf(id, sizeof(id), "s%d", (int)which);
        if (what < 3) {
            struct rv_adapter_offer offer = {.id = id, .expected = -1};
            int64_t generation;

            offer.adapter = adapter_shelf_make(which % 3 ? 1 + rv_rng_below(&rng, 30) : 0, 1 + rv_rng_below(&rng, 30));
            if (rv_adapter_registry_publish(me->registry, &offer, &generation, NULL))
                me->is_right = false;
            rv_adapter_unref(offer.adapter);
        } else if (what < 4) {
            (void)!rv_adapter_registry_forget(me->registry, id, rv_rng_below(&rng, 2) ? 0 : 1, NULL);
        } else {
            struct rv_adapter_choice choices[2] = {newest(id), newest("fixed")};
            struct rv_adapter_ticket ticket;
            struct ruvllm_error error = {0};
            ruvllm_status rc = rv_adapter_registry_fetch(me->registry, &ticket, choices, 1 + (what > 8), &error);

            if (rc && rc != RUVLLM_NOT_FOUND)
                me->is_right = false;
            if (rc)
                continue;
            me->n_held++;
            me->is_right = me->is_right && ticket.mix.adapters[0]->n_layers == 2;
            if (what == 5)
                nap(200);
            rv_adapter_registry_release(me->registry, &ticket);
        }
    }
    return NULL;
}

static void nothing_breaks_in_a_storm(void **state)
{
    struct rv_adapter_registry *r;
    struct storm storms[N_THREADS];
    pthread_t threads[N_THREADS];
    int n_held = 0;

    (void)state;
    open_shelf(&r, 4, 3);
    shelf.read_us = 50;
    adapter_shelf_publish(r, "fixed", 1000, 1000);
    for (int i = 0; i < N_THREADS; i++) {
        storms[i] = (struct storm){.registry = r, .seed = (uint64_t)i + 1};
        assert_int_equal(pthread_create(&threads[i], NULL, storm, &storms[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(storms[i].is_right);
        n_held += storms[i].n_held;
    }
    rv_adapter_registry_settle(r);
    assert_int_equal(adapter_shelf_stats(r).n_waiting, 0);
    assert_int_equal(adapter_shelf_n_files(&shelf), adapter_shelf_stats(r).n_contents);
    print_message("%d times held, %d read, %d evicted\n", n_held, (int)adapter_shelf_stats(r).n_loaded,
                  (int)adapter_shelf_stats(r).n_evicted);
    assert_true(adapter_shelf_stats(r).n_loaded > 0 && adapter_shelf_stats(r).n_evicted > 0);
    adapter_shelf_close(&shelf, r);
}

/* ---- a crowd of ids --------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

enum { N_HEADS = 5000, N_SWITCHES = 20000, WIDTH = 896, RANK = 2 };

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The short form of bench_adapters. */
static void thousands_of_heads_are_small_and_found_at_once(void **state)
{
    struct rv_hparams hparams = {.n_embd = WIDTH};
    struct rv_manifest manifest = {0};
    struct adapter_fixture fixture = {
        .hparams = &hparams, .manifest = &manifest, .head_rank = RANK, .strength = 1, .seed = 1};
    struct rv_adapter_registry *r = adapter_shelf_open(NULL, 4, MANY_BYTES, 16);
    int64_t *us = calloc(N_SWITCHES, sizeof(*us));
    struct rv_rng rng;
    char id[32];

    (void)state;
    assert_non_null(us);
    for (int i = 0; i < N_HEADS; i++) {
        struct rv_adapter_offer offer = {.id = id, .expected = 0};
        int64_t generation;

        snprintf(id, sizeof(id), "tenant-%d/head", i);
        fixture.seed = (uint64_t)i + 1;
        offer.adapter = adapter_fixture_new(&fixture);
        assert_ok(rv_adapter_registry_publish(r, &offer, &generation, err));
        rv_adapter_unref(offer.adapter);
    }
    assert_int_equal(adapter_shelf_stats(r).n_ids, N_HEADS);
    /* Numbers, and what goes with each. */
    assert_true(adapter_shelf_stats(r).n_bytes <= (uint64_t)N_HEADS * (2 * WIDTH * RANK * sizeof(uint16_t) + 512));
    assert_true(sizeof(struct rv_adapter_body) + sizeof(struct rv_adapter_version) + sizeof(struct rv_adapter_name) <
                512);
    rv_rng_init(&rng, 2);
    for (int i = 0; i < N_SWITCHES; i++) {
        struct rv_adapter_choice choice = newest(id);
        struct rv_adapter_ticket ticket = {0};

        snprintf(id, sizeof(id), "tenant-%d/head", (int)rv_rng_below(&rng, N_HEADS));
        us[i] = -rv_clock_us();
        assert_ok(rv_adapter_registry_pin(r, &ticket, &choice, 1, err));
        assert_true(rv_adapter_registry_enter(r, &ticket));
        rv_adapter_registry_release(r, &ticket);
        us[i] += rv_clock_us();
    }
    qsort(us, N_SWITCHES, sizeof(*us), by_size);
    print_message("switch: half within %d us, 99 of 100 within %d us\n", (int)us[N_SWITCHES / 2],
                  (int)us[N_SWITCHES / 100 * 99]);
#ifndef IS_SANITIZED
    assert_true(us[N_SWITCHES / 100 * 99] <= 1000);
#endif
    free(us);
    assert_true(rv_adapter_census_check(r));
    rv_adapter_registry_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixes_do_not_wait_for_each_other),
        cmocka_unit_test(every_loser_of_a_race_gets_conflict),
        cmocka_unit_test(nothing_breaks_in_a_storm),
        cmocka_unit_test(thousands_of_heads_are_small_and_found_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
