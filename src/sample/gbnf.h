/*
 * Grammars in GBNF, the notation of llama.cpp's grammars:
 *
 *     root   ::= greeting ", " name "!"   # a rule per line; the answer is a `root`
 *     name   ::= [A-Z] [a-z]{1,20}
 *     greeting ::= "Hello" | "Good " ("morning" | "evening")
 *
 * Literals in double quotes, classes in brackets, `.` for any character, groups, `|`, `*`, `+`, `?` and `{m,n}`.
 * Escapes: \n \r \t \\ \" \[ \] \- \xHH \uHHHH \UHHHHHHHH, all of which name characters. Inside a group a rule may go
 * on on the next line, and everywhere a line may begin with `|`.
 */
#ifndef RV_SAMPLE_GBNF_H
#define RV_SAMPLE_GBNF_H

#include "sample/syntax.h"

/* Writes the rules into `syntax`; *rule is the number of `root`. INVALID with the line for anything else. */
RV_CHECKED ruvllm_status rv_gbnf_read(struct rv_syntax *syntax, const char *text, size_t len, int32_t *rule,
                                      struct ruvllm_error *err);

#endif
