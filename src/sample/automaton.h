/*
 * The automaton over bytes that every grammar becomes: states of five kinds, made once and then only read. Rules are
 * called and returned from; how a text runs through it is grammar_walk.h.
 */
#ifndef RV_SAMPLE_AUTOMATON_H
#define RV_SAMPLE_AUTOMATON_H

#include "sample/syntax.h"

enum rv_automaton_kind {
    RV_AUTOMATON_BYTE,  // a byte from lo to hi leads to a
    RV_AUTOMATON_SPLIT, // a or b, without a byte; b is -1: only a
    RV_AUTOMATON_CALL,  // state a, and when its rule ends state b
    RV_AUTOMATON_END,   // of the rule
};

struct rv_automaton_state {
    uint8_t kind;
    uint8_t lo, hi;
    uint8_t is_useful; // the rule can end from here
    int32_t a, b;
};

struct rv_automaton {
    struct rv_automaton_state *states;
    int32_t n_states;
    int32_t start;
    int32_t n_classes;     // of bytes that no state tells apart
    uint8_t class_of[256]; // by byte
    uint8_t byte_of[256];  // one byte of each class
};

/*
 * INVALID for a rule that calls itself before it has read anything, for one that can never end from the start on, and
 * for what would need more than a few hundred thousand states. The syntax is not needed afterwards.
 */
RV_CHECKED ruvllm_status rv_automaton_init(struct rv_automaton *automaton, const struct rv_syntax *syntax,
                                           struct ruvllm_error *err);
void rv_automaton_release(struct rv_automaton *automaton);

#endif
