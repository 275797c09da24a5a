/*
 * Threads: start and finish on workers, everything else on the I/O thread; the engine's thread only posts the call.
 */
#include "server/generation.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "server/learning_model.h"
#include "server/response_index.h"
#include "server/session_store.h"
#include "server/token_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MAX_TEXT = 64 << 20 };

/* ---- starting: on a worker --------------------------------------------------------------------- */

/* On the engine's thread; possibly once more after the last event. */
static void on_event(void *user, uint64_t id)
{
    struct rv_call *call = user;

    (void)id;
    rv_http_server_post(call->server->http, &call->post);
}

static void make_fingerprint(const struct rv_call *call, char out[24])
{
    struct rv_model_set *models = call->server->models;
    char what[RV_MODEL_SET_NAME + 96];
    char hex[RV_SHA256_HEX_LEN + 1];
    int len =
        snprintf(what, sizeof(what), "%s %s %lld", ruvllm_version(), rv_model_set_name(models, (size_t)call->i_model),
                 (long long)rv_model_set_created(models, (size_t)call->i_model));

    rv_sha256_hex(what, (size_t)len, hex);
    snprintf(out, 24, "fp_%.12s", hex);
}

/* The call's id is random already: what is made from it is as good, and the log names one id only. */
static void derive_random(const char *id, uint8_t random[32])
{
    static const char digits[] = "0123456789abcdef";
    char hex[RV_SHA256_HEX_LEN + 1];

    rv_sha256_hex(id, strlen(id), hex);
    for (size_t i = 0; i < 32; i++)
        random[i] = (uint8_t)((strchr(digits, hex[2 * i]) - digits) << 4 | (strchr(digits, hex[2 * i + 1]) - digits));
}

static struct rv_generation *make(struct rv_call *call, const struct rv_generation_style *style)
{
    struct rv_generation *g = rv_calloc(1, sizeof(*g));
    size_t n = call->request->n_inputs * (size_t)call->request->n;
    uint8_t random[32];

    if (!g)
        return NULL;
    call->generation = g;
    g->choices = rv_calloc(n, sizeof(*g->choices));
    if (!g->choices)
        return NULL;
    g->n_choices = n;
    g->style = style;
    rv_buf_init(&g->text, MAX_TEXT);
    derive_random(call->id, random);
    rv_api_reply_id(g->id, style->id_prefix, random);
    rv_api_reply_id(g->item_id, "msg", random + 16);
    make_fingerprint(call, g->fingerprint);
    g->head = (struct rv_api_head){.id = g->id,
                                   .created = (int64_t)time(NULL),
                                   .model = call->adapters.is_suffix
                                                ? call->request->model
                                                : rv_model_set_name(call->server->models, (size_t)call->i_model),
                                   .fingerprint = g->fingerprint,
                                   .has_usage_chunk = call->request->include_usage};
    return g;
}

/* Choices of one prompt differ, but the same way every time, when the client gave a seed. */
static ruvllm_status submit(struct rv_call *call, struct rv_generation_choice *choice, const struct ruvllm_input *input,
                            ruvllm_thought thought, struct ruvllm_error *err)
{
    const struct rv_api_request *r = call->request;
    struct ruvllm_generate_params params = r->params;
    struct ruvllm_adapter_use uses[RV_API_MAX_ADAPTERS];
    struct ruvllm_request request = {.struct_size = sizeof(request),
                                     .input = input,
                                     .params = &params,
                                     .tenant = rv_call_tenant(call),
                                     .priority = r->priority,
                                     .kv = r->has_kv ? &r->kv : NULL,
                                     .no_shared_prefix = r->no_shared_prefix,
                                     .on_event = on_event,
                                     .user = call,
                                     .adapters = call->adapters.n ? uses : NULL,
                                     .n_adapters = call->adapters.n,
                                     .share = call->key.share};
    ruvllm_status rc;

    for (size_t i = 0; i < call->adapters.n; i++)
        uses[i] = (struct ruvllm_adapter_use){.id = call->adapters.uses[i].id,
                                              .generation = call->adapters.uses[i].generation,
                                              .weight = call->adapters.uses[i].weight};
    params.seed += (uint64_t)(choice->index % r->n);
    params.thought = thought;
    rc = ruvllm_engine_submit(call->engine, &request, &choice->id, err);
    choice->is_started = rc == RUVLLM_OK;
    return rc;
}

