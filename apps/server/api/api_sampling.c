/* Generation settings. Ranges are those of the engine, or narrower where clients know narrower ones. */
#include "server/api/api_sampling.h"

#include "server/api/api_trivial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_USER = 256,       // bytes
    MAX_WINDOW = 1 << 20, // tokens the penalties can be told to see; -1 is all of them
    MAX_KV_TOKENS = 1 << 24,
    MAX_METADATA_KEY = 64,
    MAX_METADATA_VALUE = 512,
};

const struct rv_api_field rv_api_sampling_fields[] = {
    {.name = "temperature"},
    {.name = "top_p"},
    {.name = "top_k"},
    {.name = "min_p"},
    {.name = "typical_p"},
    {.name = "repetition_penalty"},
    {.name = "frequency_penalty"},
    {.name = "presence_penalty"},
    {.name = "penalty_window"},
    {.name = "seed"},
    {.name = "stop"},
    {.name = "logit_bias"},
    {.name = "ignore_eos"},
    {.name = NULL},
};

const struct rv_api_field rv_api_sampling_serving_fields[] = {
    {.name = "model"}, {.name = "user"},     {.name = "metadata"},     {.name = "session"},
    {.name = "kv"},    {.name = "priority"}, {.name = "prompt_cache"}, {.name = NULL},
};

const struct rv_api_field rv_api_sampling_harmless_fields[] = {
    {.name = "store", .asks_nothing = rv_api_trivial_false, .only = "false"},
    {.name = "service_tier", .asks_nothing = rv_api_trivial_tier, .only = "\"auto\" or \"default\""},
    {.name = "safety_identifier", .asks_nothing = rv_api_trivial_string, .only = "a string"},
    {.name = "prompt_cache_key", .asks_nothing = rv_api_trivial_string, .only = "a string"},
    {.name = "prompt_cache_retention", .asks_nothing = rv_api_trivial_in_memory, .only = "\"in_memory\""},
    {.name = "moderation", .fails = true},
    {.name = "prompt_cache_options", .fails = true},
    {.name = NULL},
};

const struct rv_api_field rv_api_sampling_no_tools_fields[] = {
    {.name = "parallel_tool_calls", .asks_nothing = rv_api_trivial_bool, .only = "true or false"},
    {.name = "tools", .asks_nothing = rv_api_trivial_empty, .only = "an empty array"},
    {.name = "tool_choice", .asks_nothing = rv_api_trivial_tool_choice, .only = "\"none\" or \"auto\""},
    {.name = NULL},
};

static void read_numbers(struct rv_api_fields *body, struct ruvllm_generate_params *p)
{
    rv_api_fields_float(body, "temperature", 0, 2, &p->temperature);
    rv_api_fields_float(body, "top_p", 0, 1, &p->top_p);
    rv_api_fields_int32(body, "top_k", 0, INT32_MAX, &p->top_k);
    rv_api_fields_float(body, "min_p", 0, 1, &p->min_p);
    rv_api_fields_float(body, "typical_p", 0, 1, &p->typical_p);
    rv_api_fields_float(body, "repetition_penalty", 0.01, 100, &p->repetition_penalty);
    rv_api_fields_float(body, "frequency_penalty", -2, 2, &p->frequency_penalty);
    rv_api_fields_float(body, "presence_penalty", -2, 2, &p->presence_penalty);
    rv_api_fields_int32(body, "penalty_window", -1, MAX_WINDOW, &p->penalty_window);
    rv_api_fields_bool(body, "ignore_eos", &p->ignore_eos);
}

static void read_stop(struct rv_api_fields *body, struct ruvllm_generate_params *p)
{
    yyjson_val *stop = rv_api_fields_value(body, "stop");
    yyjson_arr_iter iter;
    const char **stops;
    char path[32];
    size_t n = 1;

    if (yyjson_is_arr(stop))
        stop = rv_api_fields_array(body, "stop", 0, RV_API_MAX_STOPS, &n);
    stops = stop ? rv_api_fields_alloc(body->reader, n, sizeof(*stops)) : NULL;
    if (!stops)
        return;
    if (yyjson_is_arr(stop)) {
        iter = yyjson_arr_iter_with(stop);
        for (size_t i = 0; i < n; i++) {
            snprintf(path, sizeof(path), "stop[%zu]", i);
            rv_api_fields_is_string(body->reader, yyjson_arr_iter_next(&iter), path, 1, RV_API_MAX_STOP_BYTES,
                                    &stops[i]);
        }
    } else {
        rv_api_fields_string(body, "stop", 1, RV_API_MAX_STOP_BYTES, &stops[0]);
    }
    p->stop = stops;
    p->n_stop = n;
}

