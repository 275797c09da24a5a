/*
 * schema_judge: reads {"schema": ..., "texts": ["...", ...], "answers": n, "seed": s} from standard input, one object a
 * line, and writes one a line: {"error": "..."} when the schema is refused, else {"takes": [true, ...], "answers":
 * ["...", ...]}: which of the texts its grammar takes, and random answers under it that came to an end, of tokens of a
 * small vocabulary. It stands between our schemas and validators in schema_suite.mjs and schema_answers.mjs.
 */
#include "base/alloc.h"
#include "base/rng.h"
#include "sample/grammar.h"
#include "support/tiny_vocab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

enum { MAX_STEPS = 600, EAGER_END = 3 };

static struct rv_token_trie *make_trie(struct tiny_vocab *tiny, struct rv_vocab **vocab)
{
    static const char *const words[] = {"\",", "\"}", "\":", "{\"", "true", "null",
                                        "ab",  "abc", "\"a", "12",  "}}",   "[]"};
    struct rv_token_trie *trie;

    tiny_vocab_bpe(tiny, "gpt-2");
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        (void)tiny_vocab_add(tiny, words[i], RV_TOKEN_NORMAL, 0);
    if (rv_vocab_new(vocab, &tiny->spec, NULL) || rv_token_trie_new(&trie, *vocab, NULL))
        exit(1);
    return trie;
}

static bool takes(struct rv_grammar *g, yyjson_val *text)
{
    struct rv_grammar_matcher *m;
    bool taken;

    if (rv_grammar_matcher_new(&m, g, NULL))
        return false;
    taken = rv_grammar_matcher_read(m, yyjson_get_str(text), yyjson_get_len(text)) && rv_grammar_matcher_may_end(m);
    rv_grammar_matcher_free(m);
    return taken;
}

/* Bytes that close something are preferred, so that most answers come to an end. */
static int32_t pick(const uint64_t *bits, const struct rv_token_trie *trie, struct rv_rng *rng)
{
    static const char closing[] = "\"}]";
    int32_t token;

    if (rv_rng_below(rng, EAGER_END) == 0)
        for (const char *c = closing; *c; c++)
            for (int32_t i = 0; i < 256; i++) {
                uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];

                if (bits[i / 64] >> (i % 64) & 1 && rv_token_trie_bytes(trie, i, bytes) == 1 && bytes[0] == *c)
                    return i;
            }
    do
        token = (int32_t)rv_rng_below(rng, (uint32_t)trie->n_tokens);
    while (!(bits[token / 64] >> (token % 64) & 1));
    return token;
}

/* False: it was cut off. */
static bool answer(struct rv_grammar *g, const struct rv_token_trie *trie, struct rv_rng *rng, struct rv_buf *out)
{
    struct rv_grammar_matcher *m;
    bool is_whole = false;

    if (rv_grammar_matcher_new(&m, g, NULL))
        return false;
    for (int i = 0; i < MAX_STEPS && !is_whole; i++) {
        uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];
        const uint64_t *bits;
        int32_t token;

        if (rv_grammar_matcher_mask(m, &bits, NULL))
            break;
        token = pick(bits, trie, rng);
        is_whole = rv_vocab_is_eog(trie->vocab, token);
        if (!is_whole && rv_grammar_matcher_accept(m, token, NULL))
            abort(); // it was allowed
        if (!is_whole)
            rv_buf_add(out, bytes, rv_token_trie_bytes(trie, token, bytes));
    }
    rv_grammar_matcher_free(m);
    return is_whole;
}

static void judge(const struct rv_token_trie *trie, yyjson_val *task, yyjson_mut_doc *doc, yyjson_mut_val *reply)
{
    size_t len = 0, n_answers = (size_t)yyjson_get_uint(yyjson_obj_get(task, "answers"));
    char *text = yyjson_val_write(yyjson_obj_get(task, "schema"), YYJSON_WRITE_NOFLAG, &len);
    struct rv_grammar_source source = {.kind = RV_GRAMMAR_JSON_SCHEMA, .text = text, .len = len};
    yyjson_arr_iter texts = yyjson_arr_iter_with(yyjson_obj_get(task, "texts"));
    yyjson_mut_val *list;
    struct ruvllm_error err;
    struct rv_grammar *g;
    struct rv_rng rng;
    yyjson_val *one;

    if (rv_grammar_new(&g, &source, trie, &err)) {
        yyjson_mut_obj_add_strcpy(doc, reply, "error", err.message);
        free(text);
        return;
    }
    list = yyjson_mut_obj_add_arr(doc, reply, "takes");
    while ((one = yyjson_arr_iter_next(&texts)))
        yyjson_mut_arr_add_bool(doc, list, takes(g, one));
    list = yyjson_mut_obj_add_arr(doc, reply, "answers");
    rv_rng_init(&rng, yyjson_get_uint(yyjson_obj_get(task, "seed")));
    for (size_t i = 0; i < n_answers; i++) {
        struct rv_buf out;

        rv_buf_init(&out, 1 << 20);
        if (answer(g, trie, &rng, &out))
            yyjson_mut_arr_add_strncpy(doc, list, out.len ? out.data : "", out.len);
        rv_buf_release(&out);
    }
    rv_grammar_unref(g);
    free(text);
}

int main(void)
{
    static struct tiny_vocab tiny;
    struct rv_vocab *vocab;
    struct rv_token_trie *trie = make_trie(&tiny, &vocab);
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;

    while ((len = getline(&line, &cap, stdin)) > 0) {
        yyjson_doc *task = yyjson_read(line, (size_t)len, 0);
        yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
        yyjson_mut_val *reply = yyjson_mut_obj(doc);
        char *text;

        if (!task)
            return 1;
        yyjson_mut_doc_set_root(doc, reply);
        judge(trie, yyjson_doc_get_root(task), doc, reply);
        text = yyjson_mut_write(doc, YYJSON_WRITE_NOFLAG, NULL);
        printf("%s\n", text ? text : "null"); // bytes that are no text cannot be written
        free(text);
        yyjson_mut_doc_free(doc);
        yyjson_doc_free(task);
    }
    free(line);
    rv_token_trie_free(trie);
    rv_vocab_free(vocab);
    return 0;
}
