/*
 * The published pre-tokenizer patterns and PCRE2 to run them.
 *
 * Every pattern here runs in time linear in the text: whatever a failed alternative scanned is consumed by the next
 * one, and where a published pattern does not have that property it is written in an equivalent form that has
 * (noted beside it). Case-insensitive contractions are spelled out, so that U+017F is not taken for an s.
 *
 * Character classes are those of Unicode 15.1 also where PCRE2 is built with the table of 14: ids should not depend on
 * the machine. `\s` is spelled out because PCRE2 counts U+180E in.
 */
#include "text/pretokenize.h"

#include "base/alloc.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define MAX_PATTERNS 8

/* Inside brackets. The ranges are what 15.0 and 15.1 added to 14. */
#define SPACE "\\t-\\r \\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
#define NEW_LETTER                                                                                                     \
    "\\x{1123F}-\\x{11240}\\x{11F02}\\x{11F04}-\\x{11F10}\\x{11F12}-\\x{11F33}\\x{1342F}\\x{13441}-\\x{13446}"         \
    "\\x{1B132}\\x{1B155}\\x{1DF25}-\\x{1DF2A}\\x{1E030}-\\x{1E06D}\\x{1E4D0}-\\x{1E4EB}\\x{2B739}"                    \
    "\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}"
#define LETTER "\\p{L}" NEW_LETTER
#define NUMBER "\\p{N}\\x{11F50}-\\x{11F59}\\x{1D2C0}-\\x{1D2D3}\\x{1E4F0}-\\x{1E4F9}"
#define PUNCTUATION "\\p{P}\\x{11B00}-\\x{11B09}\\x{11F43}-\\x{11F4F}"
#define MARK                                                                                                           \
    "\\p{M}\\x{CF3}\\x{ECE}\\x{10EFD}-\\x{10EFF}\\x{11241}\\x{11F00}-\\x{11F01}\\x{11F03}\\x{11F34}-\\x{11F3A}"        \
    "\\x{11F3E}-\\x{11F42}\\x{13440}\\x{13447}-\\x{13455}\\x{1E08F}\\x{1E4EC}-\\x{1E4EF}"
#define SYMBOL                                                                                                         \
    "\\p{S}\\x{2FFC}-\\x{2FFF}\\x{31EF}\\x{1F6DC}\\x{1F774}-\\x{1F776}\\x{1F77B}-\\x{1F77F}\\x{1F7D9}"                 \
    "\\x{1FA75}-\\x{1FA77}\\x{1FA87}-\\x{1FA88}\\x{1FAAD}-\\x{1FAAF}\\x{1FABB}-\\x{1FABD}\\x{1FABF}"                   \
    "\\x{1FACE}-\\x{1FACF}\\x{1FADA}-\\x{1FADB}\\x{1FAE8}\\x{1FAF7}-\\x{1FAF8}"
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}" NEW_LETTER MARK
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}" NEW_LETTER MARK

/* The letters DeepSeek LLM counts as such: cased scripts. */
#define CASED_LETTER                                                                                                   \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"                    \
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}"             \
    "\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}"                    \
    "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}"                  \
    "\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}"                  \
    "\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}"          \
    "\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}"         \
    "\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}"                   \
    "\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}"                    \
    "\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}"                    \
    "\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}"                   \
    "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}"                  \
    "\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}"                \
    "\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}"                             \
    "\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"

/*
 * DeepSeek's range from U+0800 to U+9FA5. White space in it does not count, nor does U+3000 among the punctuation of
 * DeepSeek LLM: libllama has it so, and the ids are the same unless a token holds such white space beside other
 * characters.
 */
#define EAST_ASIAN                                                                                                     \
    "[\\x{800}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{"    \
    "2FFF}"                                                                                                            \
    "\\x{3001}-\\x{9FA5}\\x{AC00}-\\x{D7FF}]+"

#define CONTRACTION "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
#define NOT_SPACE_AHEAD "(?![^" SPACE "])"
/* What most families since GPT-4 end with: whitespace up to line ends, then the rest of it but for one. */
#define SPACES "[" SPACE "]*[\\r\\n]+|[" SPACE "]+" NOT_SPACE_AHEAD "|[" SPACE "]+"

