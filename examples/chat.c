/*
 * A conversation of several turns through the model's own chat template. Each turn sends the whole conversation;
 * the model keeps the state of what it has seen, which shows as cached tokens.
 */
#include <ruvllm.h>

#include <stdio.h>
#include <stdlib.h>

enum { MAX_TURNS = 8 };

int main(int argc, char **argv)
{
    static const char *const questions[] = {"Hello! Who are you?", "What is the capital of France?", "Thank you!"};
    struct ruvllm_message messages[2 * MAX_TURNS];
    struct ruvllm_response *answers[MAX_TURNS] = {0};
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_error err;
    ruvllm_model *model;
    size_t n_turns = argc > 2 ? (size_t)argc - 2 : 3, n_done = 0;

    if (argc < 2 || n_turns > MAX_TURNS) {
        fprintf(stderr, "usage: %s MODEL [QUESTION...]\n", argv[0]);
        return 2;
    }
    if (ruvllm_model_open(&model, argv[1], NULL, &err) != RUVLLM_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }

    params.max_tokens = 48;
    params.temperature = 0;
    for (; n_done < n_turns; n_done++) {
        struct ruvllm_input input = {.struct_size = sizeof(input), .messages = messages};

        messages[2 * n_done].role = "user";
        messages[2 * n_done].content = argc > 2 ? argv[2 + n_done] : questions[n_done];
        input.n_messages = 2 * n_done + 1;
        if (ruvllm_generate(model, &input, &params, &answers[n_done], &err) != RUVLLM_OK) {
            fprintf(stderr, "%s\n", err.message);
            break;
        }
        /* The answer becomes part of the conversation; its text lives as long as the response. */
        messages[2 * n_done + 1].role = "assistant";
        messages[2 * n_done + 1].content = answers[n_done]->text;
        printf("user: %s\nassistant: %s\n-- %d prompt tokens, %d of them cached\n\n", messages[2 * n_done].content,
               answers[n_done]->text, answers[n_done]->prompt_tokens, answers[n_done]->cached_tokens);
    }

    for (size_t i = 0; i < n_turns; i++)
        ruvllm_response_free(answers[i]);
    ruvllm_model_close(model);
    return n_done == n_turns ? 0 : 1;
}
