/* The smallest program: open a model, ask once, print the answer. */
#include <ruvllm.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *prompt = argc > 2 ? argv[2] : "Once upon a time";
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = prompt, .text_len = strlen(prompt)};
    struct ruvllm_response *answer;
    struct ruvllm_error err;
    ruvllm_model *model;

    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [PROMPT]\n", argv[0]);
        return 2;
    }
    if (ruvllm_model_open(&model, argv[1], NULL, &err) != RUVLLM_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }

    params.max_tokens = 48;
    params.temperature = 0; /* the likeliest continuation, the same every time */
    if (ruvllm_generate(model, &input, &params, &answer, &err) != RUVLLM_OK) {
        fprintf(stderr, "%s\n", err.message);
        ruvllm_model_close(model);
        return 1;
    }
    printf("%s%s\n", prompt, answer->text);
    printf("-- %d prompt tokens, %zu generated, stopped by %s\n", answer->prompt_tokens, answer->n_tokens,
           ruvllm_stop_reason_name(answer->stop_reason));

    ruvllm_response_free(answer);
    ruvllm_model_close(model);
    return 0;
}
