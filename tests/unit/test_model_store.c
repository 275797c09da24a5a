/* The folder of models through the public calls, without a hub; what a hub does to it is in tests/cli/test_cli_hub.py.
 */
#include "base/alloc.h"
#include "engine/model_store.h"
#include "support/test.h"

#include "ruvllm_hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ruvllm_error fault;
static char root[4096];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "%s", test_temp_path(""));
    return 0;
}

static void put(const char *owner, const char *name, const char *file, const char *text)
{
    char *path;
    int folder;

    assert_ok(rv_model_store_folder(root, owner, name, true, &folder, err));
    assert_ok(rv_model_store_path(root, owner, name, file, &path, err));
    test_write_file(path, text, strlen(text));
    rv_free(path);
    close(folder);
}

static void a_folder_that_is_not_there_is_empty(void **state)
{
    ruvllm_models *models;
    char *path;

    (void)state;
    assert_ok(ruvllm_models_list("/nonexistent/models", &models, err));
    assert_int_equal(ruvllm_models_count(models), 0);
    ruvllm_models_free(models);
    assert_fails(ruvllm_models_find("/nonexistent/models", "a/b", &path, &fault), RUVLLM_NOT_FOUND, fault,
                 "ruvllm pull a/b");
    assert_null(path);
}

static void models_are_listed_found_and_removed(void **state)
{
    struct ruvllm_models_entry entry = {.struct_size = sizeof(entry)};
    ruvllm_models *models;
    uint64_t freed = 0;
    char *path;

    (void)state;
    put("o", "n", "n-Q8_0.gguf", "eight");
    put("o", "n", "n-Q4_K_M.gguf", "four");
    put("o", "n", "n-F16.gguf.partial", "part");
    put("p", "m", "m.gguf", "x");
    assert_ok(ruvllm_models_list(root, &models, err));
    assert_int_equal(ruvllm_models_count(models), 4);
    assert_ok(ruvllm_models_at(models, 0, &entry, err));
    assert_string_equal(entry.repository, "o/n");
    assert_string_equal(entry.file, "n-F16.gguf");
    assert_true(entry.is_partial);
    assert_ok(ruvllm_models_at(models, 1, &entry, err));
    assert_string_equal(entry.quantization, "Q4_K_M");
    assert_int_equal(entry.n_bytes, 4);
    assert_fails(ruvllm_models_at(models, 4, &entry, &fault), RUVLLM_NOT_FOUND, fault, "list of 4");
    ruvllm_models_free(models);

    assert_ok(ruvllm_models_find(root, "n", &path, err));
    assert_non_null(strstr(path, "/o/n/n-Q4_K_M.gguf"));
    ruvllm_free(path);
    assert_fails(ruvllm_models_find(root, "o/n:F16", &path, &fault), RUVLLM_NOT_FOUND, fault, "ruvllm pull o/n:F16");
    assert_fails(ruvllm_models_find(root, "../o/n", &path, &fault), RUVLLM_INVALID, fault, "is no name");

    assert_ok(ruvllm_models_remove(root, "o/n:Q8_0", &freed, err));
    assert_int_equal(freed, 5);
    assert_ok(ruvllm_models_remove(root, "o/n", &freed, err));
    assert_int_equal(freed, 8);
    assert_ok(ruvllm_models_remove(root, "m", NULL, err));
    assert_fails(ruvllm_models_remove(root, "o/n", NULL, &fault), RUVLLM_NOT_FOUND, fault, "not here");
    assert_int_equal(rmdir(root), 0); // nothing is left in it
}

static void a_lock_is_for_one(void **state)
{
    int folder, lock, second;

    (void)state;
    assert_ok(rv_model_store_folder(root, "o", "n", true, &folder, err));
    assert_ok(rv_model_store_lock(folder, "x.gguf", &lock, err));
    assert_fails(rv_model_store_lock(folder, "x.gguf", &second, &fault), RUVLLM_BUSY, fault, "another process");
    assert_int_equal(second, -1);
    assert_ok(rv_model_store_lock(folder, "y.gguf", &second, err));
    rv_model_store_unlock(folder, "y.gguf", second);
    rv_model_store_unlock(folder, "x.gguf", lock);
    assert_ok(rv_model_store_lock(folder, "x.gguf", &lock, err));
    rv_model_store_unlock(folder, "x.gguf", lock);
    close(folder);
}

static void params_of_another_age_and_null_are_refused(void **state)
{
    struct ruvllm_hub_params params = ruvllm_hub_params_default();
    char *text;

    (void)state;
    params.offline = true;
    params.models_dir = root;
    assert_fails(ruvllm_hub_pull(NULL, &params, &text, &fault), RUVLLM_INVALID, fault, "'model' is NULL");
    assert_fails(ruvllm_hub_pull("a/b", &params, NULL, &fault), RUVLLM_INVALID, fault, "'path' is NULL");
    assert_fails(ruvllm_hub_pull("a/b", &params, &text, &fault), RUVLLM_NOT_FOUND, fault, "HF_HUB_OFFLINE");
    assert_fails(ruvllm_hub_push("x.gguf", "a/b", &params, &text, &fault), RUVLLM_INVALID, fault, "HF_HUB_OFFLINE");
    params.max_retries = -1;
    assert_fails(ruvllm_hub_pull("a/b", &params, &text, &fault), RUVLLM_INVALID, fault, "max_retries");
    params.struct_size = sizeof(params) + 8;
    assert_fails(ruvllm_hub_pull("a/b", &params, &text, &fault), RUVLLM_INVALID, fault, "struct_size");
    assert_fails(ruvllm_quantize("a", NULL, "Q8_0", NULL, NULL, &fault), RUVLLM_INVALID, fault, "'out' is NULL");
    assert_fails(ruvllm_quantize("/nonexistent", "/nonexistent.out", "Q8_0", NULL, NULL, &fault), RUVLLM_NOT_FOUND,
                 fault, "cannot quantise");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_is_not_there_is_empty),
        cmocka_unit_test_setup(models_are_listed_found_and_removed, make_root),
        cmocka_unit_test_setup(a_lock_is_for_one, make_root),
        cmocka_unit_test_setup(params_of_another_age_and_null_are_refused, make_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