#define GPT2                                                                                                           \
    "'(?:[stmd]|re|ve|ll)| ?[" LETTER "]+| ?[" NUMBER "]+| ?[^" SPACE LETTER NUMBER "]+|[" SPACE "]+" NOT_SPACE_AHEAD
#define GPT4(digits)                                                                                                   \
    CONTRACTION "|[^\\r\\n" LETTER NUMBER "]?[" LETTER "]+|[" NUMBER "]" digits "| ?[^" SPACE LETTER NUMBER            \
                "]+[\\r\\n]*|" SPACES
/* Words are also cut where upper case follows lower; `suffix` is what may cling to a word. */
#define CASED(suffix, digits)                                                                                          \
    "[^\\r\\n" LETTER NUMBER "]?[" UPPER "]*[" LOWER "]+" suffix "|[^\\r\\n" LETTER NUMBER "]?[" UPPER "]+[" LOWER     \
    "]*" suffix "|[" NUMBER "]" digits "| ?[^" SPACE LETTER NUMBER "]+[\\r\\n/]*|" SPACES

static const char *const default_patterns[] = {"[" PUNCTUATION "$+<=>^~|]+", GPT2, "[" NUMBER "]+", "[0-9]{3}", NULL};
static const char *const gpt2_patterns[] = {GPT2, NULL};
static const char *const digit_patterns[] = {"[" NUMBER "]", GPT2, NULL};
static const char *const falcon_patterns[] = {"[" PUNCTUATION "$+<=>^~|`]+", GPT2, "[0-9]{3}", NULL};
static const char *const llama3_patterns[] = {GPT4("{1,3}"), NULL};
static const char *const qwen2_patterns[] = {GPT4(""), NULL};
static const char *const qwen35_patterns[] = {CONTRACTION "|[^\\r\\n" LETTER NUMBER "]?[" LETTER MARK "]+|[" NUMBER
                                                          "]| ?[^" SPACE LETTER MARK NUMBER "]+[\\r\\n]*|" SPACES,
                                              NULL};
static const char *const tekken_patterns[] = {CASED("", ""), NULL};
static const char *const gpt4o_patterns[] = {CASED("(?:" CONTRACTION ")?", "{1,3}"), NULL};
static const char *const deepseek_coder_patterns[] = {
    "[\\r\\n]", "[" SPACE "]?[" LETTER "]+", "[" SPACE "]?[" PUNCTUATION "]+", EAST_ASIAN, "[" NUMBER "]", NULL};
/* The fourth is published as `\s+$`, which is quadratic on a long run of spaces with something after it. */
static const char *const deepseek_llm_patterns[] = {
    "[\\r\\n]",
    "[" SPACE "]?[" CASED_LETTER "]+",
    "[" SPACE "]?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3001}-\\x{3002}]+",
    "(?<![" SPACE "])[" SPACE "]++\\z",
    EAST_ASIAN,
    "[" NUMBER "]+",
    NULL};
static const char *const deepseek_v3_patterns[] = {"[" NUMBER "]{1,3}",
                                                   "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
                                                   "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n" LETTER PUNCTUATION SYMBOL
                                                   "]?[" LETTER MARK "]+| ?[" PUNCTUATION SYMBOL "]+[\\r\\n]*|" SPACES,
                                                   NULL};
static const char *const line_patterns[] = {"[^\\n]+|\\n+", NULL};

