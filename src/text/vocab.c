/*
 * The vocabulary: checks what the file claims, fills in what it leaves unsaid, and hands text to the tokenizer of its
 * family between the special tokens. How tokens look, special tokens are found and words are merged is elsewhere
 * (token_table, special_split, bpe, spm).
 */
#include "text/vocab.h"

#include "base/alloc.h"
#include "text/bpe.h"
#include "text/special_split.h"
#include "text/spm.h"
#include "text/token_names.h"

#include <stdio.h>
#include <string.h>

#define MAX_TEXT_LEN ((size_t)64 << 20)

struct rv_vocab {
    struct rv_token_table table;
    struct rv_special_split specials;
    struct rv_pretokenizer *pre; // BPE only
    struct rv_bpe bpe;
    struct rv_spm spm;
    bool is_spm;
    bool adds_bos;
    bool adds_eos;
    bool adds_space;
    int32_t bos;
    int32_t eos;
    char description[48];
};

static bool flag(enum rv_tristate said, bool unsaid)
{
    return said == RV_UNSET ? unsaid : said == RV_YES;
}

static ruvllm_status check_id(const struct rv_vocab_spec *spec, const char *what, int32_t id, struct ruvllm_error *err)
{
    if (id < -1 || (id >= 0 && (size_t)id >= spec->n_tokens))
        return rv_fail(err, RUVLLM_FORMAT, "%s token %d is not one of the %zu tokens", what, (int)id, spec->n_tokens);
    return RUVLLM_OK;
}

static ruvllm_status check_ids(const struct rv_vocab_spec *spec, struct ruvllm_error *err)
{
    const struct {
        const char *what;
        int32_t id;
    } ids[] = {{"BOS", spec->bos},     {"EOS", spec->eos},     {"EOT", spec->eot},      {"EOM", spec->eom},
               {"unknown", spec->unk}, {"padding", spec->pad}, {"separator", spec->sep}};
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; !rc && i < sizeof(ids) / sizeof(ids[0]); i++)
        rc = check_id(spec, ids[i].what, ids[i].id, err);
    return rc;
}

/* What SentencePiece numbers them unless told otherwise; -1 in a vocabulary without that many tokens. */
static int32_t usual_id(const struct rv_vocab_spec *spec, int32_t id, int32_t usual)
{
    return id < 0 && (size_t)usual < spec->n_tokens ? usual : id;
}

static ruvllm_status open_spm(struct rv_vocab *vocab, const struct rv_vocab_spec *spec, struct ruvllm_error *err)
{
    ruvllm_status rc = rv_token_table_init(&vocab->table, spec, false, err);

    vocab->is_spm = true;
    vocab->bos = usual_id(spec, spec->bos, 1);
    vocab->eos = usual_id(spec, spec->eos, 2);
    vocab->adds_bos = flag(spec->add_bos, true);
    vocab->adds_space = flag(spec->add_space_prefix, true);
    if (!rc)
        rc = rv_spm_init(&vocab->spm, &vocab->table, spec->scores, usual_id(spec, spec->unk, 0), err);
    snprintf(vocab->description, sizeof(vocab->description), "spm");
    return rc;
}

static ruvllm_status open_bpe(struct rv_vocab *vocab, const struct rv_vocab_spec *spec, struct rv_str pre,
                              struct ruvllm_error *err)
{
    const struct rv_pretokenize_rules *rules;
    ruvllm_status rc = rv_pretokenize_new(&vocab->pre, pre, err);

    if (rc)
        return rc;
    rules = rv_pretokenize_rules(vocab->pre);
    rc = rv_token_table_init(&vocab->table, spec, !rules->raw_utf8, err);
    if (rc)
        return rc;
    if (spec->n_merges == 0 || !spec->merges)
        return rv_fail(err, RUVLLM_FORMAT, "vocabulary has no merges");
    vocab->bos = spec->bos;
    vocab->eos = spec->eos;
    vocab->adds_bos = flag(spec->add_bos, rules->adds_bos) || rules->always_adds_bos;
    snprintf(vocab->description, sizeof(vocab->description), "bpe/%s", rules->name);
    return rv_bpe_init(&vocab->bpe, &vocab->table, vocab->pre, spec->merges, spec->n_merges, err);
}

