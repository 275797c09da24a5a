/* Which adapters a request means and a key may see, where files may lie, and what a query says. */
#include "server/adapter_choice.h"
#include "server/adapter_folder.h"
#include "server/model_set.h"
#include "server/url_text.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void a_key_uses_its_own_and_shared_ones(void **state)
{
    const struct rv_auth_key acme = {.tenant = "acme"}, admin = {.tenant = "ops", .is_admin = true};

    (void)state;
    assert_true(rv_adapter_choice_may_use(&acme, "shared"));
    assert_true(rv_adapter_choice_may_use(&acme, "acme/a"));
    assert_false(rv_adapter_choice_may_use(&acme, "acm/a"));
    assert_false(rv_adapter_choice_may_use(&acme, "acmee/a"));
    assert_false(rv_adapter_choice_may_use(&acme, "ACME/a"));
    assert_false(rv_adapter_choice_may_use(&admin, "acme/a"));
    assert_false(rv_adapter_choice_may_see(&acme, "ops/a"));
    assert_true(rv_adapter_choice_may_see(&admin, "acme/a"));
}

static struct rv_model_set *open_set(void)
{
    static const struct rv_model_set_model models[] = {{"base", "/none"}, {"qwen:0.5b", "/none"}};
    struct rv_model_set_config config = {
        .models = models, .n_models = 2, .engine = ruvllm_engine_params_default(), .max_waiting = 1};
    struct rv_model_set *set = NULL;

    assert_ok(rv_model_set_open(&set, &config, err));
    return set;
}

static void a_models_own_name_comes_before_a_suffix(void **state)
{
    struct rv_model_set *set = open_set();
    const char *adapter;

    (void)state;
    assert_int_equal(rv_adapter_choice_find_model(set, "base", &adapter), 0);
    assert_string_equal(adapter, "");
    assert_int_equal(rv_adapter_choice_find_model(set, "qwen:0.5b", &adapter), 1);
    assert_string_equal(adapter, "");
    assert_int_equal(rv_adapter_choice_find_model(set, "base:acme/a", &adapter), 0);
    assert_string_equal(adapter, "acme/a");
    assert_int_equal(rv_adapter_choice_find_model(set, "qwen:0.5b:a", &adapter), 1);
    assert_string_equal(adapter, "a");
    assert_int_equal(rv_adapter_choice_find_model(set, "base:", &adapter), -1);
    assert_int_equal(rv_adapter_choice_find_model(set, ":a", &adapter), -1);
    assert_int_equal(rv_adapter_choice_find_model(set, "other:a", &adapter), -1);
    rv_model_set_close(set);
}

static int make(const struct rv_model_set *set, const char *model, const char *adapter, struct rv_adapter_choice *out,
                struct rv_api_error *err)
{
    const struct rv_auth_key acme = {.tenant = "acme"};
    struct rv_api_adapter_use use = {.id = adapter, .weight = 0.5f};
    struct rv_api_request request = {
        .kind = RV_API_CHAT, .model = model, .adapters = &use, .n_adapters = adapter ? 1 : 0};
    struct rv_adapter_choice none = {0};
    int32_t i_model;

    *err = (struct rv_api_error){0};
    return rv_adapter_choice_make(set, &acme, &request, &none, &i_model, out, err) ? 200 : err->http_status;
}

static void what_is_not_there_and_what_is_foreign_look_alike(void **state)
{
    struct rv_model_set *set = open_set();
    struct rv_adapter_choice choice;
    struct rv_api_error err;

    (void)state;
    assert_int_equal(make(set, "base", NULL, &choice, &err), 200);
    assert_int_equal(choice.n, 0);
    assert_int_equal(make(set, "base:acme/a", NULL, &choice, &err), 200);
    assert_true(choice.n == 1 && choice.is_suffix && choice.uses[0].weight == 1.0f);
    assert_int_equal(make(set, "base", "b", &choice, &err), 200);
    assert_true(choice.n == 1 && !choice.is_suffix && choice.uses[0].weight == 0.5f);
    assert_int_equal(make(set, "nothing:a", NULL, &choice, &err), 404);
    assert_string_equal(err.code, "model_not_found");
    assert_int_equal(make(set, "base:other/a", NULL, &choice, &err), 404);
    assert_string_equal(err.code, "adapter_not_found");
    assert_int_equal(make(set, "base:../a", NULL, &choice, &err), 404);
    assert_int_equal(make(set, "base", "other/a", &choice, &err), 404);
    assert_string_equal(err.code, "adapter_not_found");
    assert_int_equal(make(set, "base:a", "a", &choice, &err), 400);
    assert_string_equal(err.param, "adapter");
    rv_model_set_close(set);
}

/* ---- the folder ---- */

static char folder[RV_ADAPTER_FOLDER_PATH];

static void write_file(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fclose(file);
}

