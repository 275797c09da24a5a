/*
 * The public API's door: checks arguments, fills in defaults, takes the model, calls the part that does the work.
 * No logic lives here.
 */
#include "ruvllm.h"

#include "base/alloc.h"
#include "engine/door.h"
#include "engine/embedding.h"
#include "engine/engine.h"
#include "engine/engine_learn.h"
#include "engine/generate.h"
#include "engine/input.h"
#include "engine/kv_policy.h"
#include "engine/reply.h"
#include "engine/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t ruvllm_device_count(void)
{
    return rv_device_count();
}

ruvllm_status ruvllm_device_at(size_t index, struct ruvllm_device_info *out, struct ruvllm_error *err)
{
    struct ruvllm_device_info info = {.struct_size = sizeof(info)};
    ruvllm_status rc;

    if (!out)
        return rv_door_fail_null(err, "out");
    rc = rv_device_describe(index, &info, err);
    return rc ? rc : rv_door_give_struct(out, &info, sizeof(info), "ruvllm_device_info", err);
}

struct ruvllm_model_params ruvllm_model_params_default(void)
{
    return (struct ruvllm_model_params){.struct_size = sizeof(struct ruvllm_model_params),
                                        .max_context = 4096,
                                        .max_batch = 512,
                                        .use_mmap = true,
                                        .repack = true,
                                        .yarn_extrapolation = -1.0f};
}

struct ruvllm_generate_params ruvllm_generate_params_default(void)
{
    return (struct ruvllm_generate_params){.struct_size = sizeof(struct ruvllm_generate_params),
                                           .max_tokens = 256,
                                           .temperature = 0.7f,
                                           .top_p = 0.9f,
                                           .typical_p = 1.0f,
                                           .repetition_penalty = 1.1f,
                                           .penalty_window = 64,
                                           .n_logprobs = -1};
}

ruvllm_status ruvllm_model_open(ruvllm_model **out, const char *path, const struct ruvllm_model_params *params,
                                struct ruvllm_error *err)
{
    struct ruvllm_model_params ours = ruvllm_model_params_default();
    ruvllm_status rc;

    if (!out)
        return rv_door_fail_null(err, "out");
    *out = NULL;
    if (!path)
        return rv_door_fail_null(err, "path");
    rc = rv_door_take_struct(&ours, sizeof(ours), params, "ruvllm_model_params", err);
    return rc ? rc : rv_model_open(out, path, &ours, true, err);
}

void ruvllm_model_close(ruvllm_model *model)
{
    rv_model_close(model);
}

ruvllm_status ruvllm_model_info_get(const ruvllm_model *model, struct ruvllm_model_info *out, struct ruvllm_error *err)
{
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    const struct rv_hparams *h;

    if (!model || !out)
        return rv_door_fail_null(err, model ? "out" : "model");
    h = &model->hparams;
    info.name = model->name;
    info.architecture = model->architecture;
    info.quantization = model->quantization;
    info.tokenizer = rv_vocab_description(model->vocab);
    info.device = model->device ? rv_device_name(model->device) : "";
    info.template_sha256 = model->chat_template ? rv_chat_template_sha256(model->chat_template) : "";
    info.n_params = model->manifest.n_params;
    info.file_bytes = rv_gguf_file_n_bytes(model->file);
    info.n_layers = h->n_layers;
    info.n_embd = h->n_embd;
    info.n_heads = h->n_heads;
    info.n_kv_heads = h->n_kv_heads;
    info.head_dim = h->head_dim;
    info.n_vocab = model->backend ? h->n_vocab : (int32_t)rv_vocab_n_tokens(model->vocab);
    info.trained_context = h->trained_context;
    info.context = model->max_context;
    info.sliding_window = h->window;
    info.bos_token = rv_vocab_bos(model->vocab);
    info.eos_token = rv_vocab_eos(model->vocab);
    info.size = ruvllm_model_size_of(info.n_params);
    info.has_chat_template = model->template_source != NULL;
    info.tied_embeddings = model->manifest.tied;
    info.backend = model->backend ? model->backend->name : "";
    info.can_learn = model->backend && model->backend->can_learn && rv_model_has_blocks(model);
    info.has_tiers = rv_model_has_blocks(model);
    info.n_threads = model->device ? rv_device_n_threads(model->device) : 0;
    return rv_door_give_struct(out, &info, sizeof(info), "ruvllm_model_info", err);
}

const char *ruvllm_model_chat_template(const ruvllm_model *model)
{
    return model ? model->template_source : NULL;
}