static ruvllm_status open_family(struct rv_vocab *vocab, const struct rv_vocab_spec *spec, struct ruvllm_error *err)
{
    if (rv_token_names_equal(spec->model, "llama"))
        return open_spm(vocab, spec, err);
    if (rv_token_names_equal(spec->model, "gpt2"))
        return open_bpe(vocab, spec, spec->pre, err);
    if (rv_token_names_equal(spec->model, "gemma4"))
        return open_bpe(vocab, spec, spec->model, err);
    return rv_fail(err, RUVLLM_UNSUPPORTED, "tokenizer model '%.*s' is not known",
                   (int)(spec->model.len < 64 ? spec->model.len : 64), spec->model.data);
}

/* Tokens the file says end an answer, beside those whose spelling does. */
static void mark_ends(struct rv_vocab *vocab, const struct rv_vocab_spec *spec)
{
    const int32_t ends[] = {vocab->eos, spec->eot, spec->eom};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (ends[i] >= 0)
            vocab->table.attrs[ends[i]] |= RV_TOKEN_ATTR_END;
    }
}

ruvllm_status rv_vocab_new(struct rv_vocab **out, const struct rv_vocab_spec *spec, struct ruvllm_error *err)
{
    struct rv_vocab *vocab;
    ruvllm_status rc;

    *out = NULL;
    vocab = rv_calloc(1, sizeof(*vocab));
    if (!vocab)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate vocabulary");
    rc = check_ids(spec, err);
    if (!rc)
        rc = open_family(vocab, spec, err);
    if (!rc)
        rc = rv_special_split_init(&vocab->specials, &vocab->table, err);
    if (rc) {
        rv_vocab_free(vocab);
        return rv_fail_in(err, rc, "cannot use vocabulary");
    }
    mark_ends(vocab, spec);
    vocab->adds_eos = flag(spec->add_eos, false) && vocab->eos >= 0;
    vocab->adds_bos = vocab->adds_bos && vocab->bos >= 0;
    *out = vocab;
    return RUVLLM_OK;
}

void rv_vocab_free(struct rv_vocab *vocab)
{
    if (!vocab)
        return;
    rv_special_split_release(&vocab->specials);
    rv_bpe_release(&vocab->bpe);
    rv_spm_release(&vocab->spm);
    rv_pretokenize_free(vocab->pre);
    rv_token_table_release(&vocab->table);
    rv_free(vocab);
}

/* One run of ordinary text. It stands at the start or right after a special token, so it begins a word. */
static ruvllm_status encode_run(const struct rv_vocab *vocab, const char *text, size_t len, struct rv_buf *ids,
                                struct ruvllm_error *err)
{
    if (len == 0)
        return RUVLLM_OK;
    if (vocab->is_spm)
        return rv_spm_encode(&vocab->spm, text, len, vocab->adds_space, ids, err);
    return rv_bpe_encode(&vocab->bpe, text, len, ids, err);
}

/* The text between special tokens, and these. */
static ruvllm_status encode_cuts(const struct rv_vocab *vocab, const char *text, size_t len,
                                 const struct rv_special_cut *cuts, size_t n_cuts, struct rv_buf *ids,
                                 struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;
    size_t at = 0;

    for (size_t i = 0; !rc && i < n_cuts; i++) {
        rc = encode_run(vocab, text + at, cuts[i].start - at, ids, err);
        rv_buf_add(ids, &cuts[i].id, sizeof(cuts[i].id));
        at = cuts[i].end;
    }
    return rc ? rc : encode_run(vocab, text + at, len - at, ids, err);
}

