/* Sessions through the public calls. */
#include "support/store_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ruvllm_session session(const char *tenant, const char *id, const char *title, const char *messages)
{
    return (struct ruvllm_session){.struct_size = sizeof(struct ruvllm_session),
                                   .tenant = tenant,
                                   .id = id,
                                   .model = "stories",
                                   .title = title,
                                   .snapshot = "s1.kv",
                                   .messages = messages,
                                   .messages_len = messages ? strlen(messages) : 0,
                                   .n_tokens = 42};
}

static void put(ruvllm_store *store, const char *tenant, const char *id, const char *title, const char *messages)
{
    struct ruvllm_session s = session(tenant, id, title, messages);

    assert_ok(ruvllm_sessions_put(store, &s, err));
}

static void what_was_put_comes_back_also_after_reopening(void **state)
{
    const char *path = store_temp_url();
    ruvllm_store *store = store_open(path);
    struct ruvllm_session *got;

    (void)state;
    put(store, "acme", "chat-1", "Gr\xC3\xBC\xC3\x9F Gott", "[{\"role\":\"user\"}]");
    ruvllm_store_close(store);
    store = store_open(path);
    assert_ok(ruvllm_sessions_get(store, "acme", "chat-1", &got, err));
    assert_string_equal(got->tenant, "acme");
    assert_string_equal(got->id, "chat-1");
    assert_string_equal(got->model, "stories");
    assert_string_equal(got->title, "Gr\xC3\xBC\xC3\x9F Gott");
    assert_string_equal(got->snapshot, "s1.kv");
    assert_string_equal(got->messages, "[{\"role\":\"user\"}]");
    assert_int_equal(got->messages_len, 17);
    assert_int_equal(got->n_tokens, 42);
    assert_true(got->created_us > 1600000000000000 && got->updated_us == got->created_us);
    ruvllm_free(got);
    ruvllm_store_close(store);
}

static void putting_again_replaces_and_keeps_the_time_of_creation(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_session *first, *second;
    struct store_rows rows = {0};

    (void)state;
    put(store, "acme", "chat-1", "old", "[1]");
    assert_ok(ruvllm_sessions_get(store, "acme", "chat-1", &first, err));
    put(store, "acme", "chat-1", "new", NULL);
    assert_ok(ruvllm_sessions_get(store, "acme", "chat-1", &second, err));
    assert_string_equal(second->title, "new");
    assert_string_equal(second->messages, "");
    assert_true(second->created_us == first->created_us && second->updated_us > first->updated_us);
    assert_ok(ruvllm_sessions_list(store, "acme", 0, NULL, 10, store_row_session, &rows, err));
    assert_string_equal(rows.text, "acme chat-1 new\n");
    ruvllm_free(first);
    ruvllm_free(second);
    ruvllm_store_close(store);
}

static void one_tenant_never_sees_changes_or_deletes_anothers(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_error failure = {0};
    struct ruvllm_session *got;
    struct store_rows rows = {0};

    (void)state;
    put(store, "acme", "same", "acme's", "[\"secret of acme\"]");
    assert_fails(ruvllm_sessions_get(store, "rival", "same", &got, &failure), RUVLLM_NOT_FOUND, failure, "'same'");
    assert_null(got);
    assert_fails(ruvllm_sessions_delete(store, "rival", "same", &failure), RUVLLM_NOT_FOUND, failure, "'same'");
    assert_ok(ruvllm_sessions_list(store, "rival", 0, NULL, 10, store_row_session, &rows, err));
    assert_int_equal(rows.n, 0);
    put(store, "rival", "same", "rival's", "[]");
    assert_ok(ruvllm_sessions_get(store, "acme", "same", &got, err));
    assert_string_equal(got->messages, "[\"secret of acme\"]");
    ruvllm_free(got);
    assert_ok(ruvllm_sessions_delete(store, "rival", "same", err));
    assert_ok(ruvllm_sessions_get(store, "acme", "same", &got, err));
    assert_string_equal(got->title, "acme's");
    ruvllm_free(got);
    ruvllm_store_close(store);
}

struct page {
    char ids[256];
    int64_t last_us;
    char last_id[65];
    size_t n;
};