/* Resident pages from the system's own account; 0 where there is none. */
static uint64_t resident_bytes(void)
{
    char line[128] = "", *rest;
    uint64_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (!file)
        return 0;
    if (fgets(line, sizeof(line), file)) {
        (void)strtoull(line, &rest, 10); // the first number is the size of the address space
        pages = strtoull(rest, NULL, 10);
    }
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

ruvllm_status ruvllm_memory_stats_get(const ruvllm_model *model, struct ruvllm_memory_stats *out,
                                      struct ruvllm_error *err)
{
    struct ruvllm_memory_stats stats = {.struct_size = sizeof(stats)};

    if (!model || !out)
        return rv_door_fail_null(err, model ? "out" : "model");
    stats.weights_mapped = model->weights.mapped_bytes;
    stats.weights_allocated = model->weights.allocated_bytes;
    stats.kv_bytes = model->state ? model->backend->kv_bytes(model->state) : 0;
    stats.compute_bytes = model->state ? model->backend->scratch_bytes(model->state) : 0;
    stats.process_rss = resident_bytes();
    return rv_door_give_struct(out, &stats, sizeof(stats), "ruvllm_memory_stats", err);
}

ruvllm_status ruvllm_tool_style_get(const ruvllm_model *model, struct ruvllm_tool_style *out, struct ruvllm_error *err)
{
    struct ruvllm_tool_style style = {.struct_size = sizeof(style)};
    const struct rv_tool_style *known;

    if (!model || !out)
        return rv_door_fail_null(err, model ? "out" : "model");
    known = rv_tool_style_of(model->template_source);
    if (!known)
        return rv_fail_kind(
            err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_MODEL,
            "the model's chat template has no place for tools, or calls them in a way that is not known");
    style.name = known->name;
    style.open = known->open;
    style.close = known->close;
    style.arguments = known->arguments;
    style.is_list = known->is_list;
    return rv_door_give_struct(out, &style, sizeof(style), "ruvllm_tool_style", err);
}

ruvllm_status ruvllm_shape_check(const ruvllm_model *model, const struct ruvllm_generate_params *params,
                                 struct ruvllm_error *err)
{
    struct ruvllm_generate_params ours = ruvllm_generate_params_default();
    struct rv_grammar *grammar = NULL;
    ruvllm_status rc;

    if (!model)
        return rv_door_fail_null(err, "model");
    rc = rv_door_take_struct(&ours, sizeof(ours), params, "ruvllm_generate_params", err);
    if (!rc)
        rc = rv_constraint_find(model->constraints, &ours, &grammar, err);
    rv_grammar_unref(grammar);
    return rc;
}

ruvllm_status ruvllm_tokenize(const ruvllm_model *model, const struct ruvllm_input *input, int32_t **tokens,
                              size_t *n_tokens, struct ruvllm_error *err)
{
    struct ruvllm_input ours = {0};
    ruvllm_status rc;

    if (!model || !input || !tokens || !n_tokens)
        return rv_fail(err, RUVLLM_INVALID, "model, input, tokens and n_tokens must not be NULL");
    rc = rv_door_take_struct(&ours, sizeof(ours), input, "ruvllm_input", err);
    return rc ? rc : rv_input_tokens(model, &ours, tokens, n_tokens, err);
}

ruvllm_status ruvllm_detokenize(const ruvllm_model *model, const int32_t *tokens, size_t n_tokens, bool with_special,
                                char **text, size_t *text_len, struct ruvllm_error *err)
{
    struct rv_buf buf;
    ruvllm_status rc;

    if (!model || (!tokens && n_tokens) || !text)
        return rv_fail(err, RUVLLM_INVALID, "model, tokens and text must not be NULL");
    *text = NULL;
    rv_buf_init(&buf, SIZE_MAX / 2);
    rv_vocab_decode(model->vocab, tokens, n_tokens, with_special, &buf);
    rc = rv_buf_status(&buf, "the text", err);
    if (!rc) {
        *text = rv_buf_take(&buf, text_len);
        if (!*text)
            rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the text");
    }
    rv_buf_release(&buf);
    return rc;
}

ruvllm_status ruvllm_apply_template(const ruvllm_model *model, const struct ruvllm_message *messages, size_t n_messages,
                                    char **text, size_t *text_len, struct ruvllm_error *err)
{
    struct rv_buf buf;
    ruvllm_status rc;

    if (!model || !messages || !text)
        return rv_fail(err, RUVLLM_INVALID, "model, messages and text must not be NULL");
    *text = NULL;
    rv_buf_init(&buf, 1 << 20);
    rc = rv_input_render(model, messages, n_messages, &buf, NULL, err);
    if (!rc) {
        *text = rv_buf_take(&buf, text_len);
        if (!*text)
            rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the text");
    }
    rv_buf_release(&buf);
    return rc;
}

ruvllm_status ruvllm_generate(ruvllm_model *model, const struct ruvllm_input *input,
                              const struct ruvllm_generate_params *params, struct ruvllm_response **out,
                              struct ruvllm_error *err)
{
    if (!out)
        return rv_door_fail_null(err, "out");
    return ruvllm_generate_stream(model, input, params, NULL, NULL, out, err);
}

ruvllm_status ruvllm_generate_stream(ruvllm_model *model, const struct ruvllm_input *input,
                                     const struct ruvllm_generate_params *params, ruvllm_chunk_fn on_chunk, void *user,
                                     struct ruvllm_response **out, struct ruvllm_error *err)
{
    struct ruvllm_generate_params our_params = ruvllm_generate_params_default();
    struct ruvllm_input our_input = {0};
    ruvllm_status rc;

    if (out)
        *out = NULL;
    if (!model || !input)
        return rv_door_fail_null(err, model ? "input" : "model");
    rc = rv_door_take_struct(&our_params, sizeof(our_params), params, "ruvllm_generate_params", err);
    if (!rc)
        rc = rv_door_take_struct(&our_input, sizeof(our_input), input, "ruvllm_input", err);
    if (!rc)
        rc = rv_model_acquire(model, err);
    if (rc)
        return rc;
    rc = rv_generate(model, &our_input, &our_params, on_chunk, user, out, err);
    rv_model_yield(model);
    return rc;
}

void ruvllm_response_free(struct ruvllm_response *response)
{
    rv_reply_response_free(response);
}

struct forward {
    float *next;
    size_t row_len;
};

static void copy_rows(void *user, float *rows, int32_t n_rows)
{
    struct forward *f = user;
    size_t n = (size_t)n_rows * f->row_len;

    memcpy(f->next, rows, n * sizeof(*rows));
    f->next += n;
}

ruvllm_status ruvllm_forward(ruvllm_model *model, const int32_t *tokens, size_t n_tokens, size_t first, float *logits,
                             size_t logits_cap, struct ruvllm_error *err)
{
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = tokens, .n_tokens = n_tokens};
    struct forward f = {.next = logits};
    int32_t *checked = NULL;
    size_t n_checked, needed;
    ruvllm_status rc;

    if (!model || !tokens || !logits)
        return rv_fail(err, RUVLLM_INVALID, "model, tokens and logits must not be NULL");
    if (n_tokens == 0 || first >= n_tokens)
        return rv_fail(err, RUVLLM_INVALID, "row %zu of %zu tokens does not exist", first, n_tokens);
    rc = rv_model_acquire(model, err);
    if (rc)
        return rc;
    f.row_len = (size_t)model->hparams.n_vocab;
    if (n_tokens > (size_t)model->max_context)
        rc = rv_fail(err, RUVLLM_TOO_LARGE, "%zu tokens do not fit a context of %d", n_tokens, model->max_context);
    else if (!rv_size_mul(n_tokens - first, f.row_len, &needed) || needed > logits_cap)
        rc = rv_fail(err, RUVLLM_INVALID, "'logits' has room for %zu floats, %zu rows of %zu are asked for", logits_cap,
                     n_tokens - first, f.row_len);
    if (!rc)
        rc = rv_input_tokens(model, &input, &checked, &n_checked, err);
    if (!rc) {
        (void)rv_model_rewind(model, 0);
        rc = rv_model_advance(model, checked, (int32_t)n_tokens, (int32_t)(n_tokens - first), RV_DECODER_LOGITS,
                              copy_rows, &f, err);
    }
    rv_free(checked);
    rv_model_yield(model);
    return rc;
}