/* Before the template is asked for what it has no place for: its own complaint would be about something else. */
static ruvllm_status check_tools(struct rv_call *call, struct ruvllm_error *err)
{
    const ruvllm_model *model = ruvllm_engine_model(call->engine);
    struct ruvllm_tool_style style = {.struct_size = sizeof(style)};
    ruvllm_status rc = RUVLLM_OK;

    if (call->request->params.tools && ruvllm_model_chat_template(model)) // without one there is no chat at all
        rc = ruvllm_tool_style_get(model, &style, err);
    if (rc == RUVLLM_UNSUPPORTED)
        rv_api_error_set(&call->generation->failure, 400, "invalid_value", "tools", "%s", err->message);
    return rc;
}

/* Reads the answer's shape before anything runs, so that a failure names the client's own field. */
static ruvllm_status check_shape(struct rv_call *call, ruvllm_thought thought, struct ruvllm_error *err)
{
    struct ruvllm_generate_params params = call->request->params;
    ruvllm_status rc;

    if (!call->request->shape_param)
        return RUVLLM_OK;
    params.thought = thought;
    rc = ruvllm_shape_check(ruvllm_engine_model(call->engine), &params, err);
    if (rc == RUVLLM_INVALID || rc == RUVLLM_UNSUPPORTED)
        rv_api_error_set(&call->generation->failure, 400, "invalid_value", call->request->shape_param, "%s",
                         err->message);
    return rc;
}

/* How the answer may begin: models that think say so in their template, and the prompt may have begun for them. */
static ruvllm_status find_thought(const struct rv_call *call, const int32_t *tokens, size_t n, ruvllm_thought *thought,
                                  struct ruvllm_error *err)
{
    enum { TAIL = 12 }; // tokens in which "<think>" and white space would be
    const ruvllm_model *model = ruvllm_engine_model(call->engine);
    const char *source = ruvllm_model_chat_template(model);
    size_t first = n > TAIL ? n - TAIL : 0, len = 0;
    char *text = NULL;
    ruvllm_status rc;

    *thought = RUVLLM_THOUGHT_NONE;
    if (call->request->kind != RV_API_CHAT || !call->request->shape_param || !source || !strstr(source, "<think>"))
        return RUVLLM_OK;
    rc = ruvllm_detokenize(model, tokens + first, n - first, true, &text, &len, err);
    if (rc)
        return rc;
    while (len > 0 && strchr(" \n\r\t", text[len - 1]))
        len--;
    *thought = RUVLLM_THOUGHT_ALLOWED;
    if (len >= 7 && memcmp(text + len - 7, "<think>", 7) == 0)
        *thought = RUVLLM_THOUGHT_OPEN;
    else if (len >= 8 && memcmp(text + len - 8, "</think>", 8) == 0)
        *thought = RUVLLM_THOUGHT_NONE;
    ruvllm_free(text);
    return RUVLLM_OK;
}

/* What takes the answer apart, where it has parts. */
static ruvllm_status prepare_parts(struct rv_call *call, struct rv_generation_choice *choice, ruvllm_thought thought,
                                   struct ruvllm_error *err)
{
    struct ruvllm_tool_style style = {.struct_size = sizeof(style)};
    bool has_tools = call->request->params.tools != NULL;
    ruvllm_status rc = RUVLLM_OK;

    if (!has_tools && thought == RUVLLM_THOUGHT_NONE)
        return RUVLLM_OK;
    if (has_tools)
        rc = ruvllm_tool_style_get(ruvllm_engine_model(call->engine), &style, err);
    if (rc)
        return rc;
    choice->parts = rv_chat_parts_new(has_tools ? &style : NULL, thought, call->generation->id, choice->index);
    return choice->parts ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the answer");
}

