/*
 * Request bodies of every kind. Input: a letter for the kind, then the body. An accepted request keeps its header's
 * promises; its values, written as a body of the same kind, are accepted and are the same again. A refused one has a
 * status and a sentence without control characters.
 */
#include "fuzz_target.h"
#include "server/api/api_adapter.h"
#include "server/api/api_json.h"
#include "server/api/api_deep.h"
#include "server/api/api_learning.h"
#include "server/api/api_learning_log.h"
#include "server/api/api_request.h"

#include <string.h>

#include <yyjson.h>

enum { MAX_BODY = 1 << 22 };

static void write_messages(struct rv_buf *out, const char *key, const struct ruvllm_input *input, size_t first)
{
    rv_api_json_begin(out, key, '[');
    for (size_t i = first; i < input->n_messages; i++) {
        rv_api_json_begin(out, NULL, '{');
        rv_api_json_str(out, "role", input->messages[i].role);
        rv_api_json_str(out, "content", input->messages[i].content);
        rv_api_json_end(out, '}');
    }
    rv_api_json_end(out, ']');
}

static void write_prompt(struct rv_buf *out, const char *key, const struct ruvllm_input *input)
{
    if (input->text) {
        rv_api_json_text(out, key, input->text, input->text_len);
        return;
    }
    rv_api_json_begin(out, key, '[');
    for (size_t i = 0; i < input->n_tokens; i++)
        rv_api_json_int(out, NULL, input->tokens[i]);
    rv_api_json_end(out, ']');
}

static void write_prompts(struct rv_buf *out, const char *key, const struct rv_api_request *r)
{
    if (r->n_inputs == 1 && !r->inputs[0].text) {
        write_prompt(out, key, &r->inputs[0]);
        return;
    }
    rv_api_json_begin(out, key, '[');
    for (size_t i = 0; i < r->n_inputs; i++)
        write_prompt(out, NULL, &r->inputs[i]);
    rv_api_json_end(out, ']');
}

static void write_inputs(struct rv_buf *out, const struct rv_api_request *r)
{
    switch (r->kind) {
    case RV_API_CHAT:
    case RV_API_TEMPLATE:
        write_messages(out, "messages", &r->inputs[0], 0);
        break;
    case RV_API_RESPONSE:
        rv_api_json_str(out, "instructions", r->instructions);
        write_messages(out, "input", &r->inputs[0], r->instructions ? 1 : 0);
        break;
    case RV_API_COMPLETION:
        write_prompts(out, "prompt", r);
        break;
    case RV_API_EMBEDDING:
        write_prompts(out, "input", r);
        break;
    case RV_API_DETOKENIZE:
        write_prompt(out, "tokens", &r->inputs[0]);
        rv_api_json_bool(out, "with_special", r->with_special);
        break;
    case RV_API_TOKENIZE:
        if (r->inputs[0].messages)
            write_messages(out, "messages", &r->inputs[0], 0);
        else
            write_prompt(out, "prompt", &r->inputs[0]);
        break;
    }
}

static void write_lists(struct rv_buf *out, const struct ruvllm_generate_params *p)
{
    rv_api_json_begin(out, "stop", '[');
    for (size_t i = 0; i < p->n_stop; i++)
        rv_api_json_str(out, NULL, p->stop[i]);
    rv_api_json_end(out, ']');
    rv_api_json_begin(out, "logit_bias", '{');
    for (size_t i = 0; i < p->n_logit_bias; i++) {
        struct rv_buf key;

        rv_buf_init(&key, 32);
        rv_buf_addf(&key, "%d", (int)p->logit_bias[i].token);
        rv_api_json_float(out, key.data, p->logit_bias[i].bias);
        rv_buf_release(&key);
    }
    rv_api_json_end(out, '}');
}

static void write_logprobs(struct rv_buf *out, const struct rv_api_request *r)
{
    if (r->params.n_logprobs < 0)
        return;
    if (r->kind == RV_API_COMPLETION) {
        rv_api_json_int(out, "logprobs", r->params.n_logprobs);
        return;
    }
    if (r->kind == RV_API_CHAT)
        rv_api_json_bool(out, "logprobs", true);
    rv_api_json_int(out, "top_logprobs", r->params.n_logprobs);
}

static void write_adapters(struct rv_buf *out, const struct rv_api_request *r)
{
    if (r->n_adapters == 0)
        return;
    rv_api_json_begin(out, "adapter", '[');
    for (size_t i = 0; i < r->n_adapters; i++) {
        rv_api_json_begin(out, NULL, '{');
        rv_api_json_str(out, "id", r->adapters[i].id);
        rv_api_json_float(out, "weight", r->adapters[i].weight);
        if (r->adapters[i].generation)
            rv_api_json_int(out, "generation", r->adapters[i].generation);
        rv_api_json_end(out, '}');
    }
    rv_api_json_end(out, ']');
}

