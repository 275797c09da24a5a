/* Replies that are not generated text: embeddings, models, sessions, and text as tokens and back. */
#include "server/api/api_json.h"
#include "server/api/api_reply.h"

#include <string.h>

static void begin_list(struct rv_buf *out)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", "list");
    rv_api_json_begin(out, "data", '[');
}

static void end_list(struct rv_buf *out)
{
    rv_api_json_end(out, ']');
    rv_api_json_end(out, '}');
}

/* ---- embeddings ------------------------------------------------------------------------------- */

/* Four bytes a number, least significant first, whatever the machine. */
static void add_base64(struct rv_buf *out, const char *key, const float *vector, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t held = 0;
    int n_held = 0;

    rv_api_json_raw(out, key, "\"");
    for (size_t i = 0; i < n * 4; i++) {
        uint32_t bits;

        memcpy(&bits, &vector[i / 4], sizeof(bits));
        held = (held << 8) | ((bits >> (8 * (i % 4))) & 0xff);
        n_held += 8;
        while (n_held >= 6) {
            n_held -= 6;
            rv_buf_add_char(out, digits[(held >> n_held) & 63]);
        }
    }
    if (n_held > 0)
        rv_buf_add_char(out, digits[(held << (6 - n_held)) & 63]);
    rv_buf_add_str(out, (n * 4) % 3 == 1 ? "==" : (n * 4) % 3 == 2 ? "=" : "");
    rv_buf_add_char(out, '"');
}

static void add_floats(struct rv_buf *out, const char *key, const float *vector, size_t n)
{
    rv_api_json_begin(out, key, '[');
    for (size_t i = 0; i < n; i++)
        rv_api_json_float(out, NULL, vector[i]);
    rv_api_json_end(out, ']');
}

void rv_api_reply_embeddings(struct rv_buf *out, const char *model, const float *vectors, size_t n_vectors,
                             size_t n_embd, enum rv_api_encoding encoding, int64_t prompt_tokens)
{
    begin_list(out);
    for (size_t i = 0; i < n_vectors; i++) {
        rv_api_json_begin(out, NULL, '{');
        rv_api_json_str(out, "object", "embedding");
        rv_api_json_int(out, "index", (int64_t)i);
        if (encoding == RV_API_BASE64)
            add_base64(out, "embedding", vectors + i * n_embd, n_embd);
        else
            add_floats(out, "embedding", vectors + i * n_embd, n_embd);
        rv_api_json_end(out, '}');
    }
    rv_api_json_end(out, ']');
    rv_api_json_str(out, "model", model);
    rv_api_json_begin(out, "usage", '{');
    rv_api_json_int(out, "prompt_tokens", prompt_tokens);
    rv_api_json_int(out, "total_tokens", prompt_tokens);
    rv_api_json_end(out, '}');
    rv_api_json_end(out, '}');
}

/* ---- models ----------------------------------------------------------------------------------- */

void rv_api_reply_model(struct rv_buf *out, const struct rv_api_model *model)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "id", model->id);
    rv_api_json_str(out, "object", "model");
    rv_api_json_int(out, "created", model->created);
    rv_api_json_str(out, "owned_by", model->owned_by ? model->owned_by : "ruvllm");
    if (model->parent)
        rv_api_json_str(out, "parent", model->parent);
    rv_api_json_bool(out, "loaded", model->is_loaded);
    if (model->is_loaded) {
        rv_api_json_str(out, "architecture", model->architecture);
        rv_api_json_str(out, "quantization", model->quantization);
        rv_api_json_str(out, "backend", model->backend);
        rv_api_json_int(out, "parameters", (int64_t)model->n_params);
        rv_api_json_int(out, "context", model->context);
        rv_api_json_int(out, "dimensions", model->n_embd);
        rv_api_json_bool(out, "chat_template", model->has_chat_template);
        rv_api_json_bool(out, "kv_tiers", model->has_tiers);
        rv_api_json_bool(out, "learning", model->can_learn);
    }
    rv_api_json_end(out, '}');
}

void rv_api_reply_models(struct rv_buf *out, const struct rv_api_model *models, size_t n_models)
{
    begin_list(out);
    for (size_t i = 0; i < n_models; i++)
        rv_api_reply_model(out, &models[i]);
    end_list(out);
}

/* ---- sessions --------------------------------------------------------------------------------- */

void rv_api_reply_session_deleted(struct rv_buf *out, const char *id)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "id", id);
    rv_api_json_str(out, "object", "session.deleted");
    rv_api_json_bool(out, "deleted", true);
    rv_api_json_end(out, '}');
}

/* ---- text and tokens -------------------------------------------------------------------------- */

static void add_piece(struct rv_buf *out, int32_t id, const struct rv_api_token *piece)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_int(out, "id", id);
    rv_api_json_text(out, "text", piece->text, piece->text_len);
    rv_api_json_begin(out, "bytes", '[');
    for (size_t i = 0; i < piece->text_len; i++)
        rv_api_json_int(out, NULL, (unsigned char)piece->text[i]);
    rv_api_json_end(out, ']');
    rv_api_json_end(out, '}');
}

void rv_api_reply_tokenize(struct rv_buf *out, const char *model, const int32_t *tokens, size_t n_tokens,
                           const struct rv_api_token *pieces)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", "tokens");
    rv_api_json_str(out, "model", model);
    rv_api_json_int(out, "count", (int64_t)n_tokens);
    rv_api_json_begin(out, "tokens", '[');
    for (size_t i = 0; i < n_tokens; i++)
        rv_api_json_int(out, NULL, tokens[i]);
    rv_api_json_end(out, ']');
    if (pieces) {
        rv_api_json_begin(out, "pieces", '[');
        for (size_t i = 0; i < n_tokens; i++)
            add_piece(out, tokens[i], &pieces[i]);
        rv_api_json_end(out, ']');
    }
    rv_api_json_end(out, '}');
}

static void add_text_reply(struct rv_buf *out, const char *object, const char *model, const char *key, const char *text,
                           size_t text_len)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", object);
    rv_api_json_str(out, "model", model);
    rv_api_json_text(out, key, text, text_len);
    rv_api_json_end(out, '}');
}

void rv_api_reply_detokenize(struct rv_buf *out, const char *model, const char *text, size_t text_len)
{
    add_text_reply(out, "text", model, "text", text, text_len);
}

void rv_api_reply_template(struct rv_buf *out, const char *model, const char *prompt, size_t prompt_len)
{
    add_text_reply(out, "prompt", model, "prompt", prompt, prompt_len);
}
