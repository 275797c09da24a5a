/* An engine that learns: an answer is judged, the next one is another, and a question like it finds the judgement. */
#include <ruvllm_sona.h>

#include <stdio.h>
#include <string.h>

static const char QUESTION[] = "Once upon a time there was a little dog who";
static const char LIKE_IT[] = "Once upon a time there was a small dog who";

static ruvllm_status ask(ruvllm_engine *engine, uint64_t *id, struct ruvllm_error *err)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = QUESTION, .text_len = strlen(QUESTION)};
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    ruvllm_status rc;

    params.temperature = 0;
    params.max_tokens = 16;
    rc = ruvllm_engine_submit(engine, &request, id, err);
    while (rc == RUVLLM_OK && event.type != RUVLLM_EVENT_DONE)
        rc = ruvllm_engine_next_event(engine, *id, -1, &event, err);
    if (rc != RUVLLM_OK)
        return rc;
    printf("generation %d:%s\n", (int)event.response->learned_generation, event.response->text);
    ruvllm_response_free(event.response);
    return RUVLLM_OK;
}

static bool show(void *user, const struct ruvllm_pattern *pattern)
{
    (void)user;
    printf("-- %.0f %% alike: was judged %.1f\n", 100 * pattern->likeness, pattern->quality);
    return true;
}

int main(int argc, char **argv)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = LIKE_IT, .text_len = strlen(LIKE_IT)};
    struct ruvllm_error err;
    ruvllm_engine *engine = NULL;
    ruvllm_status rc;

    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL\n", argv[0]);
        return 2;
    }
    rc = ruvllm_engine_open(&engine, argv[1], NULL, &err);
    if (rc == RUVLLM_OK)
        rc = ruvllm_engine_learn(engine, NULL, &err); /* without a store: until the engine closes */
    for (int i = 0; i < 4 && rc == RUVLLM_OK; i++) {
        uint64_t id;

        rc = ask(engine, &id, &err);
        if (rc == RUVLLM_OK && i < 3) /* not what we wanted to hear */
            rc = ruvllm_engine_feedback(engine, NULL, id, 0.0, NULL, &err);
    }
    if (rc == RUVLLM_OK)
        rc = ruvllm_patterns_recall(engine, NULL, &input, 3, show, NULL, &err);
    if (rc != RUVLLM_OK)
        fprintf(stderr, "%s\n", err.message);
    ruvllm_engine_close(engine);
    return rc != RUVLLM_OK;
}