static void write_params(struct rv_buf *out, const struct rv_api_request *r)
{
    const struct ruvllm_generate_params *p = &r->params;

    rv_api_json_float(out, "temperature", p->temperature);
    rv_api_json_float(out, "top_p", p->top_p);
    rv_api_json_int(out, "top_k", p->top_k);
    rv_api_json_float(out, "min_p", p->min_p);
    rv_api_json_float(out, "typical_p", p->typical_p);
    rv_api_json_float(out, "repetition_penalty", p->repetition_penalty);
    rv_api_json_float(out, "frequency_penalty", p->frequency_penalty);
    rv_api_json_float(out, "presence_penalty", p->presence_penalty);
    rv_api_json_int(out, "penalty_window", p->penalty_window);
    rv_api_json_bool(out, "ignore_eos", p->ignore_eos);
    if (p->has_seed)
        rv_api_json_int(out, "seed", (int64_t)p->seed);
    if (r->has_max_tokens)
        rv_api_json_int(out, r->kind == RV_API_RESPONSE ? "max_output_tokens" : "max_tokens", p->max_tokens);
    write_lists(out, p);
    write_logprobs(out, r);
    rv_api_json_bool(out, "stream", r->stream);
    if (r->include_usage)
        rv_api_json_raw(out, "stream_options", "{\"include_usage\":true}");
    if (r->kind != RV_API_RESPONSE)
        rv_api_json_int(out, "n", r->n);
    write_adapters(out, r);
}

static void write_serving(struct rv_buf *out, const struct rv_api_request *r)
{
    static const char *const cold[] = {
        [RUVLLM_PRECISION_FP16] = "f16", [RUVLLM_PRECISION_Q8] = "q8", [RUVLLM_PRECISION_Q4] = "q4"};

    rv_api_json_str(out, "user", r->user);
    rv_api_json_str(out, "session", r->session);
    rv_api_json_int(out, "priority", r->priority);
    rv_api_json_bool(out, "prompt_cache", !r->no_shared_prefix);
    if (r->has_kv) {
        rv_api_json_begin(out, "kv", '{');
        rv_api_json_int(out, "hot_tokens", r->kv.hot_tokens);
        rv_api_json_int(out, "warm_tokens", r->kv.warm_tokens);
        rv_api_json_str(out, "cold", cold[r->kv.cold]);
        rv_api_json_bool(out, "keep_first", r->kv.keep_first);
        rv_api_json_end(out, '}');
    }
    rv_api_json_begin(out, "metadata", '{');
    for (size_t i = 0; i < r->n_metadata; i++)
        rv_api_json_str(out, r->metadata[i].key, r->metadata[i].value);
    rv_api_json_end(out, '}');
}

static void write_request(struct rv_buf *out, const struct rv_api_request *r)
{
    bool generates = r->kind == RV_API_CHAT || r->kind == RV_API_COMPLETION || r->kind == RV_API_RESPONSE;

    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "model", r->model);
    write_inputs(out, r);
    if (generates)
        write_params(out, r);
    if (generates || r->kind == RV_API_EMBEDDING)
        write_serving(out, r);
    if (r->kind == RV_API_EMBEDDING) {
        rv_api_json_str(out, "encoding_format", r->encoding == RV_API_BASE64 ? "base64" : "float");
        if (r->dimensions)
            rv_api_json_int(out, "dimensions", r->dimensions);
    }
    if (r->kind == RV_API_TOKENIZE) {
        rv_api_json_bool(out, "with_pieces", r->with_pieces);
        if (r->inputs[0].text) {
            rv_api_json_bool(out, "add_bos", !r->inputs[0].no_bos);
            rv_api_json_bool(out, "parse_special", r->inputs[0].text_is_trusted);
        }
    }
    rv_api_json_end(out, '}');
}

static void check_same_again(const struct rv_api_request *request)
{
    struct rv_buf first, second;
    struct rv_api_request *again;
    struct rv_api_error err;

    rv_buf_init(&first, MAX_BODY);
    rv_buf_init(&second, MAX_BODY);
    write_request(&first, request);
    RV_ASSERT(first.failed == RUVLLM_OK);
    RV_ASSERT(rv_api_request_parse(request->kind, first.data, first.len, &again, &err) == RUVLLM_OK);
    rv_api_request_check(again);
    write_request(&second, again);
    RV_ASSERT(first.len == second.len && memcmp(first.data, second.data, first.len) == 0);
    rv_api_request_free(again);
    rv_buf_release(&first);
    rv_buf_release(&second);
}

