/* Which answer an id means: to its tenant only, the oldest forgotten first, and all of a model that was opened anew. */
#include "server/response_index.h"

#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct rv_response_index *make(size_t n)
{
    struct rv_response_index *index;

    assert_ok(rv_response_index_new(&index, n, err));
    return index;
}

static void add(struct rv_response_index *index, int i)
{
    char id[16];

    snprintf(id, sizeof(id), "cmpl-%d", i);
    rv_response_index_add(index, id, 0, "anna", (size_t)i % 2, (uint64_t)i);
}

/* Whether answer `i` is there, and is what was put there. */
static bool has(struct rv_response_index *index, int i)
{
    size_t i_model = 9;
    uint64_t answer = 9999999;
    char id[16];
    bool found;

    snprintf(id, sizeof(id), "cmpl-%d", i);
    found = rv_response_index_find(index, id, 0, "anna", &i_model, &answer);
    assert_true(!found || (i_model == (size_t)i % 2 && answer == (uint64_t)i));
    return found;
}

static void an_answer_is_found_by_its_tenant_and_number_only(void **state)
{
    struct rv_response_index *index = make(8);
    uint64_t answer;
    size_t i_model;

    (void)state;
    rv_response_index_add(index, "cmpl-x", 0, "anna", 3, 70);
    rv_response_index_add(index, "cmpl-x", 1, "anna", 3, 71);
    assert_true(rv_response_index_find(index, "cmpl-x", 1, "anna", &i_model, &answer));
    assert_true(i_model == 3 && answer == 71);
    assert_true(rv_response_index_find(index, "cmpl-x", 0, "anna", &i_model, &answer));
    assert_true(answer == 70);
    assert_false(rv_response_index_find(index, "cmpl-x", 2, "anna", &i_model, &answer));
    assert_false(rv_response_index_find(index, "cmpl-x", 0, "bert", &i_model, &answer));
    assert_false(rv_response_index_find(index, "cmpl-x", 0, "", &i_model, &answer));
    assert_false(rv_response_index_find(index, "cmpl-", 0, "anna", &i_model, &answer));
    assert_false(rv_response_index_find(index, "", 0, "anna", &i_model, &answer));
    rv_response_index_free(index);
}

static void the_oldest_go_first(void **state)
{
    struct rv_response_index *index = make(100);

    (void)state;
    for (int i = 0; i < 1000; i++) {
        add(index, i);
        assert_true(has(index, i));
        assert_true(i < 99 || has(index, i - 99));
        assert_false(i >= 100 && has(index, i - 100));
    }
    rv_response_index_free(index);
}

static void a_model_that_was_opened_anew_is_forgotten_alone(void **state)
{
    struct rv_response_index *index = make(10);

    (void)state;
    for (int i = 0; i < 7; i++)
        add(index, i);
    rv_response_index_forget(index, 1);
    for (int i = 0; i < 7; i++)
        assert_int_equal(has(index, i), i % 2 == 0);
    for (int i = 7; i < 40; i++) // over the holes
        add(index, i);
    for (int i = 0; i < 40; i++)
        assert_int_equal(has(index, i), i >= 30);
    rv_response_index_free(index);
}

static void what_is_too_long_is_not_kept(void **state)
{
    struct rv_response_index *index = make(4);
    char text[80];
    uint64_t answer;
    size_t i_model;

    (void)state;
    memset(text, 'a', sizeof(text));
    text[RV_RESPONSE_INDEX_ID + 1] = '\0';
    rv_response_index_add(index, text, 0, "anna", 0, 1);
    assert_false(rv_response_index_find(index, text, 0, "anna", &i_model, &answer));
    text[RV_RESPONSE_INDEX_ID] = '\0';
    rv_response_index_add(index, text, 0, "anna", 0, 1);
    assert_true(rv_response_index_find(index, text, 0, "anna", &i_model, &answer));
    memset(text, 'a', sizeof(text));
    text[RV_RESPONSE_INDEX_TENANT + 1] = '\0';
    rv_response_index_add(index, "cmpl-y", 0, text, 0, 1);
    assert_false(rv_response_index_find(index, "cmpl-y", 0, text, &i_model, &answer));
    rv_response_index_free(index);
}

static void *add_many(void *user)
{
    for (int i = 0; i < 20000; i++)
        add(user, i);
    return NULL;
}

static void threads_share_it(void **state)
{
    struct rv_response_index *index = make(64);
    pthread_t threads[2];

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, index), 0);
    for (int i = 0; i < 20000; i++) {
        has(index, i);
        if (i % 1000 == 0)
            rv_response_index_forget(index, 1);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(has(index, 19998)); // the last one of a model that is never forgotten
    rv_response_index_free(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_found_by_its_tenant_and_number_only),
        cmocka_unit_test(the_oldest_go_first),
        cmocka_unit_test(a_model_that_was_opened_anew_is_forgotten_alone),
        cmocka_unit_test(what_is_too_long_is_not_kept),
        cmocka_unit_test(threads_share_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
