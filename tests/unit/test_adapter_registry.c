/* The registry of adapters: generations, places in memory, waiting. Crowds of threads are in test_adapter_threads.c. */
#include "engine/adapter_registry.h"

#include "base/clock.h"
#include "engine/adapter_census.h"
#include "support/adapter_shelf.h"
#include "support/test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MANY_BYTES = 1 << 30 };

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

/* Waits until the shelf has counted n announcements. */
static void await_ready(int n)
{
    for (int i = 0; i < 10000 && shelf.n_ready < n; i++)
        nap(1000);
    assert_int_equal(shelf.n_ready, n);
}

/* Waits until n attempts to write have failed. */
static void await_unsaved(struct rv_adapter_registry *r, uint64_t n)
{
    for (int i = 0; i < 10000 && adapter_shelf_stats(r).n_unsaved < n; i++)
        nap(1000);
    assert_true(adapter_shelf_stats(r).n_unsaved >= n);
}

static void open_shelf(struct rv_adapter_registry **r, int32_t max_layered, int32_t max_generations)
{
    adapter_shelf_init(&shelf);
    *r = adapter_shelf_open(&shelf, max_layered, MANY_BYTES, max_generations);
}

static void pin(struct rv_adapter_registry *r, struct rv_adapter_ticket *ticket, const char *id)
{
    struct rv_adapter_choice choice = newest(id);

    memset(ticket, 0, sizeof(*ticket));
    ticket->owner = ticket;
    assert_ok(rv_adapter_registry_pin(r, ticket, &choice, 1, err));
}

/* Waits for it. */
static void hold(struct rv_adapter_registry *r, struct rv_adapter_ticket *ticket, const char *id)
{
    struct rv_adapter_choice choice = newest(id);

    assert_ok(rv_adapter_registry_fetch(r, ticket, &choice, 1, err));
}

static bool enter(struct rv_adapter_registry *r, struct rv_adapter_ticket *ticket, const char *id)
{
    pin(r, ticket, id);
    return rv_adapter_registry_enter(r, ticket);
}

/* ---- generations ------------------------------------------------------------------------------ */

static void generations_count_up_and_losers_get_conflict(void **state)
{
    struct rv_adapter_registry *r = adapter_shelf_open(NULL, 8, MANY_BYTES, 16);
    struct rv_adapter_offer offer = {.id = "a", .adapter = adapter_shelf_make(0, 1)};
    struct ruvllm_error error;
    int64_t generation;

    (void)state;
    offer.expected = 1;
    assert_fails(rv_adapter_registry_publish(r, &offer, &generation, &error), RUVLLM_CONFLICT, error, "is 0, not 1");
    offer.expected = 0;
    assert_ok(rv_adapter_registry_publish(r, &offer, &generation, err));
    assert_int_equal(generation, 1);
    assert_fails(rv_adapter_registry_publish(r, &offer, &generation, &error), RUVLLM_CONFLICT, error, "is 1, not 0");
    assert_int_equal(generation, 0);
    offer.expected = 1;
    assert_ok(rv_adapter_registry_publish(r, &offer, &generation, err));
    assert_int_equal(generation, 2);
    assert_int_equal(adapter_shelf_stats(r).n_contents, 1); // the same content twice
    /* A number is never used again, though the newest there is is none. */
    assert_ok(rv_adapter_registry_forget(r, "a", 0, err));
    assert_int_equal(adapter_shelf_stats(r).n_ids, 0);
    offer.expected = 0;
    assert_ok(rv_adapter_registry_publish(r, &offer, &generation, err));
    assert_int_equal(generation, 3);
    rv_adapter_unref(offer.adapter);
    assert_true(rv_adapter_census_check(r));
    rv_adapter_registry_close(r);
}