/* Where tools are spoken of, what the template is given is JSON; the messages alone do not say all of it. */
static void check_conversation(const struct rv_api_request *request)
{
    yyjson_doc *doc = yyjson_read(request->conversation, request->conversation_len, 0);

    RV_ASSERT(yyjson_arr_size(yyjson_obj_get(yyjson_doc_get_root(doc), "messages")) > 0);
    RV_ASSERT(!request->params.tools || yyjson_obj_get(yyjson_doc_get_root(doc), "tools"));
    yyjson_doc_free(doc);
}

static void check_refusal(ruvllm_status rc, const struct rv_api_error *err)
{
    RV_ASSERT(rc == RUVLLM_INVALID && err->http_status == 400);
    RV_ASSERT(err->message[0] && err->code[0] && strlen(err->param) < sizeof(err->param));
    for (size_t i = 0; err->message[i]; i++)
        RV_ASSERT((unsigned char)err->message[i] >= 0x20 && err->message[i] != 0x7f);
}

/* Bodies that are no requests to a model. */
static void check_adapter_load(const char *body, size_t len)
{
    struct rv_api_adapter_load load;
    struct rv_api_error err;
    ruvllm_status rc = rv_api_adapter_load_parse(body, len, &load, &err);

    if (rc)
        check_refusal(rc, &err);
    else
        RV_ASSERT(rv_api_adapter_is_id(load.id) && load.path[0] && load.expected >= -1);
}

static void check_feedback(const char *body, size_t len)
{
    struct rv_api_feedback feedback;
    struct rv_api_error err;
    ruvllm_status rc = rv_api_learning_parse_feedback(body, len, &feedback, &err);

    if (rc)
        check_refusal(rc, &err);
    else
        RV_ASSERT(feedback.response_id[0] && feedback.score >= 0 && feedback.score <= 1 && feedback.choice >= 0);
    rv_api_learning_release_feedback(&feedback);
}

static void check_rollback(const char *body, size_t len)
{
    struct rv_api_rollback rollback;
    struct rv_api_error err;
    ruvllm_status rc = rv_api_learning_parse_rollback(body, len, &rollback, &err);

    if (rc)
        check_refusal(rc, &err);
    else
        RV_ASSERT(rollback.generation >= 0);
}

static void check_pause(const char *body, size_t len)
{
    struct rv_api_learning_wish wish;
    struct rv_api_error err;
    ruvllm_status rc = rv_api_learning_log_parse_pause(body, len, &wish, &err);

    if (rc)
        check_refusal(rc, &err);
    else
        RV_ASSERT(wish.event == 0);
}

static void check_forget(const char *body, size_t len)
{
    struct rv_api_learning_wish wish;
    struct rv_api_error err;
    ruvllm_status rc = rv_api_learning_log_parse_forget(body, len, &wish, &err);

    if (rc)
        check_refusal(rc, &err);
    else
        RV_ASSERT(wish.event > 0);
}

static void check_deep(const char *body, size_t len)
{
    struct rv_api_deep_wish wish;
    struct rv_api_error err;
    ruvllm_status rc = rv_api_deep_parse(body, len, &wish, &err);

    if (rc)
        check_refusal(rc, &err);
    else
        RV_ASSERT(wish.max_forgetting > 0 && wish.max_forgetting <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rv_api_request *request;
    struct rv_api_error err;
    ruvllm_status rc;

    if (size == 0)
        return 0;
    if (data[0] == 'a') {
        check_adapter_load((const char *)data + 1, size - 1);
        return 0;
    }
    if (data[0] == 'v' || data[0] == 'r') {
        (data[0] == 'v' ? check_feedback : check_rollback)((const char *)data + 1, size - 1);
        return 0;
    }
    if (data[0] == 'p' || data[0] == 'f') {
        (data[0] == 'p' ? check_pause : check_forget)((const char *)data + 1, size - 1);
        return 0;
    }
    if (data[0] == 'd') {
        check_deep((const char *)data + 1, size - 1);
        return 0;
    }
    rc = rv_api_request_parse((enum rv_api_kind)(data[0] % (RV_API_TEMPLATE + 1)), (const char *)data + 1, size - 1,
                              &request, &err);
    if (rc) {
        check_refusal(rc, &err);
        return 0;
    }
    rv_api_request_check(request);
    if (request->conversation)
        check_conversation(request);
    else
        check_same_again(request);
    rv_api_request_free(request);
    return 0;
}
