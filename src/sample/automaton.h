/*
 * The automaton over bytes that every grammar becomes: states of a few kinds, made once and then only read. Rules are
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
    RV_AUTOMATON_COUNT, // of a repetition: state a while there may be more, and what follows when it is enough; b:
                        // which
    RV_AUTOMATON_AGAIN, // of repetition b: one more has been read; back to a, which is its COUNT
};

struct rv_automaton_state {
    uint8_t kind;
    uint8_t lo, hi;
    uint8_t is_useful; // the rule can end from here
    int32_t a, b;
};

/*
 * A repetition whose child is written once and counted, not written out: a child that reads something, calls nothing
 * and has neither options nor repetitions of its own but those of a fixed count, such as one character of a class.
 */
struct rv_automaton_count {
    int32_t least, most; // most -1: any number
    int32_t head;        // its COUNT
    int32_t next;        // what follows
    int32_t first, end;  // states of the child; those of other repetitions are none of them
    int32_t like;        // the first repetition of the same child; its states stand in the same order
};

struct rv_automaton {
    struct rv_automaton_state *states;
    int32_t n_states;
    struct rv_automaton_count *counts; // by where their states are
    int32_t n_counts;
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
/* The repetition whose child a state belongs to; -1: none. */
int32_t rv_automaton_count_of(const struct rv_automaton *automaton, int32_t state);

#endif
