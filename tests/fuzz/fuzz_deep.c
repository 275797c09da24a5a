/*
 * What deep runs keep in the store, out of any bytes: results of runs, and the model's own texts; or a sentence why
 * not. The first byte says which. What is read can be computed with, and is the same when it is written again.
 */
#include "fuzz_target.h"

#include "base/alloc.h"
#include "engine/own_texts.h"
#include "learn/deep_content.h"
#include "support/paper_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void promise(bool kept, const char *what)
{
    if (kept)
        return;
    (void)fprintf(stderr, "broken promise: %s\n", what);
    abort();
}

static void try_content(struct rv_str bytes)
{
    static struct paper_model model;
    struct rv_deep_content content;
    struct rv_adapter *adapter;
    struct rv_str again;

    if (!model.tensors)
        paper_model_init(&model, "llama", 1, false);
    if (rv_deep_content_read(&content, &model.hparams, &model.manifest, bytes, NULL))
        return;
    promise(content.trainable.n > 0 && content.rank >= 1, "a content has numbers");
    promise(rv_deep_content_write(&content, &again, NULL) == RUVLLM_OK && again.len == bytes.len &&
                memcmp(again.data, bytes.data, bytes.len) == 0,
            "what was read is written the same");
    if (rv_deep_content_adapter(&content.trainable, &model.hparams, &model.manifest, &adapter, NULL) == RUVLLM_OK)
        promise(adapter->max_rank == content.rank && adapter->layers, "an adapter has the pairs");
    rv_adapter_unref(adapter);
    rv_free((char *)(uintptr_t)again.data);
    rv_deep_content_release(&content);
}

static void try_texts(struct rv_str bytes)
{
    struct rv_own_texts texts;
    struct rv_str again;

    if (rv_own_texts_unpack(&texts, bytes, PAPER_VOCAB, NULL))
        return;
    for (int32_t i = 0; i < texts.n * texts.length; i++)
        promise(texts.tokens[i] >= 0 && texts.tokens[i] < PAPER_VOCAB, "tokens are the vocabulary's");
    promise(rv_own_texts_pack(&texts, &again, NULL) == RUVLLM_OK && again.len == bytes.len &&
                memcmp(again.data, bytes.data, bytes.len) == 0,
            "texts are written the same");
    rv_free((char *)(uintptr_t)again.data);
    rv_own_texts_release(&texts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy;

    if (size == 0)
        return 0;
    copy = malloc(size); // of its own size, so that a byte read beyond it is seen
    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    if (data[0] & 1)
        try_texts((struct rv_str){copy, size - 1});
    else
        try_content((struct rv_str){copy, size - 1});
    free(copy);
    return 0;
}
