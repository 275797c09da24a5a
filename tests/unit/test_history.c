/* The log as people read it: newest first, a page at a time, one model's; and the notes of what came of an event. */
#include "learn/history.h"

#include "base/alloc.h"
#include "learn/tick_event.h"
#include "store/store_events.h"
#include "support/store_fixture.h"

#include <math.h>
#include <string.h>

static struct rv_str str(const char *text)
{
    return (struct rv_str){.data = text, .len = strlen(text)};
}

/* Event number i of a tenant; those of the model "m" say so in their score. */
static void add(ruvllm_store *store, const char *model, int i)
{
    struct rv_history_note note = {.generation = i, .advantage = -1, .kl = 0.5, .gain = 0.25};
    struct rv_store_event e = {.tenant = "acme",
                               .model = model,
                               .kind = RV_STORE_EVENT_VOTE,
                               .generation = i - 1,
                               .time_us = 1000 + i,
                               .score = 1.0 / i};

    assert_ok(rv_history_add_note(str("an update"), &note, &e.delta, err));
    assert_ok(rv_store_events_append(store, &e, 1, err));
    rv_free((char *)(uintptr_t)e.delta.data);
    assert_int_equal(e.seq, i);
}

static void a_note_comes_back_and_other_bytes_are_none(void **state)
{
    struct rv_history_note note = {.generation = 7, .advantage = -2, .kl = 0.012, .gain = 0.16}, back;
    struct rv_str written, delta;

    (void)state;
    assert_ok(rv_history_add_note(str("update"), &note, &written, err));
    delta = written;
    assert_true(rv_history_take_note(&delta, &back));
    assert_true(back.generation == 7 && back.advantage == -2.0 && back.kl == 0.012 && back.gain == 0.16);
    assert_int_equal(delta.len, 6);
    assert_memory_equal(delta.data, "update", 6);
    assert_false(rv_history_take_note(&delta, &back)); // one is all there is
    assert_true(back.generation == -1 && isnan(back.advantage) && isnan(back.kl) && isnan(back.gain));
    assert_int_equal(delta.len, 6);
    delta.len = written.len - 1; // cut short
    assert_false(rv_history_take_note(&delta, &back));
    delta.len = written.len;
    ((char *)(uintptr_t)written.data)[6 + 7]++; // another version
    assert_false(rv_history_take_note(&delta, &back));
    delta.len = 0;
    assert_false(rv_history_take_note(&delta, &back));
    rv_free((char *)(uintptr_t)written.data);
}

/* Every third event is the other model's. Pages of every size give the same list. */
static void pages_of_every_size_give_the_same_list(void **state)
{
    enum { N = 200 };
    static const size_t sizes[] = {1, 2, 7, 64, 65, 133, 134, 1000};
    ruvllm_store *store = store_open(store_temp_path());

    (void)state;
    for (int i = 1; i <= N; i++)
        add(store, i % 3 == 0 ? "other" : "m", i);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        int64_t before = 0, expected = N;
        size_t n = 0;

        do {
            struct rv_history page;

            assert_ok(rv_history_read(&page, store, "acme", "m", before, sizes[k], err));
            assert_true(page.n <= sizes[k]);
            for (size_t i = 0; i < page.n; i++, n++) {
                expected -= expected % 3 == 0;
                assert_int_equal(page.rows[i].seq, expected);
                assert_int_equal(page.rows[i].note.generation, expected);
                assert_true(page.rows[i].about == expected - 1 && page.rows[i].time_us == 1000 + expected);
                expected--;
            }
            before = page.next;
            rv_history_release(&page);
        } while (before > 0);
        assert_int_equal(n, 134);
    }
    ruvllm_store_close(store);
}

static void who_said_nothing_has_an_empty_list(void **state)
{
    ruvllm_store *store = store_open(store_temp_path());
    struct ruvllm_error failure = {0};
    struct rv_history page;

    (void)state;
    add(store, "m", 1);
    assert_ok(rv_history_read(&page, store, "nobody", "m", 0, 10, err));
    assert_true(page.n == 0 && page.next == 0);
    rv_history_release(&page);
    assert_ok(rv_history_read(&page, store, "acme", "m", 1, 10, err));
    assert_true(page.n == 0 && page.next == 0);
    rv_history_release(&page);
    assert_fails(rv_history_read(&page, store, "acme", "m", 0, 0, &failure), RUVLLM_INVALID, failure, "1 to 1000");
    rv_history_release(&page);
    assert_fails(rv_history_read(&page, store, "acme", "m", -1, 1, &failure), RUVLLM_INVALID, failure, "1 to 1000");
    rv_history_release(&page);
    ruvllm_store_close(store);
}

