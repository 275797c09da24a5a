/* Streaming one answer and describing it. */
#include "answer.h"

#include "interrupt.h"
#include "token_piece.h"

/* Reading a long prompt takes a while: on a terminal something shows that it is under way. */
void rv_answer_view_begin(struct rv_answer_view *view)
{
    if (!view->show || !rv_output_has_colour(stdout))
        return;
    printf("%s…%s", rv_output_style(stdout, RV_STYLE_DIM), rv_output_style(stdout, RV_STYLE_RESET));
    fflush(stdout);
    view->is_waiting = true;
}

static void end_waiting(struct rv_answer_view *view)
{
    if (view->is_waiting)
        fputs("\r\033[K", stdout);
    view->is_waiting = false;
}

void rv_answer_view_text(struct rv_answer_view *view, const char *text, size_t len)
{
    if (!view->show || !len)
        return;
    end_waiting(view);
    rv_output_text(stdout, text, len);
    fflush(stdout);
    view->ends_line = text[len - 1] == '\n';
}

void rv_answer_view_end(struct rv_answer_view *view, bool is_answered)
{
    end_waiting(view);
    if (is_answered && view->show && !view->ends_line)
        putchar('\n');
    fflush(stdout);
}

static bool on_chunk(void *user, const struct ruvllm_chunk *chunk)
{
    rv_answer_view_text(user, chunk->text, chunk->text_len);
    return !rv_interrupt_seen();
}

ruvllm_status rv_answer_stream(ruvllm_model *model, const struct ruvllm_input *input,
                               const struct ruvllm_generate_params *params, bool show, struct ruvllm_response **out,
                               struct ruvllm_error *err)
{
    struct rv_answer_view view = {.show = show};
    ruvllm_status rc;

    rv_answer_view_begin(&view);
    rc = ruvllm_generate_stream(model, input, params, on_chunk, &view, out, err);
    rv_answer_view_end(&view, rc == RUVLLM_OK);
    return rc;
}

const char *rv_answer_stop_name(ruvllm_stop_reason reason)
{
    return reason == RUVLLM_STOP_CALLBACK ? "interrupted" : ruvllm_stop_reason_name(reason);
}

static yyjson_mut_val *logprob_json(yyjson_mut_doc *doc, const ruvllm_model *model,
                                    const struct ruvllm_token_logprob *logprob)
{
    yyjson_mut_val *object = yyjson_mut_obj(doc);

    yyjson_mut_obj_add_int(doc, object, "token", logprob->token);
    rv_token_piece_json(doc, object, model, logprob->token);
    rv_output_json_add(doc, object, "logprob", rv_output_json_real(doc, (double)logprob->logprob, 6));
    return object;
}

static void add_logprobs(yyjson_mut_doc *doc, yyjson_mut_val *object, const ruvllm_model *model,
                         const struct ruvllm_response *response)
{
    yyjson_mut_val *list = yyjson_mut_obj_add_arr(doc, object, "logprobs");

    for (size_t i = 0; i < response->n_tokens; i++) {
        const struct ruvllm_token_logprob *row = response->logprobs + i * response->logprobs_per_token;
        yyjson_mut_val *entry = logprob_json(doc, model, row);
        yyjson_mut_val *top = yyjson_mut_obj_add_arr(doc, entry, "top");

        for (size_t k = 1; k < response->logprobs_per_token; k++)
            yyjson_mut_arr_append(top, logprob_json(doc, model, &row[k]));
        yyjson_mut_arr_append(list, entry);
    }
}

double rv_answer_decode_rate(const struct ruvllm_response *response)
{
    return response->n_tokens > 1 ? rv_output_rate((int64_t)response->n_tokens - 1, response->decode_us) : 0;
}

static double prefill_rate(const struct ruvllm_response *response)
{
    return rv_output_rate(response->prompt_tokens - response->cached_tokens, response->prefill_us);
}

void rv_answer_json(yyjson_mut_doc *doc, yyjson_mut_val *object, const ruvllm_model *model,
                    const struct ruvllm_response *response)
{
    yyjson_mut_val *tokens, *usage, *timings;

    rv_output_json_add(doc, object, "text", rv_output_json_text(doc, response->text, response->text_len));
    tokens = yyjson_mut_obj_add_arr(doc, object, "tokens");
    for (size_t i = 0; i < response->n_tokens; i++)
        yyjson_mut_arr_add_int(doc, tokens, response->tokens[i]);
    yyjson_mut_obj_add_str(doc, object, "stop_reason", rv_answer_stop_name(response->stop_reason));
    yyjson_mut_obj_add_uint(doc, object, "seed", response->seed);
    usage = yyjson_mut_obj_add_obj(doc, object, "usage");
    yyjson_mut_obj_add_int(doc, usage, "prompt_tokens", response->prompt_tokens);
    yyjson_mut_obj_add_int(doc, usage, "cached_tokens", response->cached_tokens);
    yyjson_mut_obj_add_uint(doc, usage, "completion_tokens", response->n_tokens);
    yyjson_mut_obj_add_uint(doc, usage, "total_tokens", (uint64_t)response->prompt_tokens + response->n_tokens);
    timings = yyjson_mut_obj_add_obj(doc, object, "timings");
    yyjson_mut_obj_add_int(doc, timings, "prefill_us", response->prefill_us);
    yyjson_mut_obj_add_int(doc, timings, "decode_us", response->decode_us);
    rv_output_json_add(doc, timings, "prefill_tokens_per_second", rv_output_json_real(doc, prefill_rate(response), 2));
    rv_output_json_add(doc, timings, "decode_tokens_per_second",
                       rv_output_json_real(doc, rv_answer_decode_rate(response), 2));
    if (response->logprobs)
        add_logprobs(doc, object, model, response);
}

void rv_answer_summary(const struct ruvllm_response *response, char *out, size_t out_size)
{
    char cached[48] = "";

    if (response->cached_tokens)
        snprintf(cached, sizeof(cached), " (%d cached)", response->cached_tokens);
    snprintf(out, out_size, "%zu tokens · %.1f tok/s · prompt %d%s", response->n_tokens,
             rv_answer_decode_rate(response), response->prompt_tokens, cached);
}
