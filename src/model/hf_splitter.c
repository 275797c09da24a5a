/* Recognising, never interpreting: each known form is compared whole. */
#include "model/hf_splitter.h"

#include "model/gguf_value.h"

#include <string.h>

#include <yyjson.h>

#define SPACE_MARK "\xE2\x96\x81" // U+2581

#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define GPT4(digits)                                                                                                   \
    CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits                                                         \
                "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(suffix, digits)                                                                                          \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" suffix "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" suffix           \
    "|\\p{N}" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The patterns as published, and the name they have here with and without "ignore_merges"; NULL: no such model. */
static const struct {
    const char *regex;
    const char *merging;
    const char *whole_words;
} patterns[] = {
    {GPT4("{1,3}"), "dbrx", "llama-bpe"},
    {GPT4(""), "qwen2", NULL},
    {CASED("", ""), NULL, "tekken"},
    {CASED(CONTRACTION "?", "{1,3}"), "gpt-4o", NULL},
};

static yyjson_val *member(yyjson_val *object, const char *name)
{
    yyjson_val *value = yyjson_obj_get(object, name);

    return yyjson_is_null(value) ? NULL : value;
}

static bool is_type(yyjson_val *object, const char *type)
{
    return yyjson_equals_str(member(object, "type"), type);
}

static ruvllm_status fail_unknown(const char *what, yyjson_val *object, struct ruvllm_error *err)
{
    yyjson_val *type = member(object, "type");
    char label[RV_GGUF_VALUE_LABEL] = "?";

    if (yyjson_is_str(type))
        rv_gguf_value_label(yyjson_get_str(type), yyjson_get_len(type), label);
    return rv_fail(err, RUVLLM_UNSUPPORTED, "the tokenizer's %s ('%s') is not one known here", what, label);
}

/* The n-th of a sequence, or the object itself as the only one; NULL past the end. */
static yyjson_val *step_at(yyjson_val *object, const char *list, size_t index)
{
    if (!is_type(object, "Sequence"))
        return index == 0 ? object : NULL;
    return yyjson_arr_get(member(object, list), index);
}

/* ---- byte level ---------------------------------------------------------------------------- */

/* NFC is let pass: text that is not in that form is cut as it is, as everywhere in this engine. */
static ruvllm_status check_byte_normalizer(yyjson_val *root, struct ruvllm_error *err)
{
    yyjson_val *normalizer = member(root, "normalizer"), *step;

    for (size_t i = 0; (step = step_at(normalizer, "normalizers", i)); i++) {
        if (!is_type(step, "NFC"))
            return fail_unknown("normalizer", step, err);
    }
    return RUVLLM_OK;
}

static bool is_plain_byte_level(yyjson_val *step, bool cuts)
{
    yyjson_val *regex = member(step, "use_regex");

    return is_type(step, "ByteLevel") && !yyjson_is_true(member(step, "add_prefix_space")) &&
           cuts == !yyjson_is_false(regex);
}

/* Matches are words, and so is what lies between them. Removing what is not matched is the same for these patterns,
 * which match everything. */
static bool is_cutting_split(yyjson_val *step)
{
    yyjson_val *behavior = member(step, "behavior");
    bool invert = yyjson_is_true(member(step, "invert"));

    return is_type(step, "Split") &&
           ((yyjson_equals_str(behavior, "Isolated") && !invert) || (yyjson_equals_str(behavior, "Removed") && invert));
}

static const char *find_pattern(yyjson_val *step, bool whole_words)
{
    yyjson_val *regex = member(member(step, "pattern"), "Regex");

    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        if (yyjson_equals_str(regex, patterns[i].regex))
            return whole_words ? patterns[i].whole_words : patterns[i].merging;
    }
    return NULL;
}

static ruvllm_status read_byte_level(struct rv_hf_splitter *out, yyjson_val *root, struct ruvllm_error *err)
{
    yyjson_val *pre = member(root, "pre_tokenizer");
    yyjson_val *first = step_at(pre, "pretokenizers", 0), *second = step_at(pre, "pretokenizers", 1);
    bool whole_words = yyjson_is_true(member(member(root, "model"), "ignore_merges"));
    ruvllm_status rc = check_byte_normalizer(root, err);

    if (rc)
        return rc;
    if (step_at(pre, "pretokenizers", 2))
        return fail_unknown("pre-tokenizer", step_at(pre, "pretokenizers", 2), err);
    if (is_plain_byte_level(first, true) && !second && !whole_words)
        out->pre = "gpt-2";
    else if (is_type(first, "Digits") && yyjson_is_true(member(first, "individual_digits")) &&
             is_plain_byte_level(second, true) && !whole_words)
        out->pre = "smollm";
    else if (is_cutting_split(first) && is_plain_byte_level(second, false))
        out->pre = find_pattern(first, whole_words);
    return out->pre ? RUVLLM_OK : fail_unknown("pre-tokenizer", first ? first : pre, err);
}

/* ---- pieces -------------------------------------------------------------------------------- */

static bool is_space_replacement(yyjson_val *step)
{
    return is_type(step, "Replace") && yyjson_equals_str(member(member(step, "pattern"), "String"), " ") &&
           yyjson_equals_str(member(step, "content"), SPACE_MARK);
}

/* Spaces that the normalizer has replaced are no longer there to be split at. */
static bool is_split_at_nothing(yyjson_val *pre)
{
    return is_type(pre, "Split") && yyjson_equals_str(member(member(pre, "pattern"), "String"), " ") &&
           yyjson_equals_str(member(pre, "behavior"), "MergedWithPrevious");
}

static ruvllm_status read_pieces(struct rv_hf_splitter *out, yyjson_val *root, struct ruvllm_error *err)
{
    yyjson_val *normalizer = member(root, "normalizer"), *pre = member(root, "pre_tokenizer");
    yyjson_val *first = step_at(normalizer, "normalizers", 0), *second = step_at(normalizer, "normalizers", 1);
    yyjson_val *scheme = member(pre, "prepend_scheme");

    if (!first && is_type(pre, "Metaspace")) {
        if (!yyjson_equals_str(member(pre, "replacement"), SPACE_MARK) || !yyjson_is_false(member(pre, "split")))
            return fail_unknown("pre-tokenizer", pre, err);
        out->adds_space = !yyjson_equals_str(scheme, "never");
        if (!scheme)
            out->adds_space = !yyjson_is_false(member(pre, "add_prefix_space"));
        return RUVLLM_OK;
    }
    if (pre && !is_split_at_nothing(pre))
        return fail_unknown("pre-tokenizer", pre, err);
    if (step_at(normalizer, "normalizers", 2))
        return fail_unknown("normalizer", step_at(normalizer, "normalizers", 2), err);
    if (is_space_replacement(first) && !second)
        return RUVLLM_OK;
    out->adds_space = is_type(first, "Prepend") && yyjson_equals_str(member(first, "prepend"), SPACE_MARK);
    if (out->adds_space && is_space_replacement(second))
        return RUVLLM_OK;
    return fail_unknown("normalizer", first ? first : normalizer, err);
}

ruvllm_status rv_hf_splitter_read(struct rv_hf_splitter *out, struct yyjson_val *root, struct ruvllm_error *err)
{
    *out = (struct rv_hf_splitter){.is_byte_level = !yyjson_is_true(member(member(root, "model"), "byte_fallback"))};
    return out->is_byte_level ? read_byte_level(out, root, err) : read_pieces(out, root, err);
}
