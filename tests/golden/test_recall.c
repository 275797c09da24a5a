/* Judged answers are found again by a new question that is like theirs: by their tenant, also after a restart. */
#include "ruvllm_sona.h"

#include "golden/learn_bed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { N_EACH = 12 };

static const char *const ANIMALS[] = {"bear", "rabbit", "bird", "cat", "dog", "frog", "fox", "mouse", "duck", "fish"};
static const char *const NAMES[] = {"Lily", "Tom", "Ben", "Mia", "Sara", "Max", "Sam", "Anna", "Tim", "Lucy"};

/* Questions of two kinds: about an animal, or about two children. */
static struct ruvllm_input question(int kind, int i, char *text, size_t size)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text};

    if (kind == 0)
        snprintf(text, size, "Once upon a time there was a %s who lived in a forest. One day the %s", ANIMALS[i % 10],
                 ANIMALS[i % 10]);
    else
        snprintf(text, size, "%s and %s were playing in the park. %s said", NAMES[i % 10], NAMES[(i + 3) % 10],
                 NAMES[i % 10]);
    input.text_len = strlen(text);
    return input;
}

static void ask_and_judge(ruvllm_engine *engine, const char *tenant, int kind, int i, double score)
{
    struct ruvllm_feedback_result result = {.struct_size = sizeof(result)};
    char text[256];
    uint64_t id;

    (void)question(kind, i, text, sizeof(text));
    ruvllm_response_free(
        learn_bed_ask(engine, &(struct learn_bed_question){.tenant = tenant, .text = text, .n_tokens = 8}, &id));
    assert_ok(ruvllm_engine_feedback(engine, tenant, id, score, &result, err));
}

struct found {
    size_t n;
    double quality; // mean
    double least, most;
    int64_t last_sequence;
};

static bool take(void *user, const struct ruvllm_pattern *p)
{
    struct found *f = user;

    assert_true(p->verdict == (p->quality > 0.5 ? RUVLLM_VERDICT_GOOD : RUVLLM_VERDICT_BAD));
    assert_true(f->n == 0 || p->likeness <= f->least);
    f->quality = (f->quality * (double)f->n + p->quality) / (double)(f->n + 1);
    f->most = f->n == 0 ? p->likeness : f->most;
    f->least = p->likeness;
    f->last_sequence = p->sequence;
    f->n++;
    return true;
}

static struct found recall(ruvllm_engine *engine, const char *tenant, int kind, int i)
{
    struct found f = {0};
    char text[256];
    struct ruvllm_input input = question(kind, i, text, sizeof(text));

    assert_ok(ruvllm_patterns_recall(engine, tenant, &input, 5, take, &f, err));
    return f;
}

static void a_question_finds_those_like_it(void **state)
{
    const char *path = test_temp_path(".db");
    struct ruvllm_error err;
    struct found f, list = {0};
    ruvllm_engine *engine;
    ruvllm_store *store;

    (void)state;
    (void)unlink(path);
    for (int restart = 0; restart < 2; restart++) {
        assert_int_equal(ruvllm_store_open(&store, path, NULL, &err), RUVLLM_OK);
        engine = learn_bed_open_with(store);
        for (int i = 0; i < 2 * N_EACH && !restart; i++)
            ask_and_judge(engine, "anna", i % 2, i / 2, i % 2);
        for (int i = 0; i < 10; i++) {
            for (int kind = 0; kind < 2; kind++) {
                f = recall(engine, "anna", kind, i);
                assert_int_equal(f.n, 5);
                assert_true(f.most > 0.95);                        // the same was asked
                assert_true(fabs(f.quality - kind) <= 0.4 + 1e-9); // most of the others are of its kind
            }
        }
        assert_int_equal(recall(engine, "bert", 0, 1).n, 0);
        ruvllm_engine_close(engine);
        ruvllm_store_close(store);
    }
    assert_int_equal(ruvllm_store_open(&store, path, NULL, &err), RUVLLM_OK);
    engine = learn_bed_open_with(store);
    assert_int_equal(ruvllm_patterns_list(engine, "anna", 1000, take, &list, &err), RUVLLM_OK);
    assert_true(list.n == 2 * N_EACH && list.last_sequence == 1);
    assert_int_equal(ruvllm_patterns_forget(engine, "anna", &err), RUVLLM_OK);
    assert_int_equal(recall(engine, "anna", 0, 1).n, 0);
    ruvllm_engine_close(engine);
    ruvllm_store_close(store);
    (void)unlink(path);
}

static void an_engine_that_does_not_learn_says_so(void **state)
{
    struct ruvllm_error err;
    ruvllm_engine *engine;
    struct found f = {0};
    char text[256];
    struct ruvllm_input input = question(0, 0, text, sizeof(text));

    (void)state;
    test_need_file(test_data(learn_bed_model));
    assert_int_equal(ruvllm_engine_open(&engine, test_data(learn_bed_model), NULL, &err), RUVLLM_OK);
    assert_fails(ruvllm_patterns_recall(engine, "anna", &input, 5, take, &f, &err), RUVLLM_INVALID, err, "not learn");
    assert_fails(ruvllm_patterns_list(engine, "anna", 5, take, &f, &err), RUVLLM_INVALID, err, "not learn");
    assert_fails(ruvllm_patterns_forget(engine, "anna", &err), RUVLLM_INVALID, err, "not learn");
    assert_fails(ruvllm_patterns_recall(NULL, "anna", &input, 5, take, &f, &err), RUVLLM_INVALID, err, "engine");
    ruvllm_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_finds_those_like_it),
        cmocka_unit_test(an_engine_that_does_not_learn_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