ruvllm_status ruvllm_embed(ruvllm_model *model, const struct ruvllm_input *input, float *out, size_t out_cap,
                           struct ruvllm_error *err)
{
    struct ruvllm_input ours = {0};
    int32_t *tokens = NULL;
    size_t n_tokens;
    ruvllm_status rc;

    if (!model || !input || !out)
        return rv_fail(err, RUVLLM_INVALID, "model, input and out must not be NULL");
    rc = rv_door_take_struct(&ours, sizeof(ours), input, "ruvllm_input", err);
    if (!rc)
        rc = rv_model_acquire(model, err);
    if (rc)
        return rc;
    if (out_cap < (size_t)model->hparams.n_embd)
        rc = rv_fail(err, RUVLLM_INVALID, "'out' has room for %zu floats, the embedding has %d", out_cap,
                     model->hparams.n_embd);
    if (!rc)
        rc = rv_input_tokens(model, &ours, &tokens, &n_tokens, err);
    if (!rc)
        rc = rv_embedding_by_model(model, tokens, n_tokens, out, err);
    rv_free(tokens);
    rv_model_yield(model);
    return rc;
}

/* ---- serving many -------------------------------------------------------------------------- */

struct ruvllm_kv_policy ruvllm_kv_policy_default(void)
{
    return (struct ruvllm_kv_policy){.struct_size = sizeof(struct ruvllm_kv_policy),
                                     .hot_tokens = 256,
                                     .warm_tokens = 256,
                                     .cold = RUVLLM_PRECISION_Q4,
                                     .keep_first = true};
}

