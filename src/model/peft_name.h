/*
 * The names PEFT gives an adapter's tensors, after the modules of the Hugging Face model, and the order that model has
 * its rows in.
 */
#ifndef RV_MODEL_PEFT_NAME_H
#define RV_MODEL_PEFT_NAME_H

#include "model/adapter_file.h"

/* What "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" says. */
struct rv_peft_name {
    struct rv_str module; // within the model: "model.layers.0.self_attn.q_proj"
    int32_t layer;
    enum rv_part part;
    enum rv_adapter_file_side side;
};

/* UNSUPPORTED, with a sentence each, for what adapters here cannot change; FORMAT for names of no part of the model. */
RV_CHECKED ruvllm_status rv_peft_name_parse(struct rv_str name, const struct rv_adapter_file_base *base,
                                            struct rv_peft_name *out, struct ruvllm_error *err);
/* "self_attn.q_proj"; NULL when PEFT has none for it. */
const char *rv_peft_name_module(const struct rv_adapter_file_base *base, enum rv_part part);
/*
 * Copies the rows of a side from PEFT's order into GGUF's, or back. Hugging Face rotates number i of a head with number
 * i + half; GGUF files of families that rotate neighbours have the rows of queries and keys so that those two are.
 */
void rv_peft_name_copy_rows(const struct rv_adapter_file_base *base, enum rv_part part, enum rv_adapter_file_side side,
                            void *to, const void *from, size_t row_bytes, int64_t n_rows, bool into_gguf);

#endif
