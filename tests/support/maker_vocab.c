/*
 * Tokenizers. The made-up one is SentencePiece's kind: three control tokens, all 256 bytes, then words spelled in
 * a..z; any text has a tokenization through the bytes. A copied one may only grow, by tokens nobody spells.
 */
#include "support/maker_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gguf.h>

enum token_kind { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_UNUSED = 5, TOKEN_BYTE = 6 };

enum { TOKEN_BYTES = 24 };

struct token_list {
    char (*texts)[TOKEN_BYTES];
    const char **pointers;
    int32_t *kinds;
    float *scores;
};

static ruvllm_status token_list_init(struct token_list *list, int32_t n, struct ruvllm_error *err)
{
    size_t count = (size_t)n;

    list->texts = calloc(count, sizeof(*list->texts));
    list->pointers = calloc(count, sizeof(*list->pointers));
    list->kinds = calloc(count, sizeof(*list->kinds));
    list->scores = calloc(count, sizeof(*list->scores));
    if (!list->texts || !list->pointers || !list->kinds || !list->scores)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %d tokens", n);
    return RUVLLM_OK;
}

static void token_list_release(struct token_list *list)
{
    free(list->texts);
    free(list->pointers);
    free(list->kinds);
    free(list->scores);
}

/* The i-th word over a..z, shortest first; every second one starts with SentencePiece's space. */
static void spell_word(char *out, int32_t i)
{
    char letters[8];
    size_t n = 0, at = 0;
    int32_t rest = i / 2;

    do {
        letters[n++] = (char)('a' + rest % 26);
        rest = rest / 26 - 1;
    } while (rest >= 0 && n < sizeof(letters));
    if (i % 2 == 0) {
        memcpy(out, "\xe2\x96\x81", 3);
        at = 3;
    }
    while (n > 0)
        out[at++] = letters[--n];
    out[at] = '\0';
}

static void invent_token(struct token_list *list, int32_t i)
{
    static const char *const control[] = {"<unk>", "<s>", "</s>"};
    char *text = list->texts[i];

    if (i < 3)
        snprintf(text, TOKEN_BYTES, "%s", control[i]);
    else if (i < 3 + 256)
        snprintf(text, TOKEN_BYTES, "<0x%02X>", (unsigned)(i - 3));
    else
        spell_word(text, i - 3 - 256);
    list->kinds[i] = i == 0 ? TOKEN_UNKNOWN : i < 3 ? TOKEN_CONTROL : i < 3 + 256 ? TOKEN_BYTE : TOKEN_NORMAL;
    list->scores[i] = i < 3 + 256 ? 0.0f : -(float)(i - 3 - 256);
    list->pointers[i] = text;
}

static ruvllm_status invent(struct gguf_context *gguf, const struct maker_spec *spec, struct ruvllm_error *err)
{
    struct token_list list = {0};
    size_t n = (size_t)spec->n_vocab;
    ruvllm_status rc;

    if (spec->n_vocab < 3 + 256 + 1)
        return rv_fail(err, RUVLLM_INVALID, "a made-up vocabulary has at least 260 tokens");
    rc = token_list_init(&list, spec->n_vocab, err);
    if (rc == RUVLLM_OK) {
        for (int32_t i = 0; i < spec->n_vocab; i++)
            invent_token(&list, i);
        gguf_set_val_str(gguf, "tokenizer.ggml.model", "llama");
        gguf_set_val_str(gguf, "tokenizer.ggml.pre", "default");
        gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", list.pointers, n);
        gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, list.scores, n);
        gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, list.kinds, n);
        gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", 1);
        gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", 2);
        gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", 0);
        gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", true);
        gguf_set_val_bool(gguf, "tokenizer.ggml.add_eos_token", false);
    }
    token_list_release(&list);
    return rc;
}

/* Keeps only the keys of the tokenizer: what else describes the donor is not this model's. */
static void drop_foreign_keys(struct gguf_context *gguf)
{
    int64_t i = 0;

    while (i < gguf_get_n_kv(gguf)) {
        const char *key = gguf_get_key(gguf, i);

        if (strncmp(key, "tokenizer.", 10) == 0)
            i++;
        else
            gguf_remove_key(gguf, key);
    }
}

/* Writes the token arrays anew, with unused tokens after the `n_old` there are. */
static ruvllm_status pad(struct gguf_context *gguf, const struct gguf_context *donor, int32_t n_old, int32_t n_new,
                         struct ruvllm_error *err)
{
    int64_t tokens = gguf_find_key(donor, "tokenizer.ggml.tokens");
    int64_t kinds = gguf_find_key(donor, "tokenizer.ggml.token_type");
    int64_t scores = gguf_find_key(donor, "tokenizer.ggml.scores");
    struct token_list list = {0};
    ruvllm_status rc = token_list_init(&list, n_new, err);

    for (int32_t i = 0; rc == RUVLLM_OK && i < n_new; i++) {
        bool is_old = i < n_old;

        snprintf(list.texts[i], TOKEN_BYTES, "[PAD%d]", i);
        list.pointers[i] = is_old ? gguf_get_arr_str(donor, tokens, (size_t)i) : list.texts[i];
        list.kinds[i] = !is_old      ? TOKEN_UNUSED
                        : kinds >= 0 ? ((const int32_t *)gguf_get_arr_data(donor, kinds))[i]
                                     : TOKEN_NORMAL;
        list.scores[i] = is_old && scores >= 0 ? ((const float *)gguf_get_arr_data(donor, scores))[i] : -1000.0f;
    }
    if (rc == RUVLLM_OK) {
        gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", list.pointers, (size_t)n_new);
        gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, list.kinds, (size_t)n_new);
        if (scores >= 0)
            gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, list.scores, (size_t)n_new);
    }
    token_list_release(&list);
    return rc;
}

static ruvllm_status copy(struct gguf_context *gguf, struct maker_spec *spec, struct ruvllm_error *err)
{
    struct gguf_init_params params = {.no_alloc = true, .ctx = NULL};
    struct gguf_context *donor = gguf_init_from_file(spec->vocab_from, params);
    int64_t tokens = donor ? gguf_find_key(donor, "tokenizer.ggml.tokens") : -1;
    ruvllm_status rc = RUVLLM_OK;

    if (tokens < 0) {
        rc = rv_fail(err, RUVLLM_FORMAT, "'%s' is no GGUF file with a vocabulary", spec->vocab_from);
    } else {
        int32_t n_old = (int32_t)gguf_get_arr_n(donor, tokens);

        gguf_set_kv(gguf, donor);
        drop_foreign_keys(gguf);
        if (spec->n_vocab > n_old)
            rc = pad(gguf, donor, n_old, spec->n_vocab, err);
        else
            spec->n_vocab = n_old;
    }
    gguf_free(donor);
    return rc;
}

ruvllm_status maker_vocab_write(struct gguf_context *gguf, struct maker_spec *spec, struct ruvllm_error *err)
{
    return spec->vocab_from[0] ? copy(gguf, spec, err) : invent(gguf, spec, err);
}
