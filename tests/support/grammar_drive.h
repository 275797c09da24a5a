/* What the fuzz targets of grammars do with a text: compile it, and follow an answer of allowed tokens. */
#ifndef RV_TESTS_SUPPORT_GRAMMAR_DRIVE_H
#define RV_TESTS_SUPPORT_GRAMMAR_DRIVE_H

#include "sample/grammar.h"

/*
 * Of how many texts one is followed; the others are compiled to an automaton and no further. Following takes many times
 * what compiling does, so that a campaign, which sees millions of texts, follows a share (fuzz/CMakeLists.txt). Where
 * it is a share, most repetitions are also cut to a few copies once they are read, and answers are shorter.
 */
#ifdef RV_FUZZ_CAMPAIGN
#define GRAMMAR_DRIVE_SHARE 32
#else
#define GRAMMAR_DRIVE_SHARE 1
#endif

/*
 * A text's hash decides whether it is the one of `share` that is followed. Aborts when a promise is broken: a status
 * other than OK, INVALID and NO_MEMORY, an error without a message, a token that was allowed and cannot be followed.
 * *is_whole tells whether the answer in `out` came to an end.
 */
void grammar_drive(enum rv_grammar_kind kind, const char *text, size_t len, uint32_t share, struct rv_buf *out,
                   bool *is_whole);

#endif