static void ids_are_checked(void **state)
{
    static const char *const wrong[] = {"", "a b", "a:b", "ä", "x\n"};
    struct rv_adapter_registry *r = adapter_shelf_open(NULL, 8, MANY_BYTES, 16);
    struct rv_adapter_offer offer = {.expected = -1, .adapter = adapter_shelf_make(0, 1)};
    struct rv_adapter_ticket ticket = {0};
    struct rv_adapter_choice choice = newest("nobody");
    struct ruvllm_error error;
    int64_t generation;
    char long_id[130];

    (void)state;
    memset(long_id, 'x', sizeof(long_id));
    long_id[128] = '\0';
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]) + 1; i++) {
        offer.id = i < sizeof(wrong) / sizeof(wrong[0]) ? wrong[i] : long_id;
        assert_fails(rv_adapter_registry_publish(r, &offer, &generation, &error), RUVLLM_INVALID, error, "letters");
        choice.id = offer.id;
        assert_fails(rv_adapter_registry_pin(r, &ticket, &choice, 1, &error), RUVLLM_NOT_FOUND, error, "no adapter");
    }
    long_id[127] = '\0';
    offer.id = long_id;
    assert_ok(rv_adapter_registry_publish(r, &offer, &generation, err));
    assert_fails(rv_adapter_registry_forget(r, long_id, 2, &error), RUVLLM_NOT_FOUND, error, "no generation 2");
    rv_adapter_unref(offer.adapter);
    rv_adapter_registry_close(r);
}

static void a_pinned_generation_outlives_what_comes_after(void **state)
{
    struct rv_adapter_registry *r = adapter_shelf_open(NULL, 8, MANY_BYTES, 2);
    struct rv_adapter_ticket ticket, later;
    const struct rv_adapter *first;

    (void)state;
    adapter_shelf_publish(r, "a", 1, 1);
    assert_true(enter(r, &ticket, "a"));
    assert_int_equal(ticket.generation, 1);
    first = ticket.mix.adapters[0];
    for (uint64_t i = 2; i < 6; i++)
        assert_int_equal(adapter_shelf_publish(r, "a", i, i), i);
    assert_int_equal(adapter_shelf_stats(r).n_generations, 2); // the newest two
    assert_int_equal(adapter_shelf_stats(r).n_contents, 3);    // and what is in use
    assert_true(enter(r, &later, "a"));
    assert_int_equal(later.generation, 5);
    assert_ptr_not_equal(later.mix.adapters[0], first);
    assert_ok(rv_adapter_registry_forget(r, "a", 0, err));
    assert_ptr_equal(ticket.mix.adapters[0], first);
    assert_int_equal(first->n_layers, 2);
    rv_adapter_registry_release(r, &ticket);
    rv_adapter_registry_release(r, &later);
    rv_adapter_registry_settle(r);
    assert_int_equal(adapter_shelf_stats(r).n_contents, 0);
    assert_int_equal(adapter_shelf_stats(r).n_bytes, 0);
    rv_adapter_registry_close(r);
}

static void caches_depend_on_layers_and_their_weights_alone(void **state)
{
    struct rv_adapter_registry *r = adapter_shelf_open(NULL, 8, MANY_BYTES, 16);
    struct rv_adapter_choice choices[2] = {{.id = "both", .generation = 1, .weight = 1}, {.id = "head", .weight = 1}};
    struct rv_adapter_ticket ticket;
    uint64_t layers;

    (void)state;
    adapter_shelf_publish(r, "both", 7, 1);
    adapter_shelf_publish(r, "both", 7, 2); // the head alone is another
    adapter_shelf_publish(r, "both", 8, 2);
    adapter_shelf_publish(r, "head", 0, 3);
    assert_ok(rv_adapter_registry_fetch(r, &ticket, choices, 1, err));
    layers = ticket.layers;
    assert_true(layers != 0);
    rv_adapter_registry_release(r, &ticket);
    choices[0].generation = 2;
    assert_ok(rv_adapter_registry_fetch(r, &ticket, choices, 2, err)); // with a head-only one beside it
    assert_int_equal(ticket.layers, layers);
    rv_adapter_registry_release(r, &ticket);
    choices[0].weight = 0.5f;
    assert_ok(rv_adapter_registry_fetch(r, &ticket, choices, 1, err));
    assert_true(ticket.layers != layers && ticket.layers != 0);
    rv_adapter_registry_release(r, &ticket);
    choices[0] = (struct rv_adapter_choice){.id = "both", .generation = 3, .weight = 1};
    assert_ok(rv_adapter_registry_fetch(r, &ticket, choices, 1, err));
    assert_true(ticket.layers != layers && ticket.layers != 0);
    rv_adapter_registry_release(r, &ticket);
    assert_ok(rv_adapter_registry_fetch(r, &ticket, choices + 1, 1, err));
    assert_int_equal(ticket.layers, 0);
    rv_adapter_registry_release(r, &ticket);
    rv_adapter_registry_close(r);
}