static ruvllm_status submit_input(struct rv_call *call, size_t i_input, struct ruvllm_error *err)
{
    const struct rv_api_request *r = call->request;
    struct ruvllm_input input = {.struct_size = sizeof(input)}, given = r->inputs[i_input];
    ruvllm_thought thought = RUVLLM_THOUGHT_NONE;
    int32_t *tokens = NULL;
    ruvllm_status rc;

    if (r->conversation)
        given = (struct ruvllm_input){
            .struct_size = sizeof(given), .conversation = r->conversation, .conversation_len = r->conversation_len};
    rc = check_tools(call, err);
    if (!rc)
        rc = ruvllm_tokenize(ruvllm_engine_model(call->engine), &given, &tokens, &input.n_tokens, err);
    input.tokens = tokens;
    if (!rc)
        rc = find_thought(call, tokens, input.n_tokens, &thought, err);
    if (!rc)
        rc = check_shape(call, thought, err);
    for (int32_t k = 0; !rc && k < r->n; k++) {
        size_t i = i_input * (size_t)r->n + (size_t)k;
        struct rv_generation_choice *choice = &call->generation->choices[i];

        choice->index = (int32_t)i;
        choice->i_input = (int32_t)i_input;
        rc = prepare_parts(call, choice, thought, err);
        if (!rc)
            rc = submit(call, choice, &input, thought, err);
    }
    ruvllm_free(tokens);
    return rc;
}

/*
 * Answers that belong together are made with one generation: where there are several, the newest of each adapter is
 * looked up before the first is submitted. One answer keeps what its submission finds.
 */
static ruvllm_status pin_generations(struct rv_call *call, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; !rc && call->generation->n_choices > 1 && i < call->adapters.n; i++) {
        struct rv_api_adapter_use *use = &call->adapters.uses[i];
        struct ruvllm_adapter_info *infos = NULL;
        size_t n = 0;

        if (use->generation)
            continue;
        rc = ruvllm_engine_adapter_list(call->engine, use->id, &infos, &n, err);
        for (size_t k = 0; !rc && k < n; k++)
            if (strcmp(infos[k].id, use->id) == 0 && infos[k].generation > use->generation)
                use->generation = infos[k].generation;
        ruvllm_free(infos);
    }
    return rc;
}

/* How long until a place in the queue is free, by how long requests took so far. */
static int32_t guess_retry_after(const struct rv_call *call)
{
    struct ruvllm_engine_stats stats = {.struct_size = sizeof(stats)};
    double per_token;

    if (ruvllm_engine_stats_get(call->engine, &stats, NULL) || stats.generated_tokens == 0)
        return 1;
    per_token = (double)stats.busy_us / 1e6 / (double)stats.generated_tokens;
    /* One of those that run must end; about a hundred tokens each is a guess as good as any. */
    per_token *= 100;
    return per_token < 1 ? 1 : per_token > 60 ? 60 : (int32_t)per_token;
}

void rv_generation_start(struct rv_call *call, const struct rv_generation_style *style)
{
    struct ruvllm_error err = {0};
    ruvllm_status rc = RUVLLM_OK;

    if (!make(call, style))
        rc = rv_fail(&err, RUVLLM_NO_MEMORY, "cannot allocate the answer");
    else
        call->generation->submitted_us = rv_clock_us();
    if (!rc)
        rc = pin_generations(call, &err);
    for (size_t i = 0; !rc && i < call->request->n_inputs; i++)
        rc = submit_input(call, i, &err);
    if (rc) {
        struct rv_api_error failure = call->generation ? call->generation->failure : (struct rv_api_error){0};

        if (call->generation) {
            rv_generation_cancel(call);
            rv_generation_free(call);
        }
        if (rc == RUVLLM_BUSY)
            call->retry_after = guess_retry_after(call);
        if (failure.http_status)
            rv_call_fail(call, &failure);
        else
            rv_call_fail_from(call, &err);
        return;
    }
    call->result = RV_CALL_GENERATE;
}

/* ---- log-probabilities -------------------------------------------------------------------------- */

