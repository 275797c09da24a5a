/* The public headers by themselves, twice, as C99 and as C++11: compiled, never run. */
#include "ruvllm_adapter.h"
#include "ruvllm_kernels.h"
#include "ruvllm_learn.h"
#include "ruvllm_learn_log.h"
#include "ruvllm_sona.h"
#include "ruvllm_store.h"

#include "ruvllm_hub.h"

#include "ruvllm.h"
#include "ruvllm_adapter.h"
#include "ruvllm_hub.h"
#include "ruvllm_kernels.h"
#include "ruvllm_store.h"
#include "ruvllm_train.h"

/* What is frozen: a changed layout makes an array of negative size. */
typedef char error_layout_is_frozen[sizeof(struct ruvllm_error) == 264 ? 1 : -1];
typedef char message_is_last[offsetof(struct ruvllm_error, message) == 8 ? 1 : -1];
typedef char model_params_start_with_their_size[offsetof(struct ruvllm_model_params, struct_size) == 0 ? 1 : -1];
typedef char generate_params_start_with_their_size[offsetof(struct ruvllm_generate_params, struct_size) == 0 ? 1 : -1];
typedef char input_starts_with_its_size[offsetof(struct ruvllm_input, struct_size) == 0 ? 1 : -1];
typedef char attention_config_starts_with_its_size[offsetof(struct ruvllm_attention_config, struct_size) == 0 ? 1 : -1];
typedef char rope_config_starts_with_its_size[offsetof(struct ruvllm_rope_config, struct_size) == 0 ? 1 : -1];
typedef char kv_cache_config_starts_with_its_size[offsetof(struct ruvllm_kv_cache_config, struct_size) == 0 ? 1 : -1];
typedef char kv_cache_stats_start_with_their_size[offsetof(struct ruvllm_kv_cache_stats, struct_size) == 0 ? 1 : -1];
typedef char store_params_start_with_their_size[offsetof(struct ruvllm_store_params, struct_size) == 0 ? 1 : -1];
typedef char key_params_start_with_their_size[offsetof(struct ruvllm_key_params, struct_size) == 0 ? 1 : -1];
typedef char key_info_starts_with_its_size[offsetof(struct ruvllm_key_info, struct_size) == 0 ? 1 : -1];
typedef char witness_starts_with_its_size[offsetof(struct ruvllm_witness, struct_size) == 0 ? 1 : -1];
typedef char witness_filter_starts_with_its_size[offsetof(struct ruvllm_witness_filter, struct_size) == 0 ? 1 : -1];
typedef char witness_stats_start_with_their_size[offsetof(struct ruvllm_witness_stats, struct_size) == 0 ? 1 : -1];
typedef char session_starts_with_its_size[offsetof(struct ruvllm_session, struct_size) == 0 ? 1 : -1];
typedef char hub_params_start_with_their_size[offsetof(struct ruvllm_hub_params, struct_size) == 0 ? 1 : -1];
typedef char models_entry_starts_with_its_size[offsetof(struct ruvllm_models_entry, struct_size) == 0 ? 1 : -1];
typedef char learn_params_start_with_their_size[offsetof(struct ruvllm_learn_params, struct_size) == 0 ? 1 : -1];
typedef char feedback_result_starts_with_its_size[offsetof(struct ruvllm_feedback_result, struct_size) == 0 ? 1 : -1];
typedef char learned_info_starts_with_its_size[offsetof(struct ruvllm_learned_info, struct_size) == 0 ? 1 : -1];
typedef char learned_event_starts_with_its_size[offsetof(struct ruvllm_learned_event, struct_size) == 0 ? 1 : -1];
typedef char microlora_config_starts_with_its_size[offsetof(struct ruvllm_microlora_config, struct_size) == 0 ? 1 : -1];
typedef char
    microlora_feedback_starts_with_its_size[offsetof(struct ruvllm_microlora_feedback, struct_size) == 0 ? 1 : -1];
typedef char microlora_stats_start_with_their_size[offsetof(struct ruvllm_microlora_stats, struct_size) == 0 ? 1 : -1];
typedef char ewc_state_starts_with_its_size[offsetof(struct ruvllm_ewc_state, struct_size) == 0 ? 1 : -1];
typedef char pattern_starts_with_its_size[offsetof(struct ruvllm_pattern, struct_size) == 0 ? 1 : -1];
typedef char sona_config_starts_with_its_size[offsetof(struct ruvllm_sona_config, struct_size) == 0 ? 1 : -1];
typedef char sona_result_starts_with_its_size[offsetof(struct ruvllm_sona_result, struct_size) == 0 ? 1 : -1];
typedef char sona_stats_start_with_their_size[offsetof(struct ruvllm_sona_stats, struct_size) == 0 ? 1 : -1];
typedef char quantize_params_start_with_their_size[offsetof(struct ruvllm_quantize_params, struct_size) == 0 ? 1 : -1];

ruvllm_status use_the_header(const char *path, struct ruvllm_error *err);

ruvllm_status use_the_header(const char *path, struct ruvllm_error *err)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct ruvllm_response *answer = NULL;
    ruvllm_model *model = NULL;
    struct ruvllm_input input;
    ruvllm_status rc = ruvllm_model_open(&model, path, &params, err);

    if (rc != RUVLLM_OK)
        return rc;
    input.struct_size = sizeof(input);
    rc = ruvllm_generate(model, &input, NULL, &answer, err);
    ruvllm_response_free(answer);
    ruvllm_model_close(model);
    return rc;
}
