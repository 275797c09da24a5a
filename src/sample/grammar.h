/*
 * What an answer must look like, and which tokens keep it so. A grammar is made from a text in one of three languages
 * and one vocabulary; a matcher follows one answer and tells, before every token, which are allowed.
 *
 * Threads: a grammar is made by any thread. Matchers of one grammar share what was found out about its rules, so they
 * are used by one thread at a time: the one that chooses tokens. Making and freeing them is free to any thread.
 *
 * What it costs: a rule's broad states (the inside of a string) are compared with the whole vocabulary once and kept,
 * but for the few tokens that go on after the rule has ended, which are walked each time. Narrow states are walked.
 */
#ifndef RV_SAMPLE_GRAMMAR_H
#define RV_SAMPLE_GRAMMAR_H

#include "sample/syntax.h"
#include "sample/token_trie.h"
#include "sample/tool_grammar.h"

enum rv_grammar_kind {
    RV_GRAMMAR_GBNF,        // gbnf.h
    RV_GRAMMAR_REGEX,       // regex.h: the whole answer matches it
    RV_GRAMMAR_JSON_SCHEMA, // json_schema.h
    RV_GRAMMAR_JSON_OBJECT, // any JSON object; there is no text
    RV_GRAMMAR_TOOLS,       // tool_grammar.h
};

/* Whether the model may think before the part that has a shape. */
enum rv_grammar_thought {
    RV_GRAMMAR_NO_THOUGHT,
    RV_GRAMMAR_MAY_THINK, // "<think>", then anything up to "</think>"
    RV_GRAMMAR_THINKS,    // the prompt has opened it: anything up to "</think>"
};

struct rv_grammar_source {
    enum rv_grammar_kind kind;
    const char *text;
    size_t len;
    enum rv_grammar_thought thought;
    struct rv_tool_grammar_wish tools; // of that kind
};

struct rv_grammar;
struct rv_grammar_matcher;

/*
 * INVALID for a text that is no such grammar, is over RV_SYNTAX_MAX_BYTES or RV_SYNTAX_MAX_DEPTH, uses what is not
 * supported (which is named) or grows too large. The trie is borrowed and outlives the grammar.
 */
RV_CHECKED ruvllm_status rv_grammar_new(struct rv_grammar **out, const struct rv_grammar_source *source,
                                        const struct rv_token_trie *trie, struct ruvllm_error *err);
/* The same from rules that somebody else has written; rule 0 is where an answer begins. */
RV_CHECKED ruvllm_status rv_grammar_new_from(struct rv_grammar **out, const struct rv_syntax *syntax,
                                             const struct rv_token_trie *trie, struct ruvllm_error *err);
struct rv_grammar *rv_grammar_ref(struct rv_grammar *grammar);
void rv_grammar_unref(struct rv_grammar *grammar);
/* Writes the source's rules, beginning with rule 0, into an empty syntax. `vocab` may be NULL (tool_grammar.h). */
RV_CHECKED ruvllm_status rv_grammar_write(struct rv_syntax *syntax, const struct rv_grammar_source *source,
                                          const struct rv_vocab *vocab, struct ruvllm_error *err);

/* Takes a reference. Everything it needs is allocated here. */
RV_CHECKED ruvllm_status rv_grammar_matcher_new(struct rv_grammar_matcher **out, struct rv_grammar *grammar,
                                                struct ruvllm_error *err);
void rv_grammar_matcher_free(struct rv_grammar_matcher *matcher);
/*
 * A bit for each of the vocabulary's tokens, 64 to a word, 1 where it is allowed; valid until the next call. Tokens
 * that end an answer are allowed where it may end. GENERATION errors: no token is allowed, or finding out takes too
 * long.
 */
RV_CHECKED ruvllm_status rv_grammar_matcher_mask(struct rv_grammar_matcher *matcher, const uint64_t **bits,
                                                 struct ruvllm_error *err);
/* Gives every logit of a token that is not allowed the value -INFINITY; n_vocab may be more than the vocabulary has. */
RV_CHECKED ruvllm_status rv_grammar_matcher_apply(struct rv_grammar_matcher *matcher, float *logits, size_t n_vocab,
                                                  struct ruvllm_error *err);
/*
 * Follows a token; one that was not allowed is INTERNAL, and the matcher stays where it was. INVALID when the grammar
 * leaves too many ways open behind it.
 */
RV_CHECKED ruvllm_status rv_grammar_matcher_accept(struct rv_grammar_matcher *matcher, int32_t token,
                                                   struct ruvllm_error *err);
/*
 * How many of the tokens, one after the other, fit what comes next; the matcher stays where it was. Fewer are told
 * where finding out takes more room than there is, and none behind a token that ends an answer.
 */
int32_t rv_grammar_matcher_foresee(struct rv_grammar_matcher *matcher, const int32_t *tokens, int32_t n);
/* Follows bytes; false, and it stays where it was, when they do not fit. */
bool rv_grammar_matcher_read(struct rv_grammar_matcher *matcher, const char *bytes, size_t len);
/* The answer may end here. */
bool rv_grammar_matcher_may_end(const struct rv_grammar_matcher *matcher);
/* The answer must end here: nothing may follow. */
bool rv_grammar_matcher_is_complete(const struct rv_grammar_matcher *matcher);

#endif
