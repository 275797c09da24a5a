/* Bodies of feedback and of the way back: what they must say, and which field is named when they do not. */
#include "server/api/api_learning.h"
#include "support/api_bodies.h"

#include <stdio.h>
#include <string.h>

static void refuse_feedback(const char *body, const char *param)
{
    struct rv_api_feedback feedback;
    struct rv_api_error err = {0};

    assert_int_equal(rv_api_learning_parse_feedback(body, strlen(body), &feedback, &err), RUVLLM_INVALID);
    assert_int_equal(err.http_status, 400);
    if (strcmp(err.param, param) != 0)
        fail_msg("%s: param is '%s', not '%s'", body, err.param, param);
    rv_api_learning_release_feedback(&feedback);
}

static void feedback_is_an_id_and_a_score(void **state)
{
    static const char body[] = "{\"response_id\":\"resp_1\",\"score\":0.25,\"choice\":3}";
    static const char least[] = "{\"response_id\":\"cmpl-1\",\"score\":1}";
    struct rv_api_feedback feedback;
    struct rv_api_error err = {0};

    (void)state;
    assert_int_equal(rv_api_learning_parse_feedback(body, strlen(body), &feedback, &err), RUVLLM_OK);
    assert_string_equal(feedback.response_id, "resp_1");
    assert_true(feedback.score == 0.25f && feedback.choice == 3);
    assert_int_equal(rv_api_learning_parse_feedback(least, strlen(least), &feedback, &err), RUVLLM_OK);
    assert_true(feedback.score == 1.0f && feedback.choice == 0);
}

static void feedback_that_is_none_names_its_field(void **state)
{
    static const char *const scores[] = {"-0.001", "1.001", "2",  "\"1\"", "true",   "null",
                                         "[]",     "1e300", "{}", "-1",    "\"NaN\""};
    char body[300];

    (void)state;
    for (size_t i = 0; i < BODY_COUNT(scores); i++) {
        snprintf(body, sizeof(body), "{\"response_id\":\"cmpl-1\",\"score\":%s}", scores[i]);
        refuse_feedback(body, "score");
    }
    refuse_feedback("{\"response_id\":\"cmpl-1\",\"score\":NaN}", "");
    refuse_feedback("{\"response_id\":\"cmpl-1\"}", "score");
    refuse_feedback("{\"score\":1}", "response_id");
    refuse_feedback("{\"response_id\":\"\",\"score\":1}", "response_id");
    refuse_feedback("{\"response_id\":7,\"score\":1}", "response_id");
    refuse_feedback("{\"response_id\":\"a\\u0000b\",\"score\":1}", "response_id");
    snprintf(body, sizeof(body), "{\"response_id\":\"%0129d\",\"score\":1}", 0);
    refuse_feedback(body, "response_id");
    refuse_feedback("{\"response_id\":\"a\",\"score\":1,\"choice\":-1}", "choice");
    refuse_feedback("{\"response_id\":\"a\",\"score\":1,\"choice\":4096}", "choice");
    refuse_feedback("{\"response_id\":\"a\",\"score\":1,\"choice\":0.5}", "choice");
    refuse_feedback("{\"response_id\":\"a\",\"score\":1,\"tenant\":\"b\"}", "tenant");
    refuse_feedback("[]", "");
    refuse_feedback("", "");
}

static void feedback_may_be_a_correction_or_a_pair(void **state)
{
    static const char body[] =
        "{\"response_id\":\"r\",\"correction\":\"It is blue.\",\"reason\":\"wrong\",\"choice\":1}";
    static const char pair[] = "{\"response_id\":\"r\",\"preferred\":\"a\",\"rejected\":\"b\",\"score\":null}";
    struct rv_api_feedback feedback;
    struct rv_api_error err = {0};

    (void)state;
    assert_int_equal(rv_api_learning_parse_feedback(body, strlen(body), &feedback, &err), RUVLLM_OK);
    assert_string_equal(feedback.correction, "It is blue.");
    assert_string_equal(feedback.reason, "wrong");
    assert_true(!feedback.has_score && feedback.choice == 1 && !feedback.preferred && !feedback.rejected);
    rv_api_learning_release_feedback(&feedback);
    assert_int_equal(rv_api_learning_parse_feedback(pair, strlen(pair), &feedback, &err), RUVLLM_OK);
    assert_string_equal(feedback.preferred, "a");
    assert_string_equal(feedback.rejected, "b");
    assert_true(!feedback.has_score && !feedback.correction);
    rv_api_learning_release_feedback(&feedback);
    refuse_feedback("{\"response_id\":\"r\",\"correction\":\"a\",\"score\":1}", "correction");
    refuse_feedback("{\"response_id\":\"r\",\"correction\":\"a\",\"preferred\":\"b\"}", "correction");
    refuse_feedback("{\"response_id\":\"r\",\"preferred\":\"a\",\"score\":0}", "score");
    refuse_feedback("{\"response_id\":\"r\",\"correction\":\"\"}", "correction");
    refuse_feedback("{\"response_id\":\"r\",\"correction\":[]}", "correction");
    refuse_feedback("{\"response_id\":\"r\",\"rejected\":7}", "rejected");
    refuse_feedback("{\"response_id\":\"r\",\"reason\":\"a\"}", "score");
    refuse_feedback("{\"response_id\":\"r\",\"score\":1,\"reason\":{}}", "reason");
}

static void refuse_rollback(const char *body, const char *param)
{
    struct rv_api_rollback rollback;
    struct rv_api_error err = {0};

    assert_int_equal(rv_api_learning_parse_rollback(body, strlen(body), &rollback, &err), RUVLLM_INVALID);
    assert_string_equal(err.param, param);
}

static void a_way_back_has_a_generation(void **state)
{
    static const char body[] = "{\"model\":\"m\",\"generation\":9007199254740993}";
    static const char least[] = "{\"generation\":0}";
    struct rv_api_rollback rollback;
    struct rv_api_error err = {0};

    (void)state;
    assert_int_equal(rv_api_learning_parse_rollback(body, strlen(body), &rollback, &err), RUVLLM_OK);
    assert_string_equal(rollback.model, "m");
    assert_true(rollback.generation == 9007199254740993);
    assert_int_equal(rv_api_learning_parse_rollback(least, strlen(least), &rollback, &err), RUVLLM_OK);
    assert_string_equal(rollback.model, "");
    assert_true(rollback.generation == 0);
    refuse_rollback("{}", "generation");
    refuse_rollback("{\"generation\":-1}", "generation");
    refuse_rollback("{\"generation\":\"0\"}", "generation");
    refuse_rollback("{\"generation\":0,\"model\":\"\"}", "model");
    refuse_rollback("{\"generation\":0,\"score\":1}", "score");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feedback_is_an_id_and_a_score),
        cmocka_unit_test(feedback_that_is_none_names_its_field),
        cmocka_unit_test(feedback_may_be_a_correction_or_a_pair),
        cmocka_unit_test(a_way_back_has_a_generation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