static void a_list_tells_everything(void **state)
{
    struct rv_adapter_registry *r = adapter_shelf_open(NULL, 8, MANY_BYTES, 16);
    struct ruvllm_adapter_info *infos;
    struct rv_adapter_ticket ticket;
    size_t n;

    (void)state;
    adapter_shelf_publish(r, "team/b", 3, 0);
    adapter_shelf_publish(r, "team/a", 1, 1);
    adapter_shelf_publish(r, "team/a", 0, 2);
    adapter_shelf_publish(r, "other", 0, 4);
    assert_true(enter(r, &ticket, "team/b"));
    assert_ok(rv_adapter_registry_list(r, "team/", &infos, &n, err));
    assert_int_equal(n, 3);
    assert_string_equal(infos[0].id, "team/a");
    assert_int_equal(infos[0].generation, 1);
    assert_int_equal(infos[0].n_pairs, 2);
    assert_int_equal(infos[0].max_rank, 4);
    assert_true(infos[0].changes_head && infos[0].changes_layers && infos[0].is_resident);
    assert_int_equal(infos[1].generation, 2);
    assert_false(infos[1].changes_layers);
    assert_string_equal(infos[2].id, "team/b");
    assert_int_equal(infos[2].n_users, 1);
    assert_int_equal(strlen(infos[2].hash), 64);
    assert_true(infos[2].norm > 0);
    ruvllm_free(infos);
    rv_adapter_registry_release(r, &ticket);
    assert_ok(rv_adapter_registry_list(r, NULL, &infos, &n, err));
    assert_int_equal(n, 4);
    ruvllm_free(infos);
    rv_adapter_registry_close(r);
}

/* ---- places in memory -------------------------------------------------------------------------- */

static void what_was_not_used_longest_leaves_memory_and_comes_back(void **state)
{
    struct rv_adapter_registry *r;
    struct rv_adapter_ticket ticket;
    char id[16];

    (void)state;
    open_shelf(&r, 4, 16);
    for (int i = 0; i < 6; i++) {
        snprintf(id, sizeof(id), "a%d", i);
        adapter_shelf_publish(r, id, (uint64_t)i + 1, 0);
        rv_adapter_registry_settle(r);
    }
    assert_int_equal(adapter_shelf_stats(r).n_layered, 4);
    assert_int_equal(adapter_shelf_n_files(&shelf), 6);
    hold(r, &ticket, "a2"); // the oldest that is there: used now
    rv_adapter_registry_release(r, &ticket);
    assert_int_equal(adapter_shelf_stats(r).n_loaded, 0);
    hold(r, &ticket, "a0");
    rv_adapter_registry_release(r, &ticket);
    assert_int_equal(adapter_shelf_stats(r).n_loaded, 1);
    assert_int_equal(adapter_shelf_stats(r).n_layered, 4);
    hold(r, &ticket, "a2"); // a3 went in its place
    rv_adapter_registry_release(r, &ticket);
    assert_int_equal(adapter_shelf_stats(r).n_loaded, 1);
    hold(r, &ticket, "a3");
    rv_adapter_registry_release(r, &ticket);
    assert_int_equal(adapter_shelf_stats(r).n_loaded, 2);
    adapter_shelf_close(&shelf, r);
}

static void bytes_are_bounded_too(void **state)
{
    struct rv_adapter *one = adapter_shelf_make(0, 1);
    uint64_t bytes = one->n_bytes;
    struct rv_adapter_registry *r;
    struct rv_adapter_offer offer = {.id = "large", .expected = -1};
    struct ruvllm_error error;
    int64_t generation;
    char id[16];

    (void)state;
    adapter_shelf_init(&shelf);
    r = adapter_shelf_open(&shelf, 4, 10 * bytes, 16);
    for (int i = 0; i < 40; i++) {
        snprintf(id, sizeof(id), "h%d", i);
        adapter_shelf_publish(r, id, 0, (uint64_t)i + 1);
        rv_adapter_registry_settle(r);
        assert_true(adapter_shelf_stats(r).n_bytes <= 10 * bytes);
    }
    assert_int_equal(adapter_shelf_stats(r).n_resident, 10);
    assert_int_equal(adapter_shelf_stats(r).n_evicted, 30);
    offer.adapter = adapter_shelf_make(1, 0);
    assert_true(offer.adapter->n_bytes > bytes * 10 / 8);
    assert_fails(rv_adapter_registry_publish(r, &offer, &generation, &error), RUVLLM_TOO_LARGE, error, "an eighth");
    rv_adapter_unref(offer.adapter);
    rv_adapter_unref(one);
    adapter_shelf_close(&shelf, r);
}

