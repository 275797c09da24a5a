/* Who is found again, who goes first, and who never goes. */
#include "base/alloc.h"
#include "learn/tenant_table.h"
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct guest {
    struct rv_tenant_link link;
    char name[16];
    bool may_stay_only;
    int n_visits;
};

struct house {
    struct rv_tenant_table *table;
    char gone[4096]; // names, in the order they went; guarded by lock
    pthread_mutex_t lock;
    bool is_full; // nobody can be made
};

static ruvllm_status make(void *user, const char *name, struct rv_tenant_link **out, struct ruvllm_error *err)
{
    const struct house *house = user;
    struct guest *g = house->is_full ? NULL : rv_calloc(1, sizeof(*g));

    if (!g)
        return rv_fail(err, RUVLLM_NO_MEMORY, "the house is full");
    snprintf(g->name, sizeof(g->name), "%s", name);
    *out = &g->link;
    return RUVLLM_OK;
}

static void let_go(void *user, struct rv_tenant_link *link, bool is_end)
{
    struct house *house = user;

    pthread_mutex_lock(&house->lock);
    if (!is_end && strlen(house->gone) < 4000)
        snprintf(house->gone + strlen(house->gone), sizeof(house->gone) - strlen(house->gone), "%s ", link->name);
    pthread_mutex_unlock(&house->lock);
    rv_free(link);
}

static bool may_go(void *user, const struct rv_tenant_link *link)
{
    (void)user;
    return !((const struct guest *)link)->may_stay_only;
}

static const struct rv_tenant_table_ops ops = {.make = make, .let_go = let_go, .may_go = may_go};

static void open_house(struct house *house, uint64_t max_bytes)
{
    memset(house, 0, sizeof(*house));
    pthread_mutex_init(&house->lock, NULL);
    assert_ok(rv_tenant_table_new(&house->table, &ops, house, max_bytes, err));
}

static struct guest *take(struct house *house, const char *name)
{
    struct rv_tenant_link *link;

    assert_ok(rv_tenant_table_take(house->table, name, &link, err));
    assert_string_equal(link->name, name);
    assert_string_equal(((struct guest *)link)->name, name);
    return (struct guest *)link;
}

static void leave(struct house *house, struct guest *g, uint64_t n_bytes)
{
    rv_tenant_table_leave(house->table, &g->link, n_bytes);
}

static void visit(struct house *house, const char *name, uint64_t n_bytes)
{
    struct guest *g = take(house, name);

    g->n_visits++;
    leave(house, g, n_bytes);
}

static void the_same_name_finds_the_same_one(void **state)
{
    struct house house;
    struct guest *a, *b;

    (void)state;
    open_house(&house, 0);
    a = take(&house, "anna");
    b = take(&house, "anna");
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(take(&house, "bert"), a);
    leave(&house, b, 1000000);
    leave(&house, a, 1000000);
    visit(&house, "anna", 1);
    assert_string_equal(house.gone, ""); // no limit: nobody goes
    rv_tenant_table_free(house.table);
}

static void who_was_left_longest_ago_goes_first(void **state)
{
    struct rv_tenant_table_stats stats;
    struct house house;

    (void)state;
    open_house(&house, 300);
    visit(&house, "a", 100);
    visit(&house, "b", 100);
    visit(&house, "c", 100);
    visit(&house, "a", 100);
    assert_string_equal(house.gone, "");
    visit(&house, "d", 150);
    assert_string_equal(house.gone, "b c ");
    visit(&house, "b", 40); // comes as a new one
    assert_string_equal(house.gone, "b c ");
    rv_tenant_table_stats(house.table, &stats);
    assert_true(stats.n == 3 && stats.n_bytes == 290 && stats.n_gone == 2);
    visit(&house, "a", 10); // became smaller
    rv_tenant_table_stats(house.table, &stats);
    assert_int_equal(stats.n_bytes, 200);
    rv_tenant_table_free(house.table);
}

static void who_is_used_or_cannot_come_back_stays(void **state)
{
    struct house house;
    struct guest *used, *stays;

    (void)state;
    open_house(&house, 100);
    used = take(&house, "used");
    stays = take(&house, "stays");
    stays->may_stay_only = true;
    leave(&house, stays, 500);
    visit(&house, "x", 50);
    assert_string_equal(house.gone, "x "); // even the newest, where there is too much
    leave(&house, used, 10);
    assert_string_equal(house.gone, "x used ");
    stays = take(&house, "stays");
    stays->may_stay_only = false;
    leave(&house, stays, 500);
    assert_string_equal(house.gone, "x used stays ");
    rv_tenant_table_free(house.table);
}

static void one_that_cannot_be_made_is_a_failure_and_leaves_nothing(void **state)
{
    struct ruvllm_error failure = {0};
    struct rv_tenant_table_stats stats;
    struct rv_tenant_link *link;
    struct house house;

    (void)state;
    open_house(&house, 100);
    house.is_full = true;
    assert_fails(rv_tenant_table_take(house.table, "a", &link, &failure), RUVLLM_NO_MEMORY, failure, "full");
    assert_null(link);
    house.is_full = false;
    visit(&house, "a", 1);
    rv_tenant_table_stats(house.table, &stats);
    assert_int_equal(stats.n, 1);
    rv_tenant_table_free(house.table);
}

static void *come_and_go(void *arg)
{
    struct house *house = arg;
    char name[16];

    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof(name), "t%d", i * 7 % 50);
        leave(house, take(house, name), (uint64_t)(i % 90));
    }
    return NULL;
}

static void threads_come_and_go(void **state)
{
    struct rv_tenant_table_stats stats;
    pthread_t threads[4];
    struct house house;

    (void)state;
    open_house(&house, 500);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &house), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    rv_tenant_table_stats(house.table, &stats);
    assert_true(stats.n_bytes <= 500 && stats.n_gone > 0 && stats.n <= 50);
    rv_tenant_table_free(house.table);
}

static void who_only_looks_lets_nobody_go(void **state)
{
    struct rv_tenant_table_stats stats;
    struct house house;
    struct guest *anna;

    (void)state;
    open_house(&house, 100);
    anna = take(&house, "anna");
    leave(&house, take(&house, "anna"), 150); // stays, because it is used
    rv_tenant_table_leave_as_it_was(house.table, &anna->link);
    assert_string_equal(house.gone, "");
    rv_tenant_table_stats(house.table, &stats);
    assert_int_equal(stats.n_bytes, 150);
    visit(&house, "bert", 10);
    assert_string_equal(house.gone, "anna ");
    rv_tenant_table_free(house.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_name_finds_the_same_one),
        cmocka_unit_test(who_was_left_longest_ago_goes_first),
        cmocka_unit_test(who_is_used_or_cannot_come_back_stays),
        cmocka_unit_test(one_that_cannot_be_made_is_a_failure_and_leaves_nothing),
        cmocka_unit_test(threads_come_and_go),
        cmocka_unit_test(who_only_looks_lets_nobody_go),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