struct ruvllm_engine_params ruvllm_engine_params_default(void)
{
    return (struct ruvllm_engine_params){.struct_size = sizeof(struct ruvllm_engine_params),
                                         .max_sequences = 64,
                                         .max_queue = 256,
                                         .prefill_tokens = 128,
                                         .share_prefixes = true,
                                         .max_adapters = 64,
                                         .keep_generations = 16};
}

ruvllm_status ruvllm_engine_open(ruvllm_engine **out, const char *path, const struct ruvllm_engine_params *params,
                                 struct ruvllm_error *err)
{
    struct ruvllm_engine_params ours = ruvllm_engine_params_default();
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_kv_policy kv = ruvllm_kv_policy_default();
    ruvllm_status rc;

    if (!out)
        return rv_door_fail_null(err, "out");
    *out = NULL;
    if (!path)
        return rv_door_fail_null(err, "path");
    rc = rv_door_take_struct(&ours, sizeof(ours), params, "ruvllm_engine_params", err);
    if (!rc)
        rc = rv_door_take_struct(&model, sizeof(model), ours.model, "ruvllm_model_params", err);
    if (!rc)
        rc = rv_door_take_struct(&kv, sizeof(kv), ours.kv, "ruvllm_kv_policy", err);
    if (rc)
        return rc;
    ours.kv = &kv;
    return rv_engine_open(out, path, &ours, &model, err);
}

void ruvllm_engine_close(ruvllm_engine *engine)
{
    rv_engine_close(engine);
}

const ruvllm_model *ruvllm_engine_model(const ruvllm_engine *engine)
{
    return engine ? rv_engine_model(engine) : NULL;
}

/* A caller's request and all it points to, in our own structs. */
struct request {
    struct ruvllm_request request;
    struct ruvllm_input input;
    struct ruvllm_generate_params params;
    struct ruvllm_kv_policy kv;
};

static ruvllm_status take_request(struct request *ours, const struct ruvllm_request *request, struct ruvllm_error *err)
{
    ruvllm_status rc;

    *ours = (struct request){.params = ruvllm_generate_params_default(), .kv = ruvllm_kv_policy_default()};
    rc = rv_door_take_struct(&ours->request, sizeof(ours->request), request, "ruvllm_request", err);
    if (!rc)
        rc = rv_door_take_struct(&ours->input, sizeof(ours->input), ours->request.input, "ruvllm_input", err);
    if (!rc)
        rc = rv_door_take_struct(&ours->params, sizeof(ours->params), ours->request.params, "ruvllm_generate_params",
                                 err);
    if (!rc)
        rc = rv_door_take_struct(&ours->kv, sizeof(ours->kv), ours->request.kv, "ruvllm_kv_policy", err);
    ours->request.kv = ours->request.kv ? &ours->kv : NULL;
    return rc;
}

ruvllm_status ruvllm_engine_submit(ruvllm_engine *engine, const struct ruvllm_request *request, uint64_t *id,
                                   struct ruvllm_error *err)
{
    struct request ours;
    ruvllm_status rc;

    if (!engine || !request || !id)
        return rv_fail(err, RUVLLM_INVALID, "engine, request and id must not be NULL");
    *id = 0;
    rc = take_request(&ours, request, err);
    if (!rc && !ours.request.input)
        rc = rv_door_fail_null(err, "input");
    return rc ? rc : rv_engine_submit(engine, &ours.request, &ours.input, &ours.params, id, err);
}

ruvllm_status ruvllm_engine_next_event(ruvllm_engine *engine, uint64_t id, int32_t timeout_ms,
                                       struct ruvllm_event *event, struct ruvllm_error *err)
{
    struct ruvllm_event ours = {.struct_size = sizeof(ours), .text = ""};
    ruvllm_status rc;

