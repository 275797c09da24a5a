/* Sentences as vectors: the cosine of two embeddings says how alike a model finds two sentences. */
#include <ruvllm.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_SENTENCES = 3 };

/* Embeddings have length 1, so their dot product is the cosine. */
static float cosine(const float *a, const float *b, size_t n)
{
    float sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

int main(int argc, char **argv)
{
    static const char *const sentences[N_SENTENCES] = {
        "The little dog played in the park with a ball.",
        "A puppy ran in the garden with its toy.",
        "Mom put the hot soup on the kitchen table.",
    };
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err = {.message = "out of memory"}; /* stays unless a call fails */
    ruvllm_model *model;
    float *vectors = NULL;
    int failed = 1;

    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL\n", argv[0]);
        return 2;
    }
    if (ruvllm_model_open(&model, argv[1], NULL, &err) != RUVLLM_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    if (ruvllm_model_info_get(model, &info, &err) != RUVLLM_OK)
        goto out;
    vectors = malloc(N_SENTENCES * (size_t)info.n_embd * sizeof(*vectors));
    if (!vectors)
        goto out;

    for (size_t i = 0; i < N_SENTENCES; i++) {
        struct ruvllm_input input = {.struct_size = sizeof(input)};

        input.text = sentences[i];
        input.text_len = strlen(sentences[i]);
        if (ruvllm_embed(model, &input, vectors + i * (size_t)info.n_embd, (size_t)info.n_embd, &err) != RUVLLM_OK)
            goto out;
    }
    for (size_t i = 0; i < N_SENTENCES; i++) {
        for (size_t j = i + 1; j < N_SENTENCES; j++)
            printf("%.3f  \"%s\" and \"%s\"\n",
                   (double)cosine(vectors + i * (size_t)info.n_embd, vectors + j * (size_t)info.n_embd,
                                  (size_t)info.n_embd),
                   sentences[i], sentences[j]);
    }
    failed = 0;
out:
    if (failed)
        fprintf(stderr, "%s\n", err.message);
    free(vectors);
    ruvllm_model_close(model);
    return failed;
}
