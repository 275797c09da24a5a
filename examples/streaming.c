/* Text as it is generated: the callback gets each piece and may end the answer by returning false. */
#include <ruvllm.h>

#include <stdio.h>
#include <string.h>

struct reader {
    int n_sentences; /* so far */
    int n_wanted;
};

static bool on_chunk(void *user, const struct ruvllm_chunk *chunk)
{
    struct reader *reader = user;

    fwrite(chunk->text, 1, chunk->text_len, stdout);
    fflush(stdout);
    for (size_t i = 0; i < chunk->text_len; i++) {
        if (strchr(".!?", chunk->text[i]))
            reader->n_sentences++;
    }
    return reader->n_sentences < reader->n_wanted;
}

int main(int argc, char **argv)
{
    const char *prompt = argc > 2 ? argv[2] : "Once upon a time";
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = prompt, .text_len = strlen(prompt)};
    struct reader reader = {.n_wanted = 3};
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

    params.has_seed = true; /* chosen by chance, but the same chance every time */
    params.seed = 7;
    printf("%s", prompt);
    if (ruvllm_generate_stream(model, &input, &params, on_chunk, &reader, &answer, &err) != RUVLLM_OK) {
        fprintf(stderr, "\n%s\n", err.message);
        ruvllm_model_close(model);
        return 1;
    }
    printf("\n-- %d sentences, stopped by %s\n", reader.n_sentences, ruvllm_stop_reason_name(answer->stop_reason));

    ruvllm_response_free(answer);
    ruvllm_model_close(model);
    return 0;
}