static void without_files_old_generations_give_way_and_then_it_is_full(void **state)
{
    struct rv_adapter_registry *r = adapter_shelf_open(NULL, 4, MANY_BYTES, 16);
    struct rv_adapter_offer offer = {.id = "fifth", .expected = -1, .adapter = adapter_shelf_make(99, 0)};
    struct rv_adapter_ticket ticket;
    struct ruvllm_error error;
    int64_t generation;
    char id[16];

    (void)state;
    adapter_shelf_publish(r, "a0", 1, 0);
    assert_true(enter(r, &ticket, "a0")); // its first generation stays, for it is used
    for (uint64_t i = 2; i < 10; i++)
        adapter_shelf_publish(r, "a0", i, 0);
    assert_int_equal(adapter_shelf_stats(r).n_layered, 4);
    for (int i = 1; i < 3; i++) {
        snprintf(id, sizeof(id), "a%d", i);
        adapter_shelf_publish(r, id, 20 + (uint64_t)i, 0);
    }
    assert_int_equal(adapter_shelf_stats(r).n_layered, 4); // three newest and the one in use
    assert_fails(rv_adapter_registry_publish(r, &offer, &generation, &error), RUVLLM_TOO_LARGE, error, "folder");
    adapter_shelf_publish(r, "head", 0, 1); // which takes no place
    rv_adapter_registry_release(r, &ticket);
    assert_ok(rv_adapter_registry_publish(r, &offer, &generation, err));
    rv_adapter_unref(offer.adapter);
    assert_true(rv_adapter_census_check(r));
    rv_adapter_registry_close(r);
}

/* ---- waiting ----------------------------------------------------------------------------------- */

static void publish_layered(struct rv_adapter_registry *r, int n)
{
    char id[16];

    for (int i = 0; i < n; i++) {
        snprintf(id, sizeof(id), "a%d", i);
        adapter_shelf_publish(r, id, (uint64_t)i + 1, 0);
    }
    adapter_shelf_publish(r, "head", 0, 1);
    rv_adapter_registry_settle(r);
}

static void one_more_than_the_places_waits_until_one_is_free(void **state)
{
    static const char *const ids[] = {"a0", "a1", "a2", "a3", "a4", "a5"};
    struct rv_adapter_ticket tickets[6], head, again;
    struct rv_adapter_registry *r;

    (void)state;
    open_shelf(&r, 4, 16);
    publish_layered(r, 6);
    for (int i = 0; i < 4; i++)
        hold(r, &tickets[i], ids[i]);
    assert_false(enter(r, &tickets[4], ids[4]));
    assert_false(enter(r, &tickets[5], ids[5]));
    assert_true(enter(r, &head, "head")); // needs no place
    assert_true(enter(r, &again, "a3"));  // is there
    nap(20000);
    assert_int_equal(adapter_shelf_stats(r).n_waiting, 2);
    assert_int_equal(shelf.n_ready, 0);
    rv_adapter_registry_release(r, &tickets[1]);
    await_ready(1);
    assert_int_equal(tickets[4].state, RV_ADAPTER_TICKET_HELD); // in turn
    assert_int_equal(adapter_shelf_stats(r).n_layered, 4);
    assert_true(rv_adapter_registry_withdraw(r, &tickets[5]));
    assert_false(rv_adapter_registry_withdraw(r, &tickets[4]));
    assert_int_equal(tickets[5].state, RV_ADAPTER_TICKET_FAILED);
    assert_int_equal(tickets[5].error.status, RUVLLM_CANCELLED);
    rv_adapter_registry_release(r, &tickets[5]);
    for (int i = 0; i < 5; i++)
        rv_adapter_registry_release(r, &tickets[i]);
    rv_adapter_registry_release(r, &head);
    rv_adapter_registry_release(r, &again);
    adapter_shelf_close(&shelf, r);
}

