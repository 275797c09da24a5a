/*
 * Input to token ids. The one rule that matters: what a user wrote is never read as a control token. Conversations
 * are rendered with a mask telling the template's own bytes from the user's, and the tokenizer obeys it.
 */
#include "engine/input.h"

#include "base/alloc.h"

#include <string.h>

enum { MAX_RENDERED = 1 << 20, MAX_MESSAGES = 1 << 16 };

/* What templates of every input have in common. */
static ruvllm_status render(const struct ruvllm_model *model, struct rv_chat_render *what, struct rv_buf *text,
                            struct rv_buf *user_mask, struct ruvllm_error *err)
{
    what->add_generation_prompt = true;
    what->bos_token = rv_vocab_piece(model->vocab, rv_vocab_bos(model->vocab), true);
    what->eos_token = rv_vocab_piece(model->vocab, rv_vocab_eos(model->vocab), true);
    return rv_chat_template_render(model->chat_template, what, text, user_mask, err);
}

static ruvllm_status check_template(const struct ruvllm_model *model, struct ruvllm_error *err)
{
    if (!model->template_source)
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_GENERATION,
                            "the model has no chat template; give it plain text instead");
    if (!model->chat_template)
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_GENERATION,
                            "the model's chat template cannot be used: %s", model->template_error.message);
    return RUVLLM_OK;
}

ruvllm_status rv_input_render(const struct ruvllm_model *model, const struct ruvllm_message *messages,
                              size_t n_messages, struct rv_buf *text, struct rv_buf *user_mask,
                              struct ruvllm_error *err)
{
    struct rv_chat_render what = {.n_messages = n_messages};
    struct rv_chat_message *list;
    ruvllm_status rc = check_template(model, err);

    if (rc)
        return rc;
    if (n_messages == 0 || n_messages > MAX_MESSAGES)
        return rv_fail(err, RUVLLM_INVALID, "a conversation needs between 1 and %d messages", MAX_MESSAGES);
    list = rv_calloc(n_messages, sizeof(*list));
    if (!list)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a conversation of %zu messages", n_messages);
    for (size_t i = 0; i < n_messages && !rc; i++) {
        if (!messages[i].role || !messages[i].content)
            rc = rv_fail(err, RUVLLM_INVALID, "message %zu has no role or no content", i + 1);
        list[i] = (struct rv_chat_message){.role = messages[i].role, .content = messages[i].content};
    }
    what.messages = list;
    if (!rc)
        rc = render(model, &what, text, user_mask, err);
    rv_free(list);
    return rc;
}

/* Templates that write BOS themselves and tokenizers that add it would make two. */
static bool starts_with_bos(const struct ruvllm_model *model, const struct rv_buf *text)
{
    struct rv_str bos = rv_vocab_piece(model->vocab, rv_vocab_bos(model->vocab), true);

    return bos.len > 0 && text->len >= bos.len && memcmp(text->data, bos.data, bos.len) == 0;
}

static ruvllm_status conversation_tokens(const struct ruvllm_model *model, const struct ruvllm_input *input,
                                         int32_t **tokens, size_t *n_tokens, struct ruvllm_error *err)
{
    struct rv_buf text, mask;
    uint32_t flags = RV_ENCODE_PARSE_SPECIAL;
    ruvllm_status rc;

    rv_buf_init(&text, MAX_RENDERED);
    rv_buf_init(&mask, MAX_RENDERED);
    if (input->conversation) {
        struct rv_chat_render what = {.json = input->conversation, .json_len = input->conversation_len};

        rc = check_template(model, err);
        if (!rc)
            rc = render(model, &what, &text, &mask, err);
    } else {
        rc = rv_input_render(model, input->messages, input->n_messages, &text, &mask, err);
    }
    if (!rc) {
        if (!starts_with_bos(model, &text))
            flags |= RV_ENCODE_ADD_SPECIAL;
        rc = rv_vocab_encode(model->vocab, text.data ? text.data : "", text.len, (const uint8_t *)mask.data, flags,
                             tokens, n_tokens, err);
    }
    rv_buf_release(&text);
    rv_buf_release(&mask);
    return rc;
}

static ruvllm_status copy_tokens(const struct ruvllm_model *model, const struct ruvllm_input *input, int32_t **tokens,
                                 size_t *n_tokens, struct ruvllm_error *err)
{
    size_t n_vocab = model->device ? (size_t)model->hparams.n_vocab : rv_vocab_n_tokens(model->vocab);

    for (size_t i = 0; i < input->n_tokens; i++) {
        if (input->tokens[i] < 0 || (size_t)input->tokens[i] >= n_vocab)
            return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_TOKENIZATION,
                                "token %d at place %zu is not in the vocabulary of %zu", input->tokens[i], i, n_vocab);
    }
    *tokens = rv_realloc_array(NULL, input->n_tokens, sizeof(**tokens));
    if (!*tokens)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu tokens", input->n_tokens);
    if (input->n_tokens)
        memcpy(*tokens, input->tokens, input->n_tokens * sizeof(**tokens));
    *n_tokens = input->n_tokens;
    return RUVLLM_OK;
}

ruvllm_status rv_input_tokens(const struct ruvllm_model *model, const struct ruvllm_input *input, int32_t **tokens,
                              size_t *n_tokens, struct ruvllm_error *err)
{
    uint32_t flags = 0;

    *tokens = NULL;
    *n_tokens = 0;
    if ((input->text != NULL) + (input->messages != NULL) + (input->tokens != NULL) + (input->conversation != NULL) !=
        1)
        return rv_fail(err, RUVLLM_INVALID, "give exactly one of text, messages, tokens and conversation");
    if (input->messages || input->conversation)
        return conversation_tokens(model, input, tokens, n_tokens, err);
    if (input->tokens)
        return copy_tokens(model, input, tokens, n_tokens, err);
    if (!input->no_bos)
        flags |= RV_ENCODE_ADD_SPECIAL;
    if (input->text_is_trusted)
        flags |= RV_ENCODE_PARSE_SPECIAL;
    return rv_vocab_encode(model->vocab, input->text, input->text_len, NULL, flags, tokens, n_tokens, err);
}