bool rv_generation_logprobs_init(struct rv_api_logprobs *out, const ruvllm_model *model,
                                 const struct ruvllm_token_logprob *rows, size_t n_rows, size_t per_row)
{
    size_t n = n_rows * per_row;
    struct rv_api_token *tokens = rv_calloc(n ? n : 1, sizeof(*tokens));

    *out = (struct rv_api_logprobs){.tokens = tokens, .n_rows = n_rows, .n_top = per_row ? per_row - 1 : 0};
    if (!tokens)
        return false;
    for (size_t i = 0; i < n; i++) {
        char *text = NULL;

        tokens[i].logprob = rows[i].logprob;
        if (rv_token_text(model, rows[i].token, &text, &tokens[i].text_len, NULL)) {
            rv_generation_logprobs_release(out);
            return false;
        }
        tokens[i].text = text;
    }
    return true;
}

void rv_generation_logprobs_release(struct rv_api_logprobs *logprobs)
{
    size_t n = logprobs->n_rows * (logprobs->n_top + 1);

    for (size_t i = 0; logprobs->tokens && i < n; i++)
        ruvllm_free((void *)(uintptr_t)logprobs->tokens[i].text);
    rv_free((void *)(uintptr_t)logprobs->tokens);
    *logprobs = (struct rv_api_logprobs){0};
}

/* ---- streaming: on the I/O thread ------------------------------------------------------------------ */

static void on_room(void *user)
{
    struct rv_call *call = user;
    struct rv_generation *g = call->generation;

    if (!g || call->stage != RV_CALL_GENERATING)
        return;
    g->is_blocked = false;
    /* As if the engine had posted it, so that nothing of the call runs inside the HTTP server's own functions. */
    rv_http_server_post(call->server->http, &call->post);
}

static void begin_stream(struct rv_call *call)
{
    struct rv_http_exchange *exchange = call->exchange;

    call->generation->is_streaming = true;
    call->status = 200;
    rv_http_exchange_add_header(exchange, "cache-control", "no-cache");
    rv_http_exchange_add_header(exchange, "x-accel-buffering", "no");
    rv_http_exchange_on_room(exchange, on_room, call);
    rv_http_exchange_begin(exchange, 200, "text/event-stream");
}

/* Sends what was put into the scratch buffer. */
static void flush(struct rv_call *call)
{
    struct rv_buf *out = &call->server->scratch;

    if (call->exchange && out->len > 0 && !rv_http_exchange_write(call->exchange, out->data, out->len))
        call->generation->is_blocked = true;
    rv_buf_clear(out);
}

static void end_stream(struct rv_call *call)
{
    flush(call);
    call->stage = RV_CALL_ANSWERED;
    if (call->exchange)
        rv_http_exchange_end(call->exchange);
}

/* An answer that broke: an error where nothing was sent yet, else the last event of the stream. */
static void break_off(struct rv_call *call, const struct rv_api_error *err)
{
    struct rv_generation *g = call->generation;

    rv_generation_cancel(call);
    rv_buf_clear(&call->server->scratch);
    if (!g->is_streaming) {
        rv_call_send_error(call, err);
        return;
    }
    g->style->failed(call, err, &call->server->scratch);
    end_stream(call);
}

static void break_off_from(struct rv_call *call, const struct ruvllm_error *cause)
{
    struct rv_api_error err;

    rv_api_error_from(&err, cause);
    if (err.http_status >= 500)
        snprintf(call->cause, sizeof(call->cause), "%s", cause->message);
    break_off(call, &err);
}