static const struct rv_pretokenize_rules all_rules[] = {
    {.name = "default", .patterns = default_patterns},
    {.name = "gpt-2", .patterns = gpt2_patterns},
    {.name = "phi-2", .patterns = gpt2_patterns},
    {.name = "mpt", .patterns = gpt2_patterns},
    {.name = "olmo", .patterns = gpt2_patterns},
    {.name = "jais", .patterns = gpt2_patterns},
    {.name = "trillion", .patterns = gpt2_patterns},
    {.name = "exaone4", .patterns = gpt2_patterns},
    {.name = "gigachat", .patterns = gpt2_patterns},
    {.name = "mellum", .patterns = gpt2_patterns},
    {.name = "granite-docling", .patterns = gpt2_patterns},
    {.name = "smollm", .patterns = digit_patterns},
    {.name = "starcoder", .patterns = digit_patterns},
    {.name = "refact", .patterns = digit_patterns},
    {.name = "command-r", .patterns = digit_patterns},
    {.name = "codeshell", .patterns = digit_patterns},
    {.name = "exaone", .patterns = digit_patterns},
    {.name = "minerva-7b", .patterns = digit_patterns},
    {.name = "mellum2", .patterns = digit_patterns},
    {.name = "falcon", .patterns = falcon_patterns},
    {.name = "llama3", .patterns = llama3_patterns, .whole_words = true, .adds_bos = true},
    {.name = "llama-v3", .patterns = llama3_patterns, .whole_words = true, .adds_bos = true},
    {.name = "llama-bpe", .patterns = llama3_patterns, .whole_words = true, .adds_bos = true},
    {.name = "falcon3", .patterns = llama3_patterns, .whole_words = true, .adds_bos = true},
    {.name = "falcon-h1", .patterns = llama3_patterns, .whole_words = true, .adds_bos = true},
    {.name = "pixtral", .patterns = llama3_patterns, .whole_words = true, .adds_bos = true},
    {.name = "lfm2", .patterns = llama3_patterns, .whole_words = true, .adds_bos = true},
    {.name = "dbrx", .patterns = llama3_patterns},
    {.name = "smaug-bpe", .patterns = llama3_patterns},
    {.name = "chatglm-bpe", .patterns = llama3_patterns},
    {.name = "glm4", .patterns = llama3_patterns},
    {.name = "qwen2", .patterns = qwen2_patterns},
    {.name = "deepseek-r1-qwen", .patterns = qwen2_patterns},
    {.name = "stablelm2", .patterns = qwen2_patterns},
    {.name = "megrez", .patterns = qwen2_patterns},
    {.name = "hunyuan", .patterns = qwen2_patterns},
    {.name = "solar-open", .patterns = qwen2_patterns},
    {.name = "grok-2", .patterns = qwen2_patterns},
    {.name = "qwen35", .patterns = qwen35_patterns},
    {.name = "tekken", .patterns = tekken_patterns, .whole_words = true, .adds_bos = true},
    {.name = "gpt-4o", .patterns = gpt4o_patterns},
    {.name = "llama4", .patterns = gpt4o_patterns},
    {.name = "kanana2", .patterns = gpt4o_patterns},
    {.name = "minimax-m2", .patterns = gpt4o_patterns},
    {.name = "deepseek-llm", .patterns = deepseek_llm_patterns},
    {.name = "deepseek-coder", .patterns = deepseek_coder_patterns},
    {.name = "deepseek-v3", .patterns = deepseek_v3_patterns},
    {.name = "hunyuan-dense", .patterns = deepseek_v3_patterns},
    {.name = "gemma4", .patterns = line_patterns, .always_adds_bos = true, .raw_utf8 = true},
};

struct rv_pretokenizer {
    const struct rv_pretokenize_rules *rules;
    pcre2_code *codes[MAX_PATTERNS];
    size_t n_codes;
};

static const struct rv_pretokenize_rules *rules_find(struct rv_str name)
{
    for (size_t i = 0; i < sizeof(all_rules) / sizeof(all_rules[0]); i++) {
        if (strlen(all_rules[i].name) == name.len && memcmp(all_rules[i].name, name.data, name.len) == 0)
            return &all_rules[i];
    }
    return NULL;
}

static ruvllm_status compile(struct rv_pretokenizer *pre, const char *pattern, struct ruvllm_error *err)
{
    int code;
    size_t offset;
    pcre2_code *compiled;

    RV_ASSERT(pre->n_codes < MAX_PATTERNS);
    compiled = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &code, &offset, NULL);
    if (!compiled)
        return rv_fail(err, code == PCRE2_ERROR_HEAP_FAILED ? RUVLLM_NO_MEMORY : RUVLLM_INTERNAL,
                       "cannot compile pre-tokenizer '%s': error %d at %zu", pre->rules->name, code, offset);
    pre->codes[pre->n_codes++] = compiled;
    /* Where memory may not become executable this fails, and the same code is interpreted. */
    (void)pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    return RUVLLM_OK;
}

ruvllm_status rv_pretokenize_new(struct rv_pretokenizer **out, struct rv_str name, struct ruvllm_error *err)
{
    struct rv_pretokenizer *pre;
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (name.len == 0)
        name = (struct rv_str){.data = "default", .len = 7};
    pre = rv_calloc(1, sizeof(*pre));
    if (!pre)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate pre-tokenizer");
    pre->rules = rules_find(name);
    if (!pre->rules)
        rc = rv_fail(err, RUVLLM_UNSUPPORTED, "pre-tokenizer '%.*s' is not known", (int)(name.len < 64 ? name.len : 64),
                     name.data);
    for (size_t i = 0; !rc && pre->rules->patterns[i]; i++)
        rc = compile(pre, pre->rules->patterns[i], err);
    if (rc) {
        rv_pretokenize_free(pre);
        return rc;
    }
    *out = pre;
    return RUVLLM_OK;
}

