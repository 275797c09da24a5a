/*
 * Any bytes as a file of a model folder: the first says whether config.json ('c') or tokenizer.json (anything else).
 * What is read is mapped as an image and opened: our own writer must never make a file our reader refuses. A vocabulary
 * that the loader takes is used once.
 */
#include "base/alloc.h"
#include "engine/vocab_loader.h"
#include "fuzz_target.h"
#include "model/hf_config.h"
#include "model/hf_specials.h"
#include "model/hf_tokenizer.h"
#include "text/vocab.h"

#include <stdlib.h>

enum { MAX_TOKENS = 4096 };

static void promise(bool kept)
{
    if (!kept)
        abort();
}

static void use_vocab(const struct rv_gguf_file *file)
{
    static const char text[] = "Hello  w\xC3\xB6rld 123\n\n<s>";
    struct rv_vocab *vocab;
    int32_t *ids;
    size_t n;

    if (rv_vocab_loader_open(file, &vocab, NULL) != RUVLLM_OK)
        return;
    if (rv_vocab_encode(vocab, text, sizeof(text) - 1, NULL, 3, &ids, &n, NULL) == RUVLLM_OK)
        rv_free(ids);
    rv_vocab_free(vocab);
}

static void use_image(struct rv_gguf_image *image)
{
    struct rv_gguf_file *file;
    struct rv_gguf_map map;

    promise(rv_gguf_image_map(image, NULL, 0, &map, NULL) == RUVLLM_OK);
    promise(rv_gguf_file_open_memory(&file, map.data, map.len, NULL) == RUVLLM_OK);
    use_vocab(file);
    rv_gguf_file_close(file);
    rv_gguf_map_close(&map);
}

static ruvllm_status read_config(const char *text, size_t len, struct rv_gguf_image *image, struct ruvllm_error *err)
{
    struct rv_hf_config config;
    struct rv_json_file json;
    ruvllm_status rc = rv_json_file_parse(&json, text, len, "'config.json'", err);

    if (rc)
        return rc;
    rc = rv_hf_config_read(&config, &json, image, err);
    if (!rc)
        rc = rv_hf_config_read_ends(&config, &json, err);
    promise(rc || (config.arch && config.n_layers && config.head_dim % 2 == 0));
    rv_json_file_release(&json);
    return rc;
}

static ruvllm_status read_tokenizer(const char *text, size_t len, struct rv_gguf_image *image, struct ruvllm_error *err)
{
    const struct rv_hf_config config = {.arch = "llama", .bos = -1};
    struct rv_hf_tokenizer tokenizer;
    ruvllm_status rc = rv_hf_tokenizer_parse(&tokenizer, text, len, MAX_TOKENS, image, err);

    if (!rc)
        rc = rv_hf_specials_read(&tokenizer, &config, -1, image, err);
    rv_hf_tokenizer_release(&tokenizer);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ruvllm_error err = {0};
    struct rv_gguf_image image;
    ruvllm_status rc;

    if (size == 0)
        return 0;
    rv_gguf_image_init(&image);
    rc = data[0] == 'c' ? read_config((const char *)data + 1, size - 1, &image, &err)
                        : read_tokenizer((const char *)data + 1, size - 1, &image, &err);
    promise(rc == RUVLLM_OK || (err.message[0] && rc != RUVLLM_INTERNAL));
    if (rc == RUVLLM_OK)
        use_image(&image);
    rv_gguf_image_release(&image);
    return 0;
}