    if (!engine || !event)
        return rv_door_fail_null(err, engine ? "event" : "engine");
    /* Checked before: an event that was read is gone, and so would be its response. */
    rc = rv_door_give_struct(event, &ours, sizeof(ours), "ruvllm_event", err);
    if (!rc)
        rc = rv_engine_next_event(engine, id, timeout_ms, &ours, err);
    return rc ? rc : rv_door_give_struct(event, &ours, sizeof(ours), "ruvllm_event", err);
}

ruvllm_status ruvllm_engine_cancel(ruvllm_engine *engine, uint64_t id, struct ruvllm_error *err)
{
    return engine ? rv_engine_cancel(engine, id, err) : rv_door_fail_null(err, "engine");
}

ruvllm_status ruvllm_engine_stats_get(ruvllm_engine *engine, struct ruvllm_engine_stats *out, struct ruvllm_error *err)
{
    struct ruvllm_engine_stats stats;

    if (!engine || !out)
        return rv_door_fail_null(err, engine ? "out" : "engine");
    rv_engine_stats(engine, &stats);
    return rv_door_give_struct(out, &stats, sizeof(stats), "ruvllm_engine_stats", err);
}

/* What both session calls begin with. */
static ruvllm_status take_session(struct request *ours, struct rv_session_key *key, ruvllm_engine *engine,
                                  const struct ruvllm_request *request, const char *path, const int32_t *n_tokens,
                                  struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (!engine || !request || !path || !n_tokens)
        return rv_fail(err, RUVLLM_INVALID, "engine, request, path and n_tokens must not be NULL");
    rc = take_request(ours, request, err);
    if (rc)
        return rc;
    *key = (struct rv_session_key){.tenant = ours->request.tenant, .policy = engine->policy};
    rc = rv_engine_adapters_layers(&engine->adapters, &ours->request, &key->adapter_layers, err);
    if (rc)
        return rc;
    rv_engine_learn_layers(engine, key->tenant, &key->adapter_layers);
    return ours->request.kv ? rv_kv_policy_tiers(&ours->kv, &key->policy, err) : RUVLLM_OK;
}

ruvllm_status ruvllm_engine_save_session(ruvllm_engine *engine, const struct ruvllm_request *request, const char *path,
                                         int32_t *n_tokens, struct ruvllm_error *err)
{
    struct rv_session_key key;
    struct request ours;
    ruvllm_status rc = take_session(&ours, &key, engine, request, path, n_tokens, err);

    if (!rc && !ours.request.input)
        rc = rv_door_fail_null(err, "input");
    return rc ? rc : rv_session_save(engine, &key, &ours.input, path, n_tokens, err);
}

ruvllm_status ruvllm_engine_load_session(ruvllm_engine *engine, const struct ruvllm_request *request, const char *path,
                                         int32_t *n_tokens, struct ruvllm_error *err)
{
    struct rv_session_key key;
    struct request ours;
    ruvllm_status rc = take_session(&ours, &key, engine, request, path, n_tokens, err);

    return rc ? rc : rv_session_load(engine, &key, path, n_tokens, err);
}

ruvllm_status ruvllm_engine_embed(ruvllm_engine *engine, const struct ruvllm_request *request, float *out,
                                  size_t out_cap, int32_t *n_tokens, struct ruvllm_error *err)
{
    struct request ours;
    int32_t *tokens = NULL;
    size_t n = 0;
    ruvllm_status rc;

    if (!engine || !request || !out || !n_tokens)
        return rv_fail(err, RUVLLM_INVALID, "engine, request, out and n_tokens must not be NULL");
    rc = take_request(&ours, request, err);
    if (!rc && !ours.request.input)
        rc = rv_door_fail_null(err, "input");
    if (!rc && (ours.request.adapter || ours.request.n_adapters))
        rc = rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_ADAPTER,
                          "embeddings are the model's own; leave the adapter out");
    if (!rc && out_cap < (size_t)engine->model->hparams.n_embd)
        rc = rv_fail(err, RUVLLM_INVALID, "'out' has room for %zu floats, the embedding has %d", out_cap,
                     engine->model->hparams.n_embd);
    if (!rc)
        rc = rv_input_tokens(engine->model, &ours.input, &tokens, &n, err);
    if (!rc)
        rc = rv_embedding_by_engine(engine, ours.request.tenant, tokens, n, out, err);
    *n_tokens = rc ? 0 : (int32_t)n;
    rv_free(tokens);
    return rc;
}