static void find(const char *path, ruvllm_status expected)
{
    char found[RV_ADAPTER_FOLDER_PATH];
    struct ruvllm_error err = {0};

    if (rv_adapter_folder_find(folder, path, found, &err) != expected)
        fail_msg("'%s' gives %d: %s", path, err.status, err.message);
    if (expected == RUVLLM_OK)
        assert_int_equal(strncmp(found, folder, strlen(folder)), 0);
    else
        assert_null(strstr(err.message, "/")); // nothing of the machine's paths
}

static void only_what_lies_in_the_folder_is_found(void **state)
{
    char parent[] = "/tmp/ruvllm-folder-XXXXXX", path[256], inner[64];
    struct ruvllm_error failure = {0};

    (void)state;
    assert_non_null(mkdtemp(parent));
    snprintf(path, sizeof(path), "%s/in", parent);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_ok(rv_adapter_folder_resolve(path, folder, err));
    snprintf(path, sizeof(path), "%s/in/a.gguf", parent);
    write_file(path);
    snprintf(path, sizeof(path), "%s/out.gguf", parent);
    write_file(path);
    snprintf(path, sizeof(path), "%s/in-too.gguf", parent); // begins like the folder
    write_file(path);
    snprintf(path, sizeof(path), "%s/in/link.gguf", parent);
    assert_int_equal(symlink("../out.gguf", path), 0);
    snprintf(path, sizeof(path), "%s/in/home.gguf", parent);
    assert_int_equal(symlink("a.gguf", path), 0);
    find("a.gguf", RUVLLM_OK);
    find("./a.gguf", RUVLLM_OK);
    find("home.gguf", RUVLLM_OK);
    snprintf(path, sizeof(path), "%s/in/a.gguf", parent);
    find(path, RUVLLM_OK);
    find("none.gguf", RUVLLM_NOT_FOUND);
    find("link.gguf", RUVLLM_INVALID);
    find("../out.gguf", RUVLLM_INVALID);
    find("../none.gguf", RUVLLM_INVALID);
    find("/etc/passwd", RUVLLM_INVALID);
    find("/none", RUVLLM_INVALID);
    find(".", RUVLLM_INVALID);
    find("", RUVLLM_INVALID);
    find("../in-too.gguf", RUVLLM_INVALID);
    snprintf(inner, sizeof(inner), "rm -r %s", parent);
    assert_int_equal(system(inner), 0);
    assert_fails(rv_adapter_folder_resolve(parent, folder, &failure), RUVLLM_NOT_FOUND, failure, "adapters' folder");
}

/* ---- queries ---- */

static void an_adapter_is_named_after_its_file(void **state)
{
    static const char *const good[][2] = {
        {"a.gguf", "a"}, {"/x/y/b-1.gguf", "b-1"}, {"./peft/", "peft"}, {"x/peft", "peft"}, {"a.b.gguf", "a.b"}};
    static const char *const bad[] = {"", "/", ".", "..", "x/..", ".gguf", "a b.gguf", "/x/.hidden.gguf"};
    char id[RV_API_MAX_ADAPTER + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(rv_adapter_folder_id(good[i][0], id));
        assert_string_equal(id, good[i][1]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (rv_adapter_folder_id(bad[i], id))
            fail_msg("'%s' names '%s'", bad[i], id);
}

static void a_query_is_read_strictly(void **state)
{
    static const char *const known[] = {"model", "to", NULL};
    char text[16] = "before", escaped[] = "a%2Fb%3a%00%zz%4";
    int64_t n = 7;

    (void)state;
    rv_url_text_unescape(escaped);
    assert_string_equal(escaped, "a/b:%00%zz%4");
    assert_true(rv_url_text_field("a=1&model=x%3Ay&b=", "model", text, sizeof(text)));
    assert_string_equal(text, "x:y");
    assert_false(rv_url_text_field("a=1&xmodel=2", "model", text, sizeof(text)));
    assert_false(rv_url_text_field("model=0123456789abcdef", "model", text, sizeof(text)));
    assert_true(rv_url_text_int("", "to", 1, 9, &n) && n == 7);
    assert_true(rv_url_text_int("to=3", "to", 1, 9, &n) && n == 3);
    assert_false(rv_url_text_int("to=10", "to", 1, 9, &n));
    assert_false(rv_url_text_int("to=", "to", 1, 9, &n));
    assert_false(rv_url_text_int("to=+3", "to", 1, 9, &n));
    assert_false(rv_url_text_int("to=3x", "to", 1, 9, &n));
    assert_false(rv_url_text_int("to=99999999999999999999", "to", 1, 9, &n));
    assert_int_equal(n, 3);
    assert_true(rv_url_text_has_only("", known) && rv_url_text_has_only("to=1&model=2", known));
    assert_false(rv_url_text_has_only("to=1&models=2", known) || rv_url_text_has_only("x", known));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_uses_its_own_and_shared_ones),
        cmocka_unit_test(a_models_own_name_comes_before_a_suffix),
        cmocka_unit_test(what_is_not_there_and_what_is_foreign_look_alike),
        cmocka_unit_test(only_what_lies_in_the_folder_is_found),
        cmocka_unit_test(an_adapter_is_named_after_its_file),
        cmocka_unit_test(a_query_is_read_strictly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
