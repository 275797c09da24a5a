/* Grammars over a small vocabulary, and which texts they take. */
#ifndef RV_TESTS_SUPPORT_GRAMMAR_FIXTURE_H
#define RV_TESTS_SUPPORT_GRAMMAR_FIXTURE_H

#include "sample/grammar.h"
#include "support/tiny_vocab.h"

struct grammar_fixture {
    struct tiny_vocab tiny;
    struct rv_vocab *vocab;
    struct rv_token_trie *trie;
};

/* All bytes, and some longer tokens; fails the case when it cannot be made. */
void grammar_fixture_init(struct grammar_fixture *fixture);
void grammar_fixture_release(struct grammar_fixture *fixture);
/* Fails the case, with the message, when the text is no such grammar. */
struct rv_grammar *grammar_fixture_new(const struct grammar_fixture *fixture, enum rv_grammar_kind kind,
                                       const char *text);
/* Whether the grammar takes the whole of `text`. */
bool grammar_fixture_takes(struct rv_grammar *grammar, const char *text);
/* As one call; `grammar` is made and freed. */
bool grammar_fixture_matches(const struct grammar_fixture *fixture, enum rv_grammar_kind kind, const char *grammar,
                             const char *text);
/* Fails the case unless making the grammar is INVALID within 100 ms with a message that has `message` in it. */
void grammar_fixture_refuses(const struct grammar_fixture *fixture, enum rv_grammar_kind kind, const char *text,
                             const char *message);

#endif