static void unloading_makes_room_for_who_waits(void **state)
{
    struct rv_adapter_ticket tickets[3], waiting;
    struct rv_adapter_registry *r;

    (void)state;
    open_shelf(&r, 4, 16);
    publish_layered(r, 4);
    hold(r, &tickets[0], "a0");
    hold(r, &tickets[1], "a1");
    hold(r, &tickets[2], "a2");
    shelf.cannot_write = true;
    adapter_shelf_publish(r, "stuck", 9, 0); // in the place of a3, and to stay there
    assert_false(enter(r, &waiting, "a3"));
    nap(20000);
    assert_int_equal(shelf.n_ready, 0);
    assert_ok(rv_adapter_registry_forget(r, "stuck", 0, err));
    await_ready(1);
    assert_int_equal(waiting.state, RV_ADAPTER_TICKET_HELD);
    rv_adapter_registry_release(r, &waiting);
    for (int i = 0; i < 3; i++)
        rv_adapter_registry_release(r, &tickets[i]);
    adapter_shelf_close(&shelf, r);
}

static void who_waits_is_passed_for_a_while_only(void **state)
{
    struct rv_adapter_ticket waiting, running[2], others[3];
    struct rv_adapter_registry *r;
    int n_passed = 0, i = 0;

    (void)state;
    open_shelf(&r, 4, 16);
    publish_layered(r, 5);
    hold(r, &others[0], "a1");
    hold(r, &others[1], "a2");
    hold(r, &others[2], "a3");
    hold(r, &running[0], "a0");
    assert_false(enter(r, &waiting, "a4"));
    /* Requests for a0 overlap, so its place would never be free. */
    for (int64_t end = rv_clock_us() + 20000000; rv_clock_us() < end; i = 1 - i) {
        bool passed = enter(r, &running[1 - i], "a0");

        rv_adapter_registry_release(r, &running[i]);
        if (!passed)
            break;
        n_passed++;
        nap(5000);
    }
    assert_true(n_passed > 0);
    await_ready(1);
    assert_int_equal(waiting.state, RV_ADAPTER_TICKET_HELD);
    rv_adapter_registry_release(r, &waiting);
    await_ready(2); // now a0 has its turn
    rv_adapter_registry_release(r, &running[1 - i]);
    for (int k = 0; k < 3; k++)
        rv_adapter_registry_release(r, &others[k]);
    adapter_shelf_close(&shelf, r);
}

static void a_file_that_cannot_be_read_fails_the_request_with_the_reason(void **state)
{
    struct rv_adapter_registry *r;
    struct rv_adapter_choice choice = newest("a0");
    struct rv_adapter_ticket ticket;
    struct ruvllm_error error;

    (void)state;
    open_shelf(&r, 4, 16);
    publish_layered(r, 6);
    shelf.cannot_read = true;
    assert_fails(rv_adapter_registry_fetch(r, &ticket, &choice, 1, &error), RUVLLM_IO, error, "shelf is broken");
    assert_true(rv_adapter_census_check(r));
    shelf.cannot_read = false;
    assert_ok(rv_adapter_registry_fetch(r, &ticket, &choice, 1, err));
    rv_adapter_registry_release(r, &ticket);
    adapter_shelf_close(&shelf, r);
}

static void what_cannot_be_written_stays_in_memory_until_it_can(void **state)
{
    struct rv_adapter_registry *r;
    struct rv_adapter_ticket ticket;

    (void)state;
    open_shelf(&r, 4, 16);
    shelf.cannot_write = true;
    for (uint64_t i = 0; i < 6; i++)
        adapter_shelf_publish(r, i ? "b" : "a0", i + 1, 0);
    await_unsaved(r, 1);
    assert_int_equal(adapter_shelf_stats(r).n_unwritten, 6);
    assert_int_equal(adapter_shelf_stats(r).n_layered, 6); // nothing is lost
    hold(r, &ticket, "a0");
    rv_adapter_registry_release(r, &ticket);
    shelf.cannot_write = false;
    rv_adapter_registry_settle(r);
    assert_int_equal(adapter_shelf_stats(r).n_unwritten, 0);
    assert_int_equal(adapter_shelf_stats(r).n_layered, 4);
    adapter_shelf_close(&shelf, r);
}

