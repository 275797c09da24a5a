/*
 * PEFT's adapter_config.json: how strongly each module's pair is applied, and everything that would make an adapter
 * more than pairs of matrices, which is refused by name.
 */
#ifndef RV_MODEL_PEFT_CONFIG_H
#define RV_MODEL_PEFT_CONFIG_H

#include "base/str.h"
#include "model/json_file.h"

struct rv_peft_config {
    struct rv_json_file json;
    int32_t rank;
    double alpha;
    bool is_rslora; // scaled by the square root of the rank
    struct yyjson_val *rank_pattern;
    struct yyjson_val *alpha_pattern;
};

/*
 * FORMAT for what is no such file; UNSUPPORTED for DoRA, whole modules, biases and whatever else is not done here. The
 * text is not needed afterwards.
 */
RV_CHECKED ruvllm_status rv_peft_config_parse(struct rv_peft_config *out, struct rv_str text, struct ruvllm_error *err);
void rv_peft_config_release(struct rv_peft_config *config);

/*
 * The scale of a module's pair, such as "model.layers.0.self_attn.q_proj", whose matrices have this rank. FORMAT when
 * the configuration says another one. Patterns are names or ends of names; other regular expressions are UNSUPPORTED.
 */
RV_CHECKED ruvllm_status rv_peft_config_scale(const struct rv_peft_config *config, struct rv_str module, int32_t rank,
                                              float *scale, struct ruvllm_error *err);

#endif
