/* News of learning, on the kind of store this run is about: PostgreSQL tells what happened, SQLite what it can. */
#include "store/store_events.h"
#include "store/store_learner.h"
#include "store/store_news.h"
#include "support/store_fixture.h"

#include <string.h>

struct heard {
    struct rv_store_news news[16];
    int n;
};

static void keep(void *user, const struct rv_store_news *news)
{
    struct heard *h = user;

    assert_true(h->n < 16);
    h->news[h->n++] = *news;
}

/* What comes within a while; what was done before the call is in the first part of it. */
static struct heard hear(struct rv_store_news_listener *listener, int32_t ms)
{
    struct heard h = {0};

    assert_ok(rv_store_news_wait(listener, ms, keep, &h, err));
    return h;
}

static struct rv_store_event event(const char *tenant, const char *model, uint8_t uid)
{
    return (struct rv_store_event){
        .tenant = tenant, .model = model, .kind = RV_STORE_EVENT_VOTE, .score = 1, .uid = {uid, 1}};
}

static void expect(const struct rv_store_news *news, enum rv_store_news_kind kind, const char *tenant,
                   const char *model, int64_t seq)
{
    assert_int_equal(news->kind, kind);
    assert_string_equal(news->tenant, tenant);
    assert_string_equal(news->model, model);
    assert_int_equal(news->seq, seq);
}

static struct rv_store_news_listener *listen_to(ruvllm_store *store)
{
    struct rv_store_news_listener *listener;
    struct heard h;

    assert_ok(rv_store_news_open(&listener, store, err));
    h = hear(listener, 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(h.news[0].kind, RV_STORE_NEWS_ANY); // who begins to listen has missed all before
    assert_int_equal(hear(listener, 30).n, 0);
    return listener;
}

static void a_listener_hears_of_events(void **state)
{
    const char *url = store_temp_url();
    ruvllm_store *here = store_open(url), *there = store_open(url);
    struct rv_store_event e = event("acme", "a model: of two words", 1);
    struct rv_store_news_listener *listener;
    struct heard h;

    (void)state;
    assert_ok(rv_store_events_append(there, &e, 1, err)); // before anybody listened
    listener = listen_to(here);
    e = event("acme", "a model: of two words", 2);
    assert_ok(rv_store_events_append(there, &e, 1, err));
    h = hear(listener, 60000);
    assert_int_equal(h.n, 1);
    expect(&h.news[0], RV_STORE_NEWS_EVENTS, "acme", "a model: of two words", 2);
    e = event("b", "", 3);
    assert_ok(rv_store_events_append(here, &e, 1, err)); // one's own too
    h = hear(listener, 60000);
    assert_int_equal(h.n, 1);
    expect(&h.news[0], RV_STORE_NEWS_EVENTS, "b", "", 1);
    assert_int_equal(hear(listener, 30).n, 0);
    rv_store_news_close(listener);
    ruvllm_store_close(here);
    ruvllm_store_close(there);
}

/* What one transaction adds to a tenant's model, one word tells, also when the last of it was there already. */
static void a_batch_is_told_of_by_its_last(void **state)
{
    const char *url = store_temp_url();
    ruvllm_store *here = store_open(url), *there = store_open(url);
    struct rv_store_event e[6] = {event("b", "m", 1), event("a", "m", 2), event("a", "m", 3),
                                  event("a", "n", 4), event("b", "m", 5), event("a", "m", 6)};
    struct rv_store_event known[3] = {event("a", "m", 7), event("a", "m", 8), event("a", "m", 2)};
    struct rv_store_news_listener *listener = listen_to(here);
    struct heard h;

    (void)state;
    assert_ok(rv_store_events_append(there, e, 6, err));
    h = hear(listener, 60000);
    if (store_is_postgres()) {
        assert_int_equal(h.n, 4);
        expect(&h.news[0], RV_STORE_NEWS_EVENTS, "a", "m", 2);
        expect(&h.news[1], RV_STORE_NEWS_EVENTS, "a", "n", 3);
        expect(&h.news[2], RV_STORE_NEWS_EVENTS, "a", "m", 4);
        expect(&h.news[3], RV_STORE_NEWS_EVENTS, "b", "m", 2);
    } else {
        assert_int_equal(h.n, 6);
        expect(&h.news[5], RV_STORE_NEWS_EVENTS, "b", "m", 2);
    }
    assert_ok(rv_store_events_append(there, known, 3, err));
    h = hear(listener, 60000);
    assert_int_equal(h.n, store_is_postgres() ? 1 : 2);
    expect(&h.news[h.n - 1], RV_STORE_NEWS_EVENTS, "a", "m", 6);
    assert_ok(rv_store_events_append(there, known, 3, err)); // nothing happened
    assert_int_equal(hear(listener, 250).n, 0);
    rv_store_news_close(listener);
    ruvllm_store_close(here);
    ruvllm_store_close(there);
}

static void expect_change(struct rv_store_news_listener *listener, const char *tenant, const char *model)
{
    struct heard h = hear(listener, 60000);

    assert_int_equal(h.n, 1);
    if (store_is_postgres())
        expect(&h.news[0], RV_STORE_NEWS_CHANGE, tenant, model, 0);
    else
        assert_int_equal(h.news[0].kind, RV_STORE_NEWS_ANY);
}

static void a_listener_hears_of_forgetting_and_of_pauses(void **state)
{
    const char *url = store_temp_url();
    ruvllm_store *here = store_open(url), *there = store_open(url);
    struct rv_store_event e[2] = {event("acme", "m", 1), event("acme", "m", 2)};
    struct rv_store_learner learner;
    struct rv_store_news_listener *listener;
    struct rv_store_look look;

    (void)state;
    assert_ok(rv_store_events_append(there, e, 2, err));
    listener = listen_to(here);
    assert_ok(rv_store_events_forget(there, "acme", 1, err));
    expect_change(listener, "acme", "");
    assert_ok(rv_store_events_forget_later(there, "acme", "m", 1, RV_STORE_EVENT_VOTE, err));
    expect_change(listener, "acme", "m");
    assert_ok(rv_store_learner_get(there, "other", "m", &learner, err));
    learner.is_paused = true;
    assert_ok(rv_store_learner_put(there, &learner, err));
    expect_change(listener, "other", "m");
    assert_ok(rv_store_learner_look(here, "other", "m", &look, err));
    assert_true(look.is_paused && look.last_seq == 0);
    assert_ok(rv_store_learner_look(here, "other", "n", &look, err));
    assert_false(look.is_paused);
    assert_ok(rv_store_events_forget_later(there, "acme", "m", 1, RV_STORE_EVENT_TICK, err)); // there is none
    assert_int_equal(hear(listener, 250).n, 0);
    rv_store_news_close(listener);
    ruvllm_store_close(here);
    ruvllm_store_close(there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listener_hears_of_events),
        cmocka_unit_test(a_batch_is_told_of_by_its_last),
        cmocka_unit_test(a_listener_hears_of_forgetting_and_of_pauses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
