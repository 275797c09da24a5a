/*
 * Chat templates: what a conversation looks like to the interpreter, and whose each byte is. Trusted are the
 * template's own text, the spelling of bos and eos, and a role that is a plain word; every other string that
 * comes in is a user's.
 */
#include "text/chat_template.h"

#include "base/alloc.h"
#include "base/sha256.h"
#include "text/jinja_eval.h"
#include "text/jinja_json.h"
#include "text/tool_history.h"

#include <string.h>

#include <yyjson.h>

#define MAX_SOURCE_BYTES ((size_t)256 << 10)
#define MAX_TREE_BYTES ((size_t)64 << 20)
#define MAX_JSON_BYTES ((size_t)16 << 20)
#define MAX_ROLE_BYTES 64

struct rv_chat_template {
    char *source;
    struct rv_arena arena; // the tree
    struct rv_jinja_node *root;
    char sha256[RV_SHA256_HEX_LEN + 1];
};

ruvllm_status rv_chat_template_new(struct rv_chat_template **out, const char *source, size_t len,
                                   struct ruvllm_error *err)
{
    struct rv_chat_template *tmpl;
    ruvllm_status rc;

    *out = NULL;
    if (len > MAX_SOURCE_BYTES)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_CONFIG,
                            "cannot parse chat template: its %zu bytes are more than %zu", len, MAX_SOURCE_BYTES);
    tmpl = rv_calloc(1, sizeof(*tmpl));
    if (!tmpl)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate chat template");
    rv_arena_init(&tmpl->arena, MAX_TREE_BYTES);
    rv_sha256_hex(source, len, tmpl->sha256);
    tmpl->source = rv_strndup(source, len);
    if (!tmpl->source)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", len);
    else
        rc = rv_jinja_parse(tmpl->source, len, &tmpl->arena, &tmpl->root, err);
    if (rc) {
        rv_chat_template_free(tmpl);
        return rv_fail_in(err, rc, "cannot parse chat template");
    }
    *out = tmpl;
    return RUVLLM_OK;
}

void rv_chat_template_free(struct rv_chat_template *tmpl)
{
    if (!tmpl)
        return;
    rv_arena_release(&tmpl->arena);
    rv_free(tmpl->source);
    rv_free(tmpl);
}

const char *rv_chat_template_sha256(const struct rv_chat_template *tmpl)
{
    return tmpl->sha256;
}

/* ---- variables ------------------------------------------------------------------------------ */

struct context {
    struct rv_jinja_run run;
    const struct rv_chat_template *tmpl;
    struct rv_jinja_scope globals;
    const unsigned char *user; // ones, as many as the longest string
    yyjson_doc *doc;
};

