/* Messages are stored as the client sent them, and the answer after them. */
#include "server/session_store.h"

#include "base/alloc.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "server/generation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

enum { TITLE_BYTES = 80 };

void rv_session_store_file_name(const char *tenant, const char *id, char out[RV_SESSION_STORE_NAME])
{
    char joined[160];
    char hex[RV_SHA256_HEX_LEN + 1];
    int len = snprintf(joined, sizeof(joined), "%s/%s", tenant, id); // no tenant and no id holds a '/'

    rv_sha256_hex(joined, (size_t)len, hex);
    snprintf(out, RV_SESSION_STORE_NAME, "%s.kv", hex);
}

/* The beginning of the first thing a user said, on one line. */
static void make_title(const struct ruvllm_input *input, char title[TITLE_BYTES + 1])
{
    const char *text = "";
    size_t len;

    for (size_t i = 0; i < input->n_messages; i++) {
        if (strcmp(input->messages[i].role, "user") == 0) {
            text = input->messages[i].content;
            break;
        }
    }
    len = strnlen(text, TITLE_BYTES);
    if (len == TITLE_BYTES) {
        while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
            len--; // not inside a character
    }
    for (size_t i = 0; i < len; i++)
        title[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? ' ' : text[i];
    title[len] = '\0';
    if (!rv_utf8_valid(title, len))
        title[0] = '\0';
}

static char *make_messages(const struct ruvllm_input *input, const char *answer, size_t *len)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *list = doc ? yyjson_mut_arr(doc) : NULL;
    char *json, *copy;

    if (!list) {
        yyjson_mut_doc_free(doc);
        return NULL;
    }
    yyjson_mut_doc_set_root(doc, list);
    for (size_t i = 0; i <= input->n_messages; i++) {
        bool is_answer = i == input->n_messages;
        yyjson_mut_val *message = yyjson_mut_arr_add_obj(doc, list);

        yyjson_mut_obj_add_str(doc, message, "role", is_answer ? "assistant" : input->messages[i].role);
        yyjson_mut_obj_add_str(doc, message, "content", is_answer ? answer : input->messages[i].content);
    }
    json = yyjson_mut_write(doc, 0, len);
    yyjson_mut_doc_free(doc);
    copy = json ? rv_strndup(json, *len) : NULL;
    free(json);
    return copy;
}

ruvllm_status rv_session_store_put(struct rv_call *call, const char *answer, int64_t n_tokens, struct ruvllm_error *err)
{
    const struct rv_api_request *request = call->request;
    char title[TITLE_BYTES + 1];
    char snapshot[RV_SESSION_STORE_NAME] = "";
    struct ruvllm_session session = {
        .struct_size = sizeof(session),
        .tenant = rv_call_tenant(call),
        .id = request->session,
        .model = strlen(call->generation->head.model) <= RV_MODEL_SET_NAME
                     ? call->generation->head.model // with its adapter, if it was named there
                     : rv_model_set_name(call->server->models, (size_t)call->i_model),
        .title = title,
        .snapshot = snapshot,
        .n_tokens = n_tokens,
    };
    struct ruvllm_session *old = NULL;
    char *messages;
    ruvllm_status rc;

    messages = make_messages(&request->inputs[0], answer, &session.messages_len);
    if (!messages)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the session's messages");
    session.messages = messages;
    make_title(&request->inputs[0], title);
    /* What was saved of its keys and values stays: it is the beginning of what there is now. */
    if (ruvllm_sessions_get(call->server->store, session.tenant, session.id, &old, NULL) == RUVLLM_OK)
        snprintf(snapshot, sizeof(snapshot), "%s", old->snapshot);
    ruvllm_free(old);
    rc = ruvllm_sessions_put(call->server->store, &session, err);
    rv_free(messages);
    return rc ? rv_fail_in(err, rc, "cannot store session '%s'", request->session) : RUVLLM_OK;
}
