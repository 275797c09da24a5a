/* Answering inside a conversation. */
#include "chat_session.h"

#include "answer.h"
#include "interrupt.h"

#include "base/alloc.h"

#include <string.h>

void rv_chat_session_init(struct rv_chat_session *chat, ruvllm_model *model, const struct ruvllm_model_info *info,
                          const struct ruvllm_generate_params *params)
{
    *chat = (struct rv_chat_session){.model = model, .info = *info, .params = *params};
    rv_conversation_init(&chat->conversation);
}

void rv_chat_session_release(struct rv_chat_session *chat)
{
    rv_conversation_release(&chat->conversation);
}

const ruvllm_model *rv_chat_session_model(const struct rv_chat_session *chat)
{
    return chat->learn ? rv_chat_learn_model(chat->learn) : chat->model;
}

static void print_status(const struct rv_chat_session *chat, const struct ruvllm_response *response)
{
    char summary[160], why[64] = "";

    rv_answer_summary(response, summary, sizeof(summary));
    if (response->stop_reason == RUVLLM_STOP_CALLBACK)
        snprintf(why, sizeof(why), " · stopped");
    else if (response->stop_reason == RUVLLM_STOP_LENGTH)
        snprintf(why, sizeof(why), " · cut at --max-tokens");
    else if (response->stop_reason == RUVLLM_STOP_CONTEXT)
        snprintf(why, sizeof(why), " · context full: /clear makes room");
    printf("%s[%s · context %d of %d, %d%%%s]%s\n\n", rv_output_style(stdout, RV_STYLE_DIM), summary,
           chat->context_used, chat->info.context, (int)(100.0 * chat->context_used / chat->info.context), why,
           rv_output_style(stdout, RV_STYLE_RESET));
    fflush(stdout);
}

static void print_json(const struct rv_chat_session *chat, const struct ruvllm_response *response)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    const struct ruvllm_message *user = &chat->conversation.messages[chat->conversation.n - 2];

    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_uint(doc, root, "turn", chat->n_turns);
    rv_output_json_add(doc, root, "user", rv_output_json_text(doc, user->content, strlen(user->content)));
    rv_answer_json(doc, root, rv_chat_session_model(chat), response);
    (void)rv_output_json(doc, true); // a failed write is noticed at the end of the program
}

/* Takes an answer into the conversation and shows what there is to know of it. */
static ruvllm_status take(struct rv_chat_session *chat, const struct ruvllm_response *response,
                          struct ruvllm_error *err)
{
    ruvllm_status rc = rv_conversation_push(&chat->conversation, "assistant", response->text, err);

    if (rc)
        return rc;
    chat->n_turns++;
    chat->n_tokens += response->n_tokens;
    chat->decode_us += response->decode_us;
    chat->context_used = response->prompt_tokens + (int32_t)response->n_tokens;
    if (chat->json)
        print_json(chat, response);
    else if (chat->show_status)
        print_status(chat, response);
    return RUVLLM_OK;
}

static ruvllm_status answer(struct rv_chat_session *chat, struct ruvllm_error *err)
{
    struct ruvllm_input input = {.struct_size = sizeof(input)};
    struct ruvllm_generate_params params = chat->params;
    struct ruvllm_response *response;
    struct rv_chat_reply reply;
    ruvllm_status rc;

    input.messages = chat->conversation.messages;
    input.n_messages = chat->conversation.n;
    /* With a fixed seed another attempt has to differ all the same. */
    params.seed += chat->n_regenerated;
    rv_interrupt_clear();
    if (chat->learn) {
        rc = rv_chat_learn_answer(chat->learn, &input, &params, !chat->json, &reply, err);
        if (!rc)
            rc = take(chat, rv_chat_learn_response(&reply), err);
        rv_chat_learn_release(&reply);
        return rc;
    }
    rc = rv_answer_stream(chat->model, &input, &params, !chat->json, &response, err);
    if (rc)
        return rc;
    rc = take(chat, response, err);
    ruvllm_response_free(response);
    return rc;
}

ruvllm_status rv_chat_session_say(struct rv_chat_session *chat, const char *text, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_conversation_push(&chat->conversation, "user", text, err);

    if (rc)
        return rc;
    chat->n_regenerated = 0;
    rc = answer(chat, err);
    if (rc)
        rv_conversation_pop(&chat->conversation);
    return rc;
}

ruvllm_status rv_chat_session_regenerate(struct rv_chat_session *chat, struct ruvllm_error *err)
{
    struct rv_conversation *c = &chat->conversation;
    char *old;
    ruvllm_status rc;

    if (c->n < 2 || strcmp(rv_conversation_last_role(c), "assistant") != 0)
        return rv_fail(err, RUVLLM_INVALID, "there is no answer to make again");
    old = rv_strdup(c->messages[c->n - 1].content);
    if (!old)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot keep the old answer");
    rv_conversation_pop(c);
    chat->n_regenerated++;
    rc = answer(chat, err);
    /* No memory for the old answer either: the error already tells the worse news. */
    if (rc && rv_conversation_push(c, "assistant", old, NULL) != RUVLLM_OK)
        rv_conversation_pop(c);
    rv_free(old);
    return rc;
}

const char *rv_chat_session_advice(ruvllm_status status)
{
    return status == RUVLLM_TOO_LARGE ? "/clear forgets the conversation; 'ruvllm chat --ctx N' holds more of it"
                                      : NULL;
}
