/*
 * The rules: half of the memory that is free beside the weights for keys and values, and no more than a full batch of
 * full contexts needs; where all of those fit, everything stays in 16 bits, else the old part of a conversation is kept
 * in less. Threads and device are what the engine finds best when it is told nothing: the server says which, when it
 * has opened it.
 */
#include "serve_auto.h"

#include "output.h"
#include "system_facts.h"

#include <string.h>

/* Bytes of one full context in 16 bits, and of the weights; 0 when the file does not tell. */
static uint64_t context_bytes(const char *path, const struct ruvllm_model_params *params, int32_t *n_context,
                              uint64_t *weights)
{
    struct ruvllm_model_params light = *params;
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    ruvllm_model *model;
    uint64_t bytes = 0;

    light.vocab_only = true;
    light.on_progress = NULL;
    /* A file that cannot be opened is reported when the server opens it, with all that is known then. */
    if (ruvllm_model_open(&model, path, &light, NULL))
        return 0;
    if (ruvllm_model_info_get(model, &info, NULL) == RUVLLM_OK) {
        *n_context = info.context;
        *weights = info.file_bytes;
        bytes = 2 * 2 * (uint64_t)info.n_layers * (uint64_t)info.n_kv_heads * (uint64_t)info.head_dim *
                (uint64_t)info.context;
    }
    ruvllm_model_close(model);
    return bytes;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t free_memory(const struct rv_system_facts *facts)
{
    uint64_t available = facts->memory_available;

    return facts->memory_limit ? min64(available, facts->memory_limit) : available;
}

void rv_serve_auto_choose(struct rv_serve_config *config, const char *model_path, struct ruvllm_kv_policy *kv,
                          char notes[RV_SERVE_AUTO_NOTES])
{
    struct rv_system_facts facts;
    int32_t n_context = 0;
    uint64_t weights = 0, room, context, budget;
    char room_text[24], context_text[24];
    bool fits_all;

    rv_system_facts_init(&facts);
    context = context_bytes(model_path, &config->model, &n_context, &weights);
    room = free_memory(&facts) > weights ? free_memory(&facts) - weights : 0;
    budget = min64(room / 2, context * (uint64_t)config->engine.max_sequences);
    if (config->engine.kv_bytes == 0 && budget > context)
        config->engine.kv_bytes = budget;
    fits_all = context > 0 && config->engine.kv_bytes >= context * (uint64_t)config->engine.max_sequences;
    if (kv && fits_all)
        kv->cold = RUVLLM_PRECISION_FP16;
    snprintf(notes, RV_SERVE_AUTO_NOTES, "%s are free beside the weights, and a full context of %d tokens takes %s",
             rv_output_bytes(room, room_text), n_context, rv_output_bytes(context, context_text));
}
