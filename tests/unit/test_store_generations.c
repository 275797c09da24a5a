/* Generations and their content, on the kind of store this run is about. */
#include "base/alloc.h"
#include "store/store_generations.h"
#include "support/store_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rv_store_generation generation(const char *tenant, const char *model, bool is_active)
{
    struct rv_store_generation gen = {.kind = RV_STORE_GENERATION_INSTANT, .is_active = is_active, .applied_seq = 5};

    snprintf(gen.tenant, sizeof(gen.tenant), "%s", tenant);
    snprintf(gen.model, sizeof(gen.model), "%s", model);
    snprintf(gen.metrics, sizeof(gen.metrics), "{\"gain\":0.25}");
    return gen;
}

static int64_t add(ruvllm_store *store, const char *tenant, const char *content, bool is_active)
{
    struct rv_store_generation gen = generation(tenant, "m", is_active);

    assert_ok(rv_store_generations_add(store, &gen, content, strlen(content), err));
    return gen.generation;
}

static int64_t active(ruvllm_store *store, const char *tenant)
{
    struct rv_store_generation gen;
    bool found;

    assert_ok(rv_store_generations_active(store, tenant, "m", &gen, &found, err));
    return found ? gen.generation : 0;
}

static void a_generation_comes_back_with_its_content(void **state)
{
    const char *url = store_temp_url();
    ruvllm_store *store = store_open(url);
    struct rv_store_generation gen = generation("acme", "m", true), got;
    size_t len = (9 << 20) + 13; // more than two parts
    char *content = malloc(len);
    void *back;

    (void)state;
    assert_non_null(content);
    for (size_t i = 0; i < len; i++)
        content[i] = (char)(i * 2654435761u >> 13);
    gen.kind = RV_STORE_GENERATION_DEEP;
    gen.parent = 3;
    assert_ok(rv_store_generations_add(store, &gen, content, len, err));
    assert_int_equal(gen.generation, 1);
    ruvllm_store_close(store);
    store = store_open(url);
    assert_ok(rv_store_generations_get(store, "acme", "m", 1, &got, err));
    assert_int_equal(got.parent, 3);
    assert_int_equal(got.kind, RV_STORE_GENERATION_DEEP);
    assert_int_equal(got.applied_seq, 5);
    assert_int_equal(got.n_bytes, len);
    assert_true(got.is_active && got.created_us > 1600000000000000);
    assert_string_equal(got.hash, gen.hash);
    assert_string_equal(got.metrics, "{\"gain\":0.25}");
    assert_ok(rv_store_generations_content(store, &got, &back, err));
    assert_memory_equal(back, content, len);
    rv_free(back);
    free(content);
    gen = generation("acme", "m", false);
    assert_ok(rv_store_generations_add(store, &gen, NULL, 0, err)); // nothing is a content too
    assert_ok(rv_store_generations_content(store, &gen, &back, err));
    rv_free(back);
    ruvllm_store_close(store);
}

static void one_of_a_tenant_and_model_is_active(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_error failure = {0};

    (void)state;
    assert_int_equal(active(store, "acme"), 0);
    assert_int_equal(add(store, "acme", "one", true), 1);
    assert_int_equal(add(store, "other", "one", true), 1);
    assert_int_equal(add(store, "acme", "two", false), 2);
    assert_int_equal(active(store, "acme"), 1);
    assert_int_equal(add(store, "acme", "three", true), 3);
    assert_int_equal(active(store, "acme"), 3);
    assert_ok(rv_store_generations_activate(store, "acme", "m", 2, err));
    assert_int_equal(active(store, "acme"), 2);
    assert_fails(rv_store_generations_activate(store, "acme", "m", 9, &failure), RUVLLM_NOT_FOUND, failure,
                 "no generation 9");
    assert_int_equal(active(store, "acme"), 2);
    assert_ok(rv_store_generations_activate(store, "acme", "m", 0, err));
    assert_int_equal(active(store, "acme"), 0);
    assert_int_equal(active(store, "other"), 1);
    assert_int_equal(add(store, "acme", "four", true), 4); // after a rollback numbers go on
    ruvllm_store_close(store);
}

