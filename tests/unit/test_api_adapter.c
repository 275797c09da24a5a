/* Adapters in bodies: what is an id, the field `adapter`, and the body that loads one. */
#include "server/api/api_adapter.h"
#include "support/api_bodies.h"

#include <stdio.h>
#include <string.h>

static void an_id_is_a_name_or_a_tenants_name(void **state)
{
    static const char *const good[] = {"a", "acme/a", "A.b-c_9", "a.b/c.d", "-a/-b"};
    static const char *const bad[] = {"",    "/",    "a/",    "/a", "a/b/c", ".a",   "a/.b", ".a/b",    "a b",
                                      "a:b", "a\\b", "a%2fb", "..", "a/..",  "../a", "a\n",  "\xc3\xa4"};
    char text[140];

    (void)state;
    for (size_t i = 0; i < BODY_COUNT(good); i++)
        assert_true(rv_api_adapter_is_id(good[i]));
    for (size_t i = 0; i < BODY_COUNT(bad); i++)
        if (rv_api_adapter_is_id(bad[i]))
            fail_msg("'%s' is no id", bad[i]);
    snprintf(text, sizeof(text), "%064d/%062d", 0, 0);
    assert_true(rv_api_adapter_is_id(text));
    snprintf(text, sizeof(text), "%064d/%063d", 0, 0); // 128 bytes
    assert_false(rv_api_adapter_is_id(text));
    snprintf(text, sizeof(text), "%065d", 0);
    assert_false(rv_api_adapter_is_id(text));
}

static void a_request_names_one_or_several(void **state)
{
    struct rv_api_request *r = body_parse_with(RV_API_CHAT, "\"adapter\":\"acme/a\"");

    (void)state;
    assert_non_null(r);
    assert_int_equal(r->n_adapters, 1);
    assert_string_equal(r->adapters[0].id, "acme/a");
    assert_true(r->adapters[0].weight == 1.0f);
    rv_api_request_free(r);
    r = body_parse_with(
        RV_API_COMPLETION,
        "\"adapter\":[{\"id\":\"a\",\"weight\":-0.5,\"generation\":7},{\"id\":\"b\"},{\"id\":\"c\",\"weight\":null}]");
    assert_non_null(r);
    assert_int_equal(r->n_adapters, 3);
    assert_true(r->adapters[0].weight == -0.5f && r->adapters[1].weight == 1.0f && r->adapters[2].weight == 1.0f);
    assert_string_equal(r->adapters[2].id, "c");
    assert_true(r->adapters[0].generation == 7 && r->adapters[1].generation == 0);
    rv_api_request_free(r);
    r = body_parse_with(RV_API_RESPONSE, "\"adapter\":null");
    assert_non_null(r);
    assert_int_equal(r->n_adapters, 0);
    rv_api_request_free(r);
}

static void wrong_ones_are_named(void **state)
{
    static const char *const rows[][2] = {
        {"\"adapter\":5", "adapter"},
        {"\"adapter\":\"\"", "adapter"},
        {"\"adapter\":\"a/b/c\"", "adapter"},
        {"\"adapter\":\"../a\"", "adapter"},
        {"\"adapter\":{\"id\":\"a\"}", "adapter"},
        {"\"adapter\":[]", "adapter"},
        {"\"adapter\":[\"a\"]", "adapter[0]"},
        {"\"adapter\":[{\"weight\":1}]", "adapter[0].id"},
        {"\"adapter\":[{\"id\":\"a\"},{\"id\":\".b\"}]", "adapter[1].id"},
        {"\"adapter\":[{\"id\":\"a\",\"weight\":8.5}]", "adapter[0].weight"},
        {"\"adapter\":[{\"id\":\"a\",\"weight\":\"1\"}]", "adapter[0].weight"},
        {"\"adapter\":[{\"id\":\"a\",\"scale\":1}]", "adapter[0].scale"},
        {"\"adapter\":[{\"id\":\"a\",\"generation\":0}]", "adapter[0].generation"},
        {"\"adapter\":[{\"id\":\"a\"},{\"id\":\"a\"}]", "adapter"},
        {"\"adapter\":[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":\"c\"},{\"id\":\"d\"},{\"id\":\"e\"}]", "adapter"},
    };

    (void)state;
    for (size_t i = 0; i < BODY_COUNT(rows); i++)
        body_refused_with(RV_API_CHAT, rows[i][0], rows[i][1]);
    body_refused_with(RV_API_EMBEDDING, "\"adapter\":\"a\"", "adapter");
}

static void refuse_load(const char *body, const char *param)
{
    struct rv_api_adapter_load load;
    struct rv_api_error err = {0};

    assert_int_equal(rv_api_adapter_load_parse(body, strlen(body), &load, &err), RUVLLM_INVALID);
    assert_int_equal(err.http_status, 400);
    if (strcmp(err.param, param) != 0)
        fail_msg("%s: param is '%s', not '%s'", body, err.param, param);
}

static void a_load_says_what_from_where(void **state)
{
    static const char body[] = "{\"id\":\"acme/a\",\"path\":\"x/y.gguf\",\"model\":\"m\",\"expected\":0}";
    static const char least[] = "{\"id\":\"a\",\"path\":\"y\"}";
    struct rv_api_adapter_load load;
    struct rv_api_error err = {0};

    (void)state;
    assert_int_equal(rv_api_adapter_load_parse(body, strlen(body), &load, &err), RUVLLM_OK);
    assert_string_equal(load.id, "acme/a");
    assert_string_equal(load.path, "x/y.gguf");
    assert_string_equal(load.model, "m");
    assert_int_equal(load.expected, 0);
    assert_int_equal(rv_api_adapter_load_parse(least, strlen(least), &load, &err), RUVLLM_OK);
    assert_string_equal(load.model, "");
    assert_int_equal(load.expected, -1);
    refuse_load("{}", "id");
    refuse_load("{\"id\":\"a\"}", "path");
    refuse_load("{\"id\":\"a/b/c\",\"path\":\"y\"}", "id");
    refuse_load("{\"id\":\"a\",\"path\":\"\"}", "path");
    refuse_load("{\"id\":\"a\",\"path\":\"y\\u0000z\"}", "path");
    refuse_load("{\"id\":\"a\",\"path\":\"y\",\"expected\":-2}", "expected");
    refuse_load("{\"id\":\"a\",\"path\":\"y\",\"url\":\"http://x\"}", "url");
    refuse_load("[]", "");
    refuse_load("", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_a_name_or_a_tenants_name),
        cmocka_unit_test(a_request_names_one_or_several),
        cmocka_unit_test(wrong_ones_are_named),
        cmocka_unit_test(a_load_says_what_from_where),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