/* A content goes, comes anew and goes again before it was written: the file of the first must not stay behind. */
static void a_file_goes_with_the_last_of_its_content(void **state)
{
    struct rv_adapter_registry *r;

    (void)state;
    open_shelf(&r, 4, 16);
    adapter_shelf_publish(r, "a", 1, 0);
    rv_adapter_registry_settle(r);
    assert_int_equal(adapter_shelf_n_files(&shelf), 1);
    shelf.cannot_write = true;
    adapter_shelf_publish(r, "other", 2, 0);
    await_unsaved(r, 1);
    /* The clerk waits before it tries again. Meanwhile: */
    assert_ok(rv_adapter_registry_forget(r, "a", 0, err));
    adapter_shelf_publish(r, "a", 1, 0);
    await_unsaved(r, 3); // "other" once more, then the new one
    assert_int_equal(adapter_shelf_n_files(&shelf), 1);
    assert_ok(rv_adapter_registry_forget(r, "a", 0, err));
    shelf.cannot_write = false;
    rv_adapter_registry_settle(r);
    assert_int_equal(adapter_shelf_n_files(&shelf), 1); // of "other"
    assert_int_equal(adapter_shelf_stats(r).n_contents, 1);
    adapter_shelf_close(&shelf, r);
}

static void sources_are_closed_once(void **state)
{
    struct rv_adapter_registry *r;
    struct rv_adapter_offer offer = {.expected = -1, .source = &shelf};
    struct ruvllm_error error;
    int64_t generation;

    (void)state;
    open_shelf(&r, 4, 16);
    offer.adapter = adapter_shelf_make(1, 1);
    offer.id = "a";
    for (int i = 0; i < 3; i++) { // the second and third are the same content
        shelf.n_sources++;
        assert_ok(rv_adapter_registry_publish(r, &offer, &generation, err));
    }
    offer.expected = 0;
    assert_fails(rv_adapter_registry_publish(r, &offer, &generation, &error), RUVLLM_CONFLICT, error, "newest");
    rv_adapter_registry_settle(r);
    assert_int_equal(shelf.n_sources, 0);
    rv_adapter_unref(offer.adapter);
    /* One that goes before it is written. */
    shelf.cannot_write = true;
    shelf.n_sources++;
    offer.adapter = adapter_shelf_make(2, 1);
    offer.id = "b";
    assert_ok(rv_adapter_registry_publish(r, &offer, &generation, err));
    assert_ok(rv_adapter_registry_forget(r, "b", 0, err));
    rv_adapter_unref(offer.adapter);
    rv_adapter_registry_settle(r);
    assert_int_equal(shelf.n_sources, 0);
    adapter_shelf_close(&shelf, r);
}

static void stopping_fails_who_waits(void **state)
{
    struct rv_adapter_ticket tickets[6];
    struct rv_adapter_registry *r;
    int n_waiting = 0;
    char id[8];

    (void)state;
    open_shelf(&r, 4, 16);
    publish_layered(r, 6);
    for (int i = 5; i >= 0; i--) {
        snprintf(id, sizeof(id), "a%d", i);
        n_waiting += !enter(r, &tickets[i], id);
    }
    assert_int_equal(n_waiting, 2);
    shelf.n_ready = 0;
    rv_adapter_registry_stop(r);
    assert_int_equal(shelf.n_ready, 2);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(tickets[i].state, i < 2 ? RV_ADAPTER_TICKET_FAILED : RV_ADAPTER_TICKET_HELD);
        rv_adapter_registry_release(r, &tickets[i]);
    }
    assert_true(enter(r, &tickets[0], "a0")); // at once, as a failure
    assert_int_equal(tickets[0].error.status, RUVLLM_CANCELLED);
    rv_adapter_registry_release(r, &tickets[0]);
    adapter_shelf_close(&shelf, r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generations_count_up_and_losers_get_conflict),
        cmocka_unit_test(ids_are_checked),
        cmocka_unit_test(a_pinned_generation_outlives_what_comes_after),
        cmocka_unit_test(caches_depend_on_layers_and_their_weights_alone),
        cmocka_unit_test(a_list_tells_everything),
        cmocka_unit_test(what_was_not_used_longest_leaves_memory_and_comes_back),
        cmocka_unit_test(bytes_are_bounded_too),
        cmocka_unit_test(without_files_old_generations_give_way_and_then_it_is_full),
        cmocka_unit_test(one_more_than_the_places_waits_until_one_is_free),
        cmocka_unit_test(unloading_makes_room_for_who_waits),
        cmocka_unit_test(who_waits_is_passed_for_a_while_only),
        cmocka_unit_test(a_file_that_cannot_be_read_fails_the_request_with_the_reason),
        cmocka_unit_test(what_cannot_be_written_stays_in_memory_until_it_can),
        cmocka_unit_test(a_file_goes_with_the_last_of_its_content),
        cmocka_unit_test(sources_are_closed_once),
        cmocka_unit_test(stopping_fails_who_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
