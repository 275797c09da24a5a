/*
 * Conditions on a string's value that hold together, as one machine: expressions it has a match of, expressions that
 * must not match at its beginning, and how many characters it may have. What it writes are the insides of JSON strings
 * whose values keep all of them: a part of those that do, since control characters without a short escape are left out.
 */
#ifndef RV_SAMPLE_TEXT_MACHINE_H
#define RV_SAMPLE_TEXT_MACHINE_H

#include "sample/grammar_walk.h"

#define RV_TEXT_MACHINE_MAX_PARTS 6

struct rv_text_machine_part {
    struct rv_automaton automaton;
    struct rv_grammar_walk walk;
    bool is_forbidden;
};

struct rv_text_machine {
    struct rv_text_machine_part *parts[RV_TEXT_MACHINE_MAX_PARTS];
    int32_t n_parts;
    int32_t min, max; // characters; max -1: any number
};

void rv_text_machine_init(struct rv_text_machine *machine, int32_t min, int32_t max);
void rv_text_machine_release(struct rv_text_machine *machine);
/* The value has a match of the expression (regex.h), as "pattern" means it. INVALID for one that cannot be read. */
RV_CHECKED ruvllm_status rv_text_machine_match(struct rv_text_machine *machine, const char *text, size_t len,
                                               struct ruvllm_error *err);
/* A look-ahead at the value's beginning: it begins, or (is_forbidden) does not begin, with a match. */
RV_CHECKED ruvllm_status rv_text_machine_look(struct rv_text_machine *machine, const char *text, size_t len,
                                              bool is_forbidden, struct ruvllm_error *err);
/*
 * At least one match was asked for. *node is the inside of a string. INVALID when it would have too many states, or
 * more than *budget, which is lessened by those it has.
 */
RV_CHECKED ruvllm_status rv_text_machine_write(struct rv_text_machine *machine, struct rv_syntax *syntax,
                                               int32_t *budget, int32_t *node, struct ruvllm_error *err);

#endif