ruvllm_status rv_vocab_encode(const struct rv_vocab *vocab, const char *text, size_t len, const uint8_t *user_mask,
                              uint32_t flags, int32_t **ids, size_t *n_ids, struct ruvllm_error *err)
{
    struct rv_buf list, cuts;
    ruvllm_status rc = RUVLLM_OK;
    bool add_special = flags & RV_ENCODE_ADD_SPECIAL;

    *ids = NULL;
    *n_ids = 0;
    if (len > MAX_TEXT_LEN)
        return rv_fail_kind(err, RUVLLM_TOO_LARGE, RUVLLM_ERROR_TOKENIZATION, "text of %zu bytes is larger than %zu",
                            len, MAX_TEXT_LEN);
    rv_buf_init(&list, (3 * len + 3) * sizeof(int32_t)); // U+FFFD for a byte may take three tokens; a space, BOS, EOS
    rv_buf_init(&cuts, len * sizeof(struct rv_special_cut));
    if (add_special && vocab->adds_bos)
        rv_buf_add(&list, &vocab->bos, sizeof(vocab->bos));
    if (len > 0)
        rc = rv_special_split_find(&vocab->specials, text, len, user_mask, flags & RV_ENCODE_PARSE_SPECIAL, &cuts, err);
    if (!rc && len > 0)
        rc = encode_cuts(vocab, text, len, (const struct rv_special_cut *)(const void *)cuts.data,
                         cuts.len / sizeof(struct rv_special_cut), &list, err);
    if (add_special && vocab->adds_eos)
        rv_buf_add(&list, &vocab->eos, sizeof(vocab->eos));
    if (!rc)
        rc = rv_buf_status(&list, "list of tokens", err);
    if (!rc) {
        *n_ids = list.len / sizeof(int32_t);
        *ids = (int32_t *)(void *)rv_buf_take(&list, NULL);
        if (!*ids)
            rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate list of tokens");
    }
    rv_buf_release(&list);
    rv_buf_release(&cuts);
    return rc;
}

static bool is_known(const struct rv_vocab *vocab, int32_t id)
{
    return id >= 0 && (size_t)id < vocab->table.n_tokens;
}

struct rv_str rv_vocab_piece(const struct rv_vocab *vocab, int32_t id, bool with_special)
{
    if (!is_known(vocab, id) || (!with_special && rv_token_table_is_guarded(&vocab->table, id)))
        return (struct rv_str){.data = "", .len = 0};
    return vocab->table.pieces[id];
}

void rv_vocab_decode(const struct rv_vocab *vocab, const int32_t *ids, size_t n_ids, bool with_special,
                     struct rv_buf *out)
{
    bool strip = vocab->adds_space;

    for (size_t i = 0; i < n_ids; i++) {
        struct rv_str piece = rv_vocab_piece(vocab, ids[i], with_special);
        if (strip && is_known(vocab, ids[i]) && !rv_token_table_is_guarded(&vocab->table, ids[i])) {
            if (piece.len > 0 && piece.data[0] == ' ') {
                piece.data++;
                piece.len--;
            }
            strip = false;
        }
        rv_buf_add(out, piece.data, piece.len);
    }
}

size_t rv_vocab_n_tokens(const struct rv_vocab *vocab)
{
    return vocab->table.n_tokens;
}

size_t rv_vocab_max_piece(const struct rv_vocab *vocab)
{
    return vocab->table.max_shown_len;
}

bool rv_vocab_adds_space(const struct rv_vocab *vocab)
{
    return vocab->adds_space;
}

enum rv_token_type rv_vocab_type(const struct rv_vocab *vocab, int32_t id)
{
    /* A token may have two: one that the file calls ordinary and its spelling a control token is the latter. */
    static const enum rv_token_type order[] = {RV_TOKEN_CONTROL, RV_TOKEN_UNKNOWN, RV_TOKEN_USER_DEFINED,
                                               RV_TOKEN_BYTE,    RV_TOKEN_UNUSED,  RV_TOKEN_NORMAL};

    for (size_t i = 0; is_known(vocab, id) && i < sizeof(order) / sizeof(order[0]); i++) {
        if (vocab->table.attrs[id] & RV_TOKEN_ATTR(order[i]))
            return order[i];
    }
    return RV_TOKEN_UNDEFINED;
}

int32_t rv_vocab_bos(const struct rv_vocab *vocab)
{
    return vocab->bos;
}

int32_t rv_vocab_eos(const struct rv_vocab *vocab)
{
    return vocab->eos;
}

bool rv_vocab_adds_bos(const struct rv_vocab *vocab)
{
    return vocab->adds_bos;
}

bool rv_vocab_is_eog(const struct rv_vocab *vocab, int32_t id)
{
    return is_known(vocab, id) && vocab->table.attrs[id] & RV_TOKEN_ATTR_END;
}

const char *rv_vocab_description(const struct rv_vocab *vocab)
{
    return vocab->description;
}
