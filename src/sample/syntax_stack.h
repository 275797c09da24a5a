/*
 * What the readers of GBNF and of regular expressions share: groups inside each other, alternatives and repetitions,
 * written into a syntax as they are met. Depth is bounded by RV_SYNTAX_MAX_DEPTH; nothing recurses.
 */
#ifndef RV_SAMPLE_SYNTAX_STACK_H
#define RV_SAMPLE_SYNTAX_STACK_H

#include "sample/syntax.h"

#define RV_SYNTAX_STACK_MAX_COUNT 100000 // of a repetition

struct rv_syntax_stack_level {
    int32_t ways; // the alternatives
    int32_t way;  // the one being read
    int32_t item; // read last, which a repetition may still follow; -1: none
};

struct rv_syntax_stack {
    struct rv_syntax *syntax;
    int32_t depth; // of open groups
    struct rv_syntax_stack_level levels[RV_SYNTAX_MAX_DEPTH + 1];
};

void rv_syntax_stack_init(struct rv_syntax_stack *stack, struct rv_syntax *syntax);
void rv_syntax_stack_item(struct rv_syntax_stack *stack, int32_t node);
/* The next alternative begins. */
void rv_syntax_stack_or(struct rv_syntax_stack *stack);
/* False: too deep. */
bool rv_syntax_stack_open(struct rv_syntax_stack *stack);
/* False: none is open. */
bool rv_syntax_stack_close(struct rv_syntax_stack *stack);
/* False: there is nothing to repeat. `max` -1: any number. */
bool rv_syntax_stack_repeat(struct rv_syntax_stack *stack, int32_t min, int32_t max);
/* The whole, once every group is closed. */
int32_t rv_syntax_stack_end(struct rv_syntax_stack *stack);

/*
 * Reads "{m}", "{m,}", "{,n}" or "{m,n}" at text[*at], which is the brace. False, with *at unchanged, when it is none,
 * when a count is over RV_SYNTAX_STACK_MAX_COUNT, or when the least is more than the most.
 */
bool rv_syntax_stack_counts(const char *text, size_t len, size_t *at, int32_t *min, int32_t *max);
/* Reads `n` hexadecimal digits at text[*at]; false when there are not that many. */
bool rv_syntax_stack_hex(const char *text, size_t len, size_t *at, int n, uint32_t *out);

#endif