static void write_piece(struct rv_call *call, struct rv_generation_choice *choice, const struct ruvllm_event *event)
{
    struct rv_generation *g = call->generation;
    struct rv_buf *out = &call->server->scratch;
    struct rv_api_logprobs logprobs = {0};
    struct rv_api_choice piece = {.index = choice->index,
                                  .text = event->text,
                                  .text_len = event->text_len,
                                  .is_finished = event->type == RUVLLM_EVENT_DONE};

    if (piece.is_finished)
        piece.stop_reason = event->response->stop_reason;
    if (event->logprobs && event->n_tokens > 0 &&
        rv_generation_logprobs_init(&logprobs, ruvllm_engine_model(call->engine), event->logprobs, event->n_tokens,
                                    event->logprobs_per_token)) {
        logprobs.text_offset = choice->text_offset;
        choice->text_offset += rv_api_reply_n_chars(&logprobs);
        piece.logprobs = &logprobs;
    }
    if (!choice->has_begun && g->style->begin)
        g->style->begin(call, choice, out);
    choice->has_begun = true;
    if (choice->parts)
        g->style->parts(call, choice->parts, &piece, out);
    else
        g->style->piece(call, &piece, out);
    rv_generation_logprobs_release(&logprobs);
}

static void note_time(struct rv_call *call, struct rv_generation_choice *choice, size_t n_tokens)
{
    struct rv_metrics_model *m = &call->server->metrics.models[call->i_model];
    int64_t now = rv_clock_us();

    if (n_tokens == 0)
        return;
    if (!call->generation->first_us)
        call->generation->first_us = now;
    if (choice->last_us)
        rv_metrics_observe(&m->inter_token, (double)(now - choice->last_us) / 1e6 / (double)n_tokens, n_tokens);
    choice->last_us = now;
}

/* From now on feedback may come. */
static void index_answers(const struct rv_call *call)
{
    const struct rv_generation *g = call->generation;

    for (size_t i = 0; call->server->responses && i < g->n_choices; i++)
        rv_response_index_add(call->server->responses, g->id, g->choices[i].index, rv_call_tenant(call),
                              (size_t)call->i_model, g->choices[i].id);
}

static void sum_up(struct rv_call *call)
{
    struct rv_generation *g = call->generation;

    g->done_us = rv_clock_us();
    for (size_t i = 0; i < g->n_choices; i++) {
        const struct ruvllm_response *r = g->choices[i].response;

        /* A prompt is counted once, however many choices there are. */
        if (i % (size_t)call->request->n == 0) {
            g->usage.prompt_tokens += r->prompt_tokens;
            g->usage.cached_tokens += r->cached_tokens;
        }
        g->usage.completion_tokens += (int64_t)r->n_tokens;
        g->usage.accepted_tokens += r->accepted_tokens;
        g->usage.rejected_tokens += r->drafted_tokens - r->accepted_tokens;
    }
}

/* Reads all there is of one choice; false when the answer broke off. */
static bool pump_choice(struct rv_call *call, struct rv_generation_choice *choice)
{
    struct rv_generation *g = call->generation;

    while (!choice->is_done && !g->is_blocked && call->exchange) {
        struct ruvllm_event event = {.struct_size = sizeof(event)};
        struct ruvllm_error err = {0};

        if (ruvllm_engine_next_event(call->engine, choice->id, 0, &event, &err)) {
            choice->is_done = true; // the engine has forgotten it
            break_off_from(call, &err);
            return false;
        }
        if (event.type == RUVLLM_EVENT_NONE)
            return true;
        note_time(call, choice, event.n_tokens);
        if (event.type == RUVLLM_EVENT_DONE && choice->index == 0) {
            g->head.adapter_generation = event.response->adapter_generation;
            g->head.has_learned = rv_learning_model_stage(call->server, (size_t)call->i_model) != RV_LEARNING_OFF;
            g->head.learned_generation = event.response->learned_generation;
        }
        if (call->request->stream)
            write_piece(call, choice, &event);
        if (event.type == RUVLLM_EVENT_DONE) {
            choice->is_done = true;
            choice->response = event.response;
            g->n_done++;
        }
        if (call->server->scratch.failed) {
            rv_fail(&err, call->server->scratch.failed, "cannot hold a piece of the answer");
            break_off_from(call, &err);
            return false;
        }
        flush(call);
    }
    return true;
}

