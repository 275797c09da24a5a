/*
 * Several questions at once: all are handed in, computed together in one batch, and read back in order.
 *
 *     many MODEL.gguf ["First prompt" "Second prompt" ...]
 */
#include <ruvllm.h>

#include <stdio.h>
#include <string.h>

enum { MAX_REQUESTS = 16 };

static int fail(const struct ruvllm_error *err)
{
    fprintf(stderr, "many: %s\n", err->message);
    return 1;
}

static int print_answer(ruvllm_engine *engine, uint64_t id)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_error err;

    do {
        if (ruvllm_engine_next_event(engine, id, -1, &event, &err) != RUVLLM_OK)
            return fail(&err);
        fputs(event.text, stdout);
        fflush(stdout);
    } while (event.type != RUVLLM_EVENT_DONE);
    printf("\n-- %d prompt tokens, %d of them shared, %zu generated\n\n", (int)event.response->prompt_tokens,
           (int)event.response->cached_tokens, event.response->n_tokens);
    ruvllm_response_free(event.response);
    return 0;
}

int main(int argc, char **argv)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input)};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    uint64_t ids[MAX_REQUESTS];
    struct ruvllm_error err;
    static char *const some[] = {"Once upon a time", "The little dog", "One day, a small robot"};
    char *const *prompts = argc > 2 ? argv + 2 : some;
    int n = argc > 2 ? argc - 2 : 3, failed = 0;
    ruvllm_engine *engine;

    if (argc < 2 || n > MAX_REQUESTS) {
        fprintf(stderr, "usage: many MODEL.gguf [PROMPT...]   (up to %d)\n", MAX_REQUESTS);
        return 2;
    }
    if (ruvllm_engine_open(&engine, argv[1], NULL, &err) != RUVLLM_OK)
        return fail(&err);
    params.max_tokens = 64;
    for (int i = 0; i < n; i++) {
        input.text = prompts[i];
        input.text_len = strlen(input.text);
        if (ruvllm_engine_submit(engine, &request, &ids[i], &err) != RUVLLM_OK) {
            failed = fail(&err);
            n = i;
        }
    }
    for (int i = 0; i < n; i++)
        failed |= print_answer(engine, ids[i]);
    ruvllm_engine_close(engine);
    return failed;
}