/* Letters, digits, '_' and '-': such a role cannot spell a special token. */
static bool is_plain_role(struct rv_jinja_string role)
{
    for (size_t i = 0; i < role.len; i++) {
        char c = role.data[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
            return false;
    }
    return role.len <= MAX_ROLE_BYTES;
}

static struct rv_jinja_value role_value(const struct context *ctx, const char *data, size_t len)
{
    struct rv_jinja_string role = rv_jinja_literal(data, len);

    if (!is_plain_role(role))
        role.mask = ctx->user;
    return rv_jinja_text(role);
}

static ruvllm_status build_message(struct context *ctx, const struct rv_chat_message *message,
                                   struct rv_jinja_value *out)
{
    struct rv_jinja_value content = rv_jinja_none();
    ruvllm_status rc = rv_jinja_dict_new(&ctx->run, out);

    if (rc)
        return rc;
    if (message->content)
        content = rv_jinja_text((struct rv_jinja_string){message->content, ctx->user, strlen(message->content)});
    rc = rv_jinja_dict_set(&ctx->run, out->as.dict, rv_jinja_literal("role", 4),
                           role_value(ctx, message->role, strlen(message->role)));
    return rc ? rc : rv_jinja_dict_set(&ctx->run, out->as.dict, rv_jinja_literal("content", 7), content);
}

static ruvllm_status build_messages(struct context *ctx, const struct rv_chat_render *render,
                                    struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_list_new(&ctx->run, render->n_messages, out);

    for (size_t i = 0; rc == RUVLLM_OK && i < render->n_messages; i++) {
        struct rv_jinja_value message;

        if (!render->messages[i].role)
            return rv_fail_kind(ctx->run.err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION, "message %zu has no role", i);
        rc = build_message(ctx, &render->messages[i], &message);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_list_push(&ctx->run, out->as.list, message);
    }
    return rc;
}

/* Messages given as JSON: an array of objects, whose plain roles become trusted. */
static ruvllm_status trust_roles(struct context *ctx, struct rv_jinja_value messages)
{
    ruvllm_status rc = RUVLLM_OK;

    if (messages.type != RV_JINJA_T_LIST)
        return rv_fail_kind(ctx->run.err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION, "'messages' must be an array");
    for (size_t i = 0; rc == RUVLLM_OK && i < messages.as.list->len; i++) {
        struct rv_jinja_value message = messages.as.list->items[i];
        const struct rv_jinja_value *role;

        if (message.type != RV_JINJA_T_DICT)
            return rv_fail_kind(ctx->run.err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION, "message %zu is not an object",
                                i);
        role = rv_jinja_dict_find(&ctx->run, message.as.dict, "role", 4);
        if (role && role->type == RV_JINJA_T_STRING)
            rc = rv_jinja_dict_set(&ctx->run, message.as.dict, rv_jinja_literal("role", 4),
                                   role_value(ctx, role->as.string.data, role->as.string.len));
    }
    return rc;
}

static ruvllm_status read_json(struct context *ctx, const struct rv_chat_render *render)
{
    struct rv_jinja_value object;
    const struct rv_jinja_value *messages;
    yyjson_read_err reason;
    ruvllm_status rc;

    if (render->json_len > MAX_JSON_BYTES)
        return rv_fail_kind(ctx->run.err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION,
                            "the JSON variables are more than %zu bytes", MAX_JSON_BYTES);
    /* The reader only writes to its input when told to read in place. */
    ctx->doc = yyjson_read_opts((char *)(uintptr_t)render->json, render->json_len, YYJSON_READ_NOFLAG, NULL, &reason);
    if (!ctx->doc)
        return rv_fail_kind(ctx->run.err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION,
                            "the variables are not JSON: %s at byte %zu", reason.msg, reason.pos);
    rc = rv_jinja_json_import(&ctx->run, yyjson_doc_get_root(ctx->doc), ctx->user, &object);
    if (rc)
        return rc;
    if (object.type != RV_JINJA_T_DICT)
        return rv_fail_kind(ctx->run.err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION, "the variables must be an object");
    ctx->globals.vars = *object.as.dict;
    messages = rv_jinja_dict_find(&ctx->run, &ctx->globals.vars, "messages", 8);
    if (!messages)
        return RUVLLM_OK;
    if (render->n_messages)
        return rv_fail_kind(ctx->run.err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION,
                            "messages are given twice, once as JSON");
    rc = trust_roles(ctx, *messages);
    return rc ? rc : rv_tool_history_fit(&ctx->run, ctx->tmpl->source, &ctx->globals.vars, ctx->user);
}

static size_t longest_string(const struct rv_chat_render *render)
{
    size_t longest = render->json ? render->json_len : 0;

    for (size_t i = 0; i < render->n_messages; i++) {
        size_t role = render->messages[i].role ? strlen(render->messages[i].role) : 0;
        size_t content = render->messages[i].content ? strlen(render->messages[i].content) : 0;

        longest = role > longest ? role : longest;
        longest = content > longest ? content : longest;
    }
    return longest;
}

static ruvllm_status set_variables(struct context *ctx, const struct rv_chat_render *render)
{
    struct rv_jinja_value messages;
    ruvllm_status rc = rv_jinja_json_user_mask(&ctx->run, longest_string(render), &ctx->user);

    if (rc == RUVLLM_OK && render->json)
        rc = read_json(ctx, render);
    if (rc == RUVLLM_OK && !rv_jinja_dict_find(&ctx->run, &ctx->globals.vars, "messages", 8)) {
        rc = build_messages(ctx, render, &messages);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_scope_set(&ctx->run, &ctx->globals, "messages", messages);
    }
    if (rc == RUVLLM_OK)
        rc = rv_jinja_scope_set(&ctx->run, &ctx->globals, "add_generation_prompt",
                                rv_jinja_boolean(render->add_generation_prompt));
    if (rc == RUVLLM_OK && render->bos_token.data)
        rc = rv_jinja_scope_set(&ctx->run, &ctx->globals, "bos_token",
                                rv_jinja_text(rv_jinja_literal(render->bos_token.data, render->bos_token.len)));
    if (rc == RUVLLM_OK && render->eos_token.data)
        rc = rv_jinja_scope_set(&ctx->run, &ctx->globals, "eos_token",
                                rv_jinja_text(rv_jinja_literal(render->eos_token.data, render->eos_token.len)));
    return rc;
}

/* ---- rendering ------------------------------------------------------------------------------ */

static ruvllm_status hand_out(const struct rv_jinja_run *run, struct rv_buf *text, struct rv_buf *user_mask,
                              struct ruvllm_error *err)
{
    ruvllm_status rc;

    rv_buf_add(text, run->text.data, run->text.len);
    rc = rv_buf_status(text, "the rendered conversation", err);
    if (rc || !user_mask)
        return rc;
    rv_buf_add(user_mask, run->mask.data, run->mask.len);
    return rv_buf_status(user_mask, "the mask of the rendered conversation", err);
}

ruvllm_status rv_chat_template_render(const struct rv_chat_template *tmpl, const struct rv_chat_render *render,
                                      struct rv_buf *text, struct rv_buf *user_mask, struct ruvllm_error *err)
{
    struct context ctx = {.tmpl = tmpl};
    ruvllm_status rc;

    rv_jinja_run_init(&ctx.run, &rv_jinja_limits_default, err);
    rc = set_variables(&ctx, render);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_render(&ctx.run, tmpl->root, &ctx.globals);
    if (rc == RUVLLM_OK)
        rc = hand_out(&ctx.run, text, user_mask, err);
    rv_jinja_run_release(&ctx.run);
    yyjson_doc_free(ctx.doc);
    return rc ? rv_fail_in(err, rc, "cannot render chat template") : RUVLLM_OK;
}