/* A token id in decimal as JSON.stringify writes it, so that no id has two spellings; -1 for anything else. */
static int32_t token_of_key(yyjson_val *key)
{
    const char *text = yyjson_get_str(key);
    size_t len = yyjson_get_len(key);
    int64_t id = 0;

    if (len == 0 || len > 10 || (text[0] == '0' && len > 1))
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        id = id * 10 + (text[i] - '0');
    }
    return id <= INT32_MAX ? (int32_t)id : -1;
}

static void read_bias(struct rv_api_fields *biases, yyjson_val *key, struct ruvllm_logit_bias *out)
{
    const char *name = yyjson_get_str(key) ? yyjson_get_str(key) : ""; // keys are strings: for the compiler's sake

    out->token = token_of_key(key);
    if (out->token < 0) {
        rv_api_fields_fail(biases->reader, "logit_bias", "invalid_value",
                           "'logit_bias' has the key \"%.*s\"; keys are token ids in decimal", RV_API_MAX_NAME, name);
        return;
    }
    rv_api_fields_require(biases, name);
    rv_api_fields_float(biases, name, -100, 100, &out->bias);
}

static void read_logit_bias(struct rv_api_fields *body, struct ruvllm_generate_params *p)
{
    struct ruvllm_logit_bias *list;
    struct rv_api_fields biases;
    yyjson_obj_iter iter;
    size_t n;

    if (!rv_api_fields_object(body, "logit_bias", &biases))
        return;
    n = yyjson_obj_size(biases.object);
    if (n > RV_API_MAX_LOGIT_BIAS) {
        rv_api_fields_fail(body->reader, "logit_bias", "invalid_value",
                           "'logit_bias' must have at most %d entries, and has %zu", RV_API_MAX_LOGIT_BIAS, n);
        return;
    }
    list = rv_api_fields_alloc(body->reader, n, sizeof(*list));
    iter = yyjson_obj_iter_with(biases.object);
    for (size_t i = 0; i < n && list; i++)
        read_bias(&biases, yyjson_obj_iter_next(&iter), &list[i]);
    p->logit_bias = list;
    p->n_logit_bias = n;
}

void rv_api_sampling_read(struct rv_api_fields *body, struct rv_api_request *request)
{
    struct ruvllm_generate_params *p = &request->params;
    int64_t seed;

    read_numbers(body, p);
    if (rv_api_fields_int(body, "seed", INT64_MIN, INT64_MAX, &seed)) {
        p->has_seed = true;
        p->seed = (uint64_t)seed;
    }
    read_stop(body, p);
    read_logit_bias(body, p);
}

void rv_api_sampling_max_tokens(struct rv_api_fields *body, const char *name, struct rv_api_request *request)
{
    int32_t limit;

    if (!rv_api_fields_int32(body, name, 0, INT32_MAX, &limit))
        return;
    if (request->has_max_tokens && limit != request->params.max_tokens)
        rv_api_fields_fail(body->reader, name, "invalid_value",
                           "'%s' is %d, and 'max_tokens' says %d; send one of them", name, (int)limit,
                           (int)request->params.max_tokens);
    request->has_max_tokens = true;
    request->params.max_tokens = limit;
}