static void texts_are_cut_between_characters_and_forgotten_ones_are_gone(void **state)
{
    static char large[3 * RV_HISTORY_TEXT_MAX];
    ruvllm_store *store = store_open(store_temp_path());
    struct rv_store_event e = {.tenant = "acme", .model = "m", .kind = RV_STORE_EVENT_CORRECTION, .generation = 4};
    struct rv_history page;

    (void)state;
    for (size_t i = 0; i < sizeof(large); i += 3)
        memcpy(large + i, "\xe2\x82\xac", 3); // 2048 is no multiple of its three bytes
    e.prompt = (struct rv_str){.data = large, .len = sizeof(large)};
    e.correction = str("what should have been");
    assert_ok(rv_store_events_append(store, &e, 1, err));
    assert_ok(rv_history_read(&page, store, "acme", "m", 0, 10, err));
    assert_int_equal(strlen(page.rows[0].prompt), RV_HISTORY_TEXT_MAX / 3 * 3 + 3);
    assert_memory_equal(page.rows[0].prompt + strlen(page.rows[0].prompt) - 3, "\xe2\x80\xa6", 3);
    assert_string_equal(page.rows[0].correction, "what should have been");
    assert_string_equal(page.rows[0].answer, "");
    assert_int_equal(page.rows[0].note.generation, -1); // nobody noted what came of it
    rv_history_release(&page);
    assert_ok(rv_store_events_forget(store, "acme", 1, err));
    assert_ok(rv_history_read(&page, store, "acme", "m", 0, 10, err));
    assert_true(page.n == 1 && page.rows[0].is_forgotten);
    assert_string_equal(page.rows[0].prompt, "");
    assert_string_equal(page.rows[0].correction, "");
    rv_history_release(&page);
    ruvllm_store_close(store);
}

/* A flood's way back says where it leads to, as one by hand does; what judged no answer has moved none. */
static void the_gate_says_what_it_went_back_to(void **state)
{
    ruvllm_store *store = store_open(store_temp_path());
    const struct rv_history_note note = {.generation = 31};
    const struct rv_tick_result nothing = {0};
    struct rv_store_event e = {.tenant = "acme", .model = "m", .kind = RV_STORE_EVENT_GATE, .generation = 30};
    struct rv_history page;

    (void)state;
    assert_ok(rv_history_add_note(str(""), &note, &e.delta, err));
    assert_ok(rv_tick_event_write_gate(RV_TICK_EVENT_PAUSED, &nothing, 12, &e.result, err));
    assert_ok(rv_store_events_append(store, &e, 1, err));
    rv_free((char *)(uintptr_t)e.result.data);
    memset(e.uid, 0, sizeof(e.uid));
    assert_ok(rv_tick_event_write_gate(RV_TICK_EVENT_REJECTED, &nothing, 12, &e.result, err));
    assert_ok(rv_store_events_append(store, &e, 1, err));
    rv_free((char *)(uintptr_t)e.result.data);
    rv_free((char *)(uintptr_t)e.delta.data);
    assert_ok(rv_history_read(&page, store, "acme", "m", 0, 10, err));
    assert_int_equal(page.n, 2);
    assert_int_equal(page.rows[1].about, 12);
    assert_int_equal(page.rows[0].about, 30);
    assert_true(page.rows[1].note.generation == 31 && isnan(page.rows[1].note.kl) && isnan(page.rows[1].note.gain));
    rv_history_release(&page);
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_note_comes_back_and_other_bytes_are_none),
        cmocka_unit_test(pages_of_every_size_give_the_same_list),
        cmocka_unit_test(who_said_nothing_has_an_empty_list),
        cmocka_unit_test(texts_are_cut_between_characters_and_forgotten_ones_are_gone),
        cmocka_unit_test(the_gate_says_what_it_went_back_to),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
