/* Trying a model: what a user would do by hand when "it does not work". */
#include "doctor_model.h"

#include "answer.h"

#include "base/clock.h"

#include <string.h>

static void check_tokenizer(struct rv_doctor_report *report, const ruvllm_model *model)
{
    static const char text[] = "Hello, world! 1234 + x == y\n\tGrüße, 世界 🌍";
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = sizeof(text) - 1};
    struct ruvllm_error err = {0};
    int32_t *tokens;
    char *back;
    size_t n, len;
    bool is_same;

    if (ruvllm_tokenize(model, &input, &tokens, &n, &err)) {
        rv_doctor_report_add(report, RV_VERDICT_FAIL, "tokenizer", NULL, "%s", err.message);
        return;
    }
    if (ruvllm_detokenize(model, tokens, n, false, &back, &len, &err)) {
        rv_doctor_report_add(report, RV_VERDICT_FAIL, "tokenizer", NULL, "%s", err.message);
    } else {
        is_same = len == sizeof(text) - 1 && memcmp(back, text, len) == 0;
        if (is_same)
            rv_doctor_report_add(report, RV_VERDICT_OK, "tokenizer", NULL, "text to %zu tokens and back is the same",
                                 n);
        else
            rv_doctor_report_add(report, RV_VERDICT_WARN, "tokenizer",
                                 "normal for vocabularies without byte tokens; rare characters will be lost",
                                 "text does not come back the same");
        ruvllm_free(back);
    }
    ruvllm_free(tokens);
}

static void check_template(struct rv_doctor_report *report, const ruvllm_model *model)
{
    struct ruvllm_message message = {"user", "Hello"};
    struct ruvllm_error err = {0};
    char *text;
    size_t len;

    if (!ruvllm_model_chat_template(model)) {
        rv_doctor_report_add(report, RV_VERDICT_WARN, "chat template", "use 'ruvllm run', or a model made for chat",
                             "the model has none and only continues text");
    } else if (ruvllm_apply_template(model, &message, 1, &text, &len, &err)) {
        rv_doctor_report_add(report, RV_VERDICT_FAIL, "chat template", "'ruvllm info MODEL --template' shows it", "%s",
                             err.message);
    } else {
        rv_doctor_report_add(report, RV_VERDICT_OK, "chat template", NULL, "renders a message as %zu bytes", len);
        ruvllm_free(text);
    }
}

static void check_memory(struct rv_doctor_report *report, const ruvllm_model *model, uint64_t available)
{
    struct ruvllm_memory_stats memory = {.struct_size = sizeof(memory)};
    struct ruvllm_error err = {0};
    char a[24], b[24];
    uint64_t need;

    if (ruvllm_memory_stats_get(model, &memory, &err)) {
        rv_doctor_report_add(report, RV_VERDICT_WARN, "model memory", NULL, "%s", err.message);
        return;
    }
    need = memory.weights_mapped + memory.weights_allocated + memory.kv_bytes + memory.compute_bytes;
    if (available && need > available)
        rv_doctor_report_add(report, RV_VERDICT_WARN, "model memory",
                             "give a smaller --ctx or use a model with fewer bits per weight, or it will be slow",
                             "%s needed, %s were available", rv_output_bytes(need, a), rv_output_bytes(available, b));
    else
        rv_doctor_report_add(report, RV_VERDICT_OK, "model memory", NULL, "%s with weights, KV cache and scratch",
                             rv_output_bytes(need, a));
}

static void check_answer(struct rv_doctor_report *report, ruvllm_model *model)
{
    static const char prompt[] = "Once upon a time";
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = prompt, .text_len = sizeof(prompt) - 1};
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_response *response;
    struct ruvllm_error err = {0};

    params.max_tokens = 8;
    params.temperature = 0;
    params.ignore_eos = true;
    if (ruvllm_generate(model, &input, &params, &response, &err)) {
        rv_doctor_report_add(report, RV_VERDICT_FAIL, "generation", "try '--device CPU', then '--no-repack'", "%s",
                             err.message);
        return;
    }
    if (response->n_tokens == 8)
        rv_doctor_report_add(report, RV_VERDICT_OK, "generation", NULL, "8 tokens at %.1f tok/s: \"%s%s\"",
                             rv_answer_decode_rate(response), prompt, response->text);
    else
        rv_doctor_report_add(report, RV_VERDICT_FAIL, "generation", "try '--device CPU', then '--no-repack'",
                             "only %zu of 8 tokens came (%s)", response->n_tokens,
                             ruvllm_stop_reason_name(response->stop_reason));
    ruvllm_response_free(response);
}

void rv_doctor_model_check(struct rv_doctor_report *report, const struct rv_model_options *options,
                           uint64_t memory_available)
{
    struct ruvllm_model_params params = options->params;
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err = {0};
    int64_t start = rv_clock_us();
    ruvllm_model *model;

    params.rope_scaling = (ruvllm_rope_scaling)options->rope_scaling;
    if (ruvllm_model_open(&model, options->path, &params, &err)) {
        rv_doctor_report_add(report, RV_VERDICT_FAIL, "model", "'ruvllm info MODEL' shows what can be read", "%s",
                             err.message);
        return;
    }
    if (ruvllm_model_info_get(model, &info, &err))
        rv_doctor_report_add(report, RV_VERDICT_FAIL, "model", NULL, "%s", err.message);
    else
        rv_doctor_report_add(report, RV_VERDICT_OK, "model", NULL, "%s %s opened on %s in %.2f s, context %d",
                             info.architecture, info.quantization, info.device, (double)(rv_clock_us() - start) / 1e6,
                             info.context);
    check_tokenizer(report, model);
    check_template(report, model);
    check_memory(report, model, memory_available);
    check_answer(report, model);
    ruvllm_model_close(model);
}