void rv_api_sampling_stream(struct rv_api_fields *body, struct rv_api_request *request)
{
    static const struct rv_api_field known[] = {
        {.name = "include_usage"},
        {.name = "include_obfuscation", .asks_nothing = rv_api_trivial_false, .only = "false"},
        {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};
    struct rv_api_fields options;

    rv_api_fields_bool(body, "stream", &request->stream);
    if (!rv_api_fields_object(body, "stream_options", &options))
        return;
    if (!request->stream)
        rv_api_fields_fail(body->reader, "stream_options", "invalid_value",
                           "'stream_options' is given without 'stream': true; leave it out");
    rv_api_fields_only(&options, tables, 1);
    rv_api_fields_bool(&options, "include_usage", &request->include_usage);
}

void rv_api_sampling_n(struct rv_api_fields *body, struct rv_api_request *request)
{
    rv_api_fields_int32(body, "n", 1, RV_API_MAX_N, &request->n);
    if (request->n_inputs * (size_t)request->n > RV_API_MAX_CHOICES)
        rv_api_fields_fail(body->reader, "n", "invalid_value",
                           "'n' is %d for %zu prompts; a request has at most %d choices in all", (int)request->n,
                           request->n_inputs, RV_API_MAX_CHOICES);
}

/* A session's id: a name that is safe as part of a file's name. */
static void read_session(struct rv_api_fields *body, struct rv_api_request *request)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const char *id;

    if (!rv_api_fields_string(body, "session", 1, RV_API_MAX_NAME, &id))
        return;
    if (id[strspn(id, allowed)] || id[0] == '.')
        rv_api_fields_fail(body->reader, "session", "invalid_value",
                           "'session' must be made of letters, digits, '.', '_' and '-', and not begin with '.'");
    else
        request->session = id;
}

static void read_kv(struct rv_api_fields *body, struct rv_api_request *request)
{
    static const struct rv_api_field known[] = {
        {.name = "hot_tokens"}, {.name = "warm_tokens"}, {.name = "cold"}, {.name = "keep_first"}, {.name = NULL}};
    static const struct rv_api_field *const tables[] = {known};
    static const char *const words[] = {"q4", "q8", "f16"};
    static const ruvllm_precision precisions[] = {RUVLLM_PRECISION_Q4, RUVLLM_PRECISION_Q8, RUVLLM_PRECISION_FP16};
    struct rv_api_fields kv;
    size_t cold;

    if (!rv_api_fields_object(body, "kv", &kv))
        return;
    request->has_kv = true;
    rv_api_fields_only(&kv, tables, 1);
    rv_api_fields_int32(&kv, "hot_tokens", 0, MAX_KV_TOKENS, &request->kv.hot_tokens);
    rv_api_fields_int32(&kv, "warm_tokens", 0, MAX_KV_TOKENS, &request->kv.warm_tokens);
    if (rv_api_fields_word(&kv, "cold", words, 3, &cold))
        request->kv.cold = precisions[cold];
    rv_api_fields_bool(&kv, "keep_first", &request->kv.keep_first);
}

static void read_metadata(struct rv_api_fields *body, struct rv_api_request *request)
{
    struct rv_api_fields metadata;
    struct rv_api_pair *pairs;
    yyjson_obj_iter iter;
    size_t n;

    if (!rv_api_fields_object(body, "metadata", &metadata))
        return;
    n = yyjson_obj_size(metadata.object);
    if (n > RV_API_MAX_METADATA)
        rv_api_fields_fail(body->reader, "metadata", "invalid_value", "'metadata' must have at most %d pairs, has %zu",
                           RV_API_MAX_METADATA, n);
    pairs = rv_api_fields_alloc(body->reader, n, sizeof(*pairs));
    iter = yyjson_obj_iter_with(metadata.object);
    for (size_t i = 0; i < n && pairs; i++) {
        yyjson_val *key = yyjson_obj_iter_next(&iter);

        if (rv_api_fields_is_string(body->reader, key, "metadata", 1, MAX_METADATA_KEY, &pairs[i].key) &&
            rv_api_fields_is_string(body->reader, yyjson_obj_iter_get_val(key), "metadata", 0, MAX_METADATA_VALUE,
                                    &pairs[i].value))
            request->n_metadata = i + 1;
    }
    request->metadata = pairs;
}

void rv_api_sampling_serving(struct rv_api_fields *body, struct rv_api_request *request)
{
    bool prompt_cache = true;

    rv_api_fields_string(body, "user", 0, MAX_USER, &request->user);
    read_metadata(body, request);
    read_session(body, request);
    read_kv(body, request);
    rv_api_fields_int32(body, "priority", -10, 10, &request->priority);
    rv_api_fields_bool(body, "prompt_cache", &prompt_cache);
    request->no_shared_prefix = !prompt_cache;
}