static void lists_go_back_from_the_newest(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_store_generation *rows = calloc(4, sizeof(*rows));
    struct ruvllm_error failure = {0};
    size_t n;

    (void)state;
    assert_non_null(rows);
    for (int i = 0; i < 6; i++)
        add(store, "acme", "same", false);
    assert_ok(rv_store_generations_list(store, "acme", "m", 0, rows, 4, &n, err));
    assert_true(n == 4 && rows[0].generation == 6 && rows[3].generation == 3);
    assert_ok(rv_store_generations_list(store, "acme", "m", 3, rows, 4, &n, err));
    assert_true(n == 2 && rows[0].generation == 2 && rows[1].generation == 1);
    assert_ok(rv_store_generations_list(store, "acme", "other model", 0, rows, 4, &n, err));
    assert_int_equal(n, 0);
    assert_fails(rv_store_generations_list(store, "acme", "m", 0, rows, 0, &n, &failure), RUVLLM_INVALID, failure,
                 "from 1 to");
    free(rows);
    ruvllm_store_close(store);
}

static int64_t add_read_to(ruvllm_store *store, const char *content, int64_t seq)
{
    struct rv_store_generation gen = generation("acme", "m", true);

    gen.applied_seq = seq;
    assert_ok(rv_store_generations_add(store, &gen, content, strlen(content), err));
    return gen.generation;
}

static void what_read_an_event_goes_and_content_stays_while_somebody_has_it(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct ruvllm_error failure = {0};
    struct rv_store_generation gone, kept;
    void *content;

    (void)state;
    add_read_to(store, "before", 6);
    add_read_to(store, "shared", 7);
    add_read_to(store, "alone", 8);
    add(store, "other", "shared", false);
    assert_ok(rv_store_generations_get(store, "acme", "m", 3, &gone, err));
    assert_ok(rv_store_generations_forget(store, "acme", "m", 7, err));
    assert_int_equal(active(store, "acme"), 0);
    assert_fails(rv_store_generations_content(store, &gone, &content, &failure), RUVLLM_FORMAT, failure, "damaged");
    assert_null(content);
    for (int64_t i = 2; i <= 3; i++) {
        assert_ok(rv_store_generations_get(store, "acme", "m", i, &gone, err));
        assert_true(gone.n_bytes == 0 && gone.hash[0] == '\0' && gone.metrics[0] == '\0');
    }
    assert_ok(rv_store_generations_get(store, "acme", "m", 1, &kept, err));
    assert_ok(rv_store_generations_content(store, &kept, &content, err));
    assert_memory_equal(content, "before", 6);
    rv_free(content);
    assert_ok(rv_store_generations_get(store, "other", "m", 1, &kept, err));
    assert_ok(rv_store_generations_content(store, &kept, &content, err));
    assert_memory_equal(content, "shared", 6);
    rv_free(content);
    assert_int_equal(add_read_to(store, "x", 9), 4); // no number is given twice
    ruvllm_store_close(store);
}

static void content_that_was_changed_is_refused(void **state)
{
    const char *path = store_temp_path();
    ruvllm_store *store = store_open(path);
    struct rv_store_generation gen = generation("acme", "m", true);
    struct ruvllm_error failure = {0};
    sqlite3 *other;
    void *content;

    (void)state;
    assert_ok(rv_store_generations_add(store, &gen, "right", 5, err));
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "UPDATE blob_part SET bytes = x'77726F6E67'", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(other);
    assert_fails(rv_store_generations_content(store, &gen, &content, &failure), RUVLLM_FORMAT, failure, "hash");
    ruvllm_store_close(store);
}

static void wrong_generations_are_refused(void **state)
{
    ruvllm_store *store = store_open(store_temp_url());
    struct rv_store_generation gen = generation("acme", "m", false), got;
    struct ruvllm_error failure = {0};

    (void)state;
    gen.kind = (enum rv_store_generation_kind)9;
    assert_fails(rv_store_generations_add(store, &gen, "", 0, &failure), RUVLLM_INVALID, failure, "no kind 9");
    gen = generation("a/b", "m", false);
    assert_fails(rv_store_generations_add(store, &gen, "", 0, &failure), RUVLLM_INVALID, failure, "a tenant");
    gen = generation("acme", "m", false);
    gen.parent = -1;
    assert_fails(rv_store_generations_add(store, &gen, "", 0, &failure), RUVLLM_INVALID, failure, "negative");
    assert_fails(rv_store_generations_get(store, "acme", "m", 1, &got, &failure), RUVLLM_NOT_FOUND, failure, "1");
    assert_fails(rv_store_generations_get(store, "acme", "m", 0, &got, &failure), RUVLLM_NOT_FOUND, failure, "0");
    ruvllm_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_generation_comes_back_with_its_content),
        cmocka_unit_test(one_of_a_tenant_and_model_is_active),
        cmocka_unit_test(lists_go_back_from_the_newest),
        cmocka_unit_test(what_read_an_event_goes_and_content_stays_while_somebody_has_it),
        cmocka_unit_test(content_that_was_changed_is_refused),
        cmocka_unit_test(wrong_generations_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