void rv_generation_pump(struct rv_call *call)
{
    struct rv_generation *g = call->generation;

    if (!call->exchange || g->is_blocked)
        return;
    if (call->request->stream && !g->is_streaming)
        begin_stream(call);
    for (size_t i = 0; i < g->n_choices; i++) {
        if (!pump_choice(call, &g->choices[i]))
            return;
    }
    if (g->n_done < g->n_choices || g->is_blocked || !call->exchange)
        return;
    sum_up(call);
    index_answers(call);
    if (!call->request->stream || call->request->session)
        rv_call_finish(call);
    else
        rv_generation_end(call);
}

void rv_generation_end(struct rv_call *call)
{
    struct rv_generation *g = call->generation;

    if (!call->exchange)
        return;
    if (g->failure.http_status) {
        break_off(call, &g->failure);
    } else if (!g->is_streaming) {
        rv_call_send(call, call->reply_status, call->reply_type, call->reply.data, call->reply.len);
    } else {
        g->style->end(call, &call->server->scratch);
        end_stream(call);
    }
}

/* ---- finishing: on a worker -------------------------------------------------------------------------- */

static ruvllm_status make_whole(struct rv_call *call, struct ruvllm_error *err)
{
    struct rv_generation *g = call->generation;
    struct rv_api_choice *choices = rv_calloc(g->n_choices, sizeof(*choices));
    struct rv_api_logprobs *logprobs = rv_calloc(g->n_choices, sizeof(*logprobs));
    bool is_ok = choices && logprobs;

    for (size_t i = 0; is_ok && i < g->n_choices; i++) {
        const struct ruvllm_response *r = g->choices[i].response;

        choices[i] = (struct rv_api_choice){.index = g->choices[i].index,
                                            .text = r->text,
                                            .text_len = r->text_len,
                                            .is_finished = true,
                                            .stop_reason = r->stop_reason};
        if (r->logprobs) {
            is_ok = rv_generation_logprobs_init(&logprobs[i], ruvllm_engine_model(call->engine), r->logprobs,
                                                r->n_tokens, r->logprobs_per_token);
            choices[i].logprobs = &logprobs[i];
        }
        if (is_ok && g->choices[i].parts)
            is_ok = rv_chat_parts_whole(g->choices[i].parts, r->text, r->text_len, &choices[i]);
    }
    if (is_ok)
        g->style->whole(call, choices, g->n_choices, &call->reply);
    for (size_t i = 0; logprobs && i < g->n_choices; i++)
        rv_generation_logprobs_release(&logprobs[i]);
    rv_free(logprobs);
    rv_free(choices);
    return is_ok ? rv_buf_status(&call->reply, "the answer", err)
                 : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the answer");
}

void rv_generation_finish(struct rv_call *call)
{
    struct rv_generation *g = call->generation;
    struct ruvllm_error err = {0};
    ruvllm_status rc = RUVLLM_OK;

    if (call->request->session)
        rc = rv_session_store_put(call, g->choices[0].response->text,
                                  g->usage.prompt_tokens + g->usage.completion_tokens, &err);
    if (!rc && !call->request->stream)
        rc = make_whole(call, &err);
    call->reply_status = 200;
    if (rc) {
        rv_api_error_from(&g->failure, &err);
        snprintf(call->cause, sizeof(call->cause), "%s", err.message);
    }
}

/* ---- ending ------------------------------------------------------------------------------------------- */

void rv_generation_cancel(struct rv_call *call)
{
    struct rv_generation *g = call->generation;

    for (size_t i = 0; i < g->n_choices; i++) {
        struct rv_generation_choice *choice = &g->choices[i];

        /* Nothing to do about a failure: it means that the request is gone already. */
        if (choice->is_started && !choice->is_done)
            (void)!ruvllm_engine_cancel(call->engine, choice->id, NULL);
        choice->is_done = true;
    }
}

void rv_generation_free(struct rv_call *call)
{
    struct rv_generation *g = call->generation;

    for (size_t i = 0; g->choices && i < g->n_choices; i++) {
        ruvllm_response_free(g->choices[i].response);
        rv_chat_parts_free(g->choices[i].parts);
    }
    rv_buf_release(&g->text);
    rv_free(g->choices);
    rv_free(g);
    call->generation = NULL;
}