static bool to_page(void *user, const struct ruvllm_session *s)
{
    struct page *page = user;

    strncat(page->ids, s->id, sizeof(page->ids) - strlen(page->ids) - 1);
    strncat(page->ids, " ", sizeof(page->ids) - strlen(page->ids) - 1);
    snprintf(page->last_id, sizeof(page->last_id), "%s", s->id);
    page->last_us = s->updated_us;
    page->n++;
    return true;
}

static void pages_cover_all_sessions_once_newest_first(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct page page = {0};
    char id[8];

    (void)state;
    for (int i = 0; i < 10; i++) {
        snprintf(id, sizeof(id), "s%d", i);
        put(store, "acme", id, "", "");
        put(store, "other", id, "", "");
    }
    put(store, "acme", "s4", "touched", "");
    do {
        page.n = 0;
        assert_ok(ruvllm_sessions_list(store, "acme", page.last_us, page.last_us ? page.last_id : NULL, 3, to_page,
                                       &page, err));
    } while (page.n == 3);
    assert_string_equal(page.ids, "s4 s9 s8 s7 s6 s5 s3 s2 s1 s0 ");
    ruvllm_store_close(store);
}

static void wrong_sessions_are_refused(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_session good = session("acme", "id", "title", "[]"), s;
    struct ruvllm_error failure = {0};
    struct ruvllm_session *got;
    char *large = calloc(1, 16 * 1024 * 1024 + 2);

    (void)state;
    assert_non_null(large);
    memset(large, ' ', 16 * 1024 * 1024 + 1);
    s = good, s.id = "../../etc/passwd";
    assert_fails(ruvllm_sessions_put(store, &s, &failure), RUVLLM_INVALID, failure, "id of a session");
    s = good, s.tenant = "";
    assert_fails(ruvllm_sessions_put(store, &s, &failure), RUVLLM_INVALID, failure, "tenant");
    s = good, s.snapshot = "../x";
    assert_fails(ruvllm_sessions_put(store, &s, &failure), RUVLLM_INVALID, failure, "snapshot");
    s = good, s.title = "\x1b[2J";
    assert_fails(ruvllm_sessions_put(store, &s, &failure), RUVLLM_INVALID, failure, "title");
    s = good, s.n_tokens = -1;
    assert_fails(ruvllm_sessions_put(store, &s, &failure), RUVLLM_INVALID, failure, "n_tokens");
    s = good, s.messages = "[\"\xFF\"]", s.messages_len = 5;
    assert_fails(ruvllm_sessions_put(store, &s, &failure), RUVLLM_INVALID, failure, "UTF-8");
    s = good, s.messages = "[\"\0\"]", s.messages_len = 5;
    assert_fails(ruvllm_sessions_put(store, &s, &failure), RUVLLM_INVALID, failure, "NUL");
    s = good, s.messages = large, s.messages_len = 16 * 1024 * 1024 + 1;
    assert_fails(ruvllm_sessions_put(store, &s, &failure), RUVLLM_TOO_LARGE, failure, "16777217 bytes");
    assert_fails(ruvllm_sessions_get(store, "acme", "id", &got, &failure), RUVLLM_NOT_FOUND, failure, "'id'");
    s.messages_len = 16 * 1024 * 1024;
    assert_ok(ruvllm_sessions_put(store, &s, err));
    assert_ok(ruvllm_sessions_get(store, "acme", "id", &got, err));
    assert_int_equal(got->messages_len, 16 * 1024 * 1024);
    ruvllm_free(got);
    assert_fails(ruvllm_sessions_list(store, "acme", 0, NULL, 0, to_page, NULL, &failure), RUVLLM_INVALID, failure,
                 "limit");
    assert_fails(ruvllm_sessions_list(store, "acme", 0, NULL, 1001, to_page, NULL, &failure), RUVLLM_INVALID, failure,
                 "limit");
    assert_fails(ruvllm_sessions_list(store, "acme", 5, NULL, 10, to_page, NULL, &failure), RUVLLM_INVALID, failure,
                 "both");
    free(large);
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_put_comes_back_also_after_reopening),
        cmocka_unit_test(putting_again_replaces_and_keeps_the_time_of_creation),
        cmocka_unit_test(one_tenant_never_sees_changes_or_deletes_anothers),
        cmocka_unit_test(pages_cover_all_sessions_once_newest_first),
        cmocka_unit_test(wrong_sessions_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