void rv_pretokenize_free(struct rv_pretokenizer *pre)
{
    if (!pre)
        return;
    for (size_t i = 0; i < pre->n_codes; i++)
        pcre2_code_free(pre->codes[i]);
    rv_free(pre);
}

const struct rv_pretokenize_rules *rv_pretokenize_rules(const struct rv_pretokenizer *pre)
{
    return pre->rules;
}

/* One match from `offset` on; false when there is none, *rc telling whether that is because it failed. */
static bool match(const struct rv_pretokenizer *pre, size_t i_code, const char *text, size_t len, size_t offset,
                  pcre2_match_data *data, ruvllm_status *rc, struct ruvllm_error *err)
{
    const pcre2_code *code = pre->codes[i_code];
    int n = pcre2_match(code, (PCRE2_SPTR)text, len, offset, PCRE2_NO_UTF_CHECK, data, NULL);

    /* The compiled code has 32 KiB of stack; the interpreter uses the heap and finds the same match. */
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(code, (PCRE2_SPTR)text, len, offset, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, NULL);
    if (n >= 0)
        return true;
    if (n != PCRE2_ERROR_NOMATCH)
        *rc = rv_fail_kind(err, n == PCRE2_ERROR_NOMEMORY ? RUVLLM_NO_MEMORY : RUVLLM_INTERNAL,
                           RUVLLM_ERROR_TOKENIZATION, "pre-tokenizer '%s' failed with error %d", pre->rules->name, n);
    return false;
}

static void add_end(struct rv_buf *ends, size_t end)
{
    uint32_t value = (uint32_t)end;

    rv_buf_add(ends, &value, sizeof(value));
}

/* Cuts text[start..end) by one pattern: its matches are words, and so is what lies between them. */
static ruvllm_status split_piece(const struct rv_pretokenizer *pre, size_t i_code, const char *text, size_t start,
                                 size_t end, pcre2_match_data *data, struct rv_buf *ends, struct ruvllm_error *err)
{
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(data);
    size_t len = end - start, at = 0;
    ruvllm_status rc = RUVLLM_OK;

    while (at < len && match(pre, i_code, text + start, len, at, data, &rc, err)) {
        RV_ASSERT(found[0] >= at && found[1] > found[0]); // no pattern matches nothing
        if (found[0] > at)
            add_end(ends, start + found[0]);
        at = found[1];
        add_end(ends, start + at);
    }
    if (!rc && at < len)
        add_end(ends, end);
    return rc;
}

ruvllm_status rv_pretokenize_split(const struct rv_pretokenizer *pre, const char *text, size_t len, struct rv_buf *ends,
                                   struct ruvllm_error *err)
{
    struct rv_buf passes[2];
    ruvllm_status rc = RUVLLM_OK;
    pcre2_match_data *data;

    if (len == 0)
        return RUVLLM_OK;
    data = pcre2_match_data_create(1, NULL);
    if (!data)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate match data");
    rv_buf_init(&passes[0], ends->max);
    rv_buf_init(&passes[1], ends->max);
    add_end(&passes[1], len);
    for (size_t i = 0; !rc && i < pre->n_codes; i++) {
        const struct rv_buf *in = &passes[(i + 1) % 2];
        struct rv_buf *out = i + 1 == pre->n_codes ? ends : &passes[i % 2];
        size_t start = 0;

        rv_buf_clear(&passes[i % 2]);
        for (size_t j = 0; !rc && j < in->len / sizeof(uint32_t); j++) {
            size_t end = ((const uint32_t *)(const void *)in->data)[j];
            rc = split_piece(pre, i, text, start, end, data, out, err);
            start = end;
        }
        if (!rc)
            rc = rv_buf_status(in->failed ? in : out, "list of words", err);
    }
    rv_buf_release(&passes[0]);
    rv_buf_release(&passes[1]);
    pcre2_match_data_free(data);
    return rc;
}
