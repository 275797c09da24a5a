/*
 * What the front ends (gbnf.h, regex.h, json_schema.h) write and the automaton is made from: rules, each a tree of
 * literals, classes of characters, sequences, alternatives, repetitions and calls of rules. A machine is a part that
 * somebody else has made an automaton of.
 *
 * A node has one parent; what is wanted in two places is a rule. Running out of room or memory sets `failed`, gives
 * node 0 (which matches the empty text) and is checked once, at the end.
 */
#ifndef RV_SAMPLE_SYNTAX_H
#define RV_SAMPLE_SYNTAX_H

#include "base/buf.h"

#define RV_SYNTAX_MAX_BYTES ((size_t)64 << 10) // of a grammar's text
#define RV_SYNTAX_MAX_DEPTH 100                // of groups, arrays and objects in it
#define RV_SYNTAX_MAX_CP 0x10FFFFu

enum rv_syntax_kind {
    RV_SYNTAX_EMPTY,
    RV_SYNTAX_LITERAL,
    RV_SYNTAX_CLASS,
    RV_SYNTAX_SEQ,
    RV_SYNTAX_ALT, // without children: never matches
    RV_SYNTAX_REPEAT,
    RV_SYNTAX_CALL,
    RV_SYNTAX_MACHINE,
};

/* Characters lo to hi. */
struct rv_syntax_range {
    uint32_t lo, hi;
};

/* Of a machine: a byte from lo to hi leads from one state to another; to -1: the machine may end at `from`. */
struct rv_syntax_edge {
    int32_t from, to;
    uint8_t lo, hi;
};

struct rv_syntax_node {
    enum rv_syntax_kind kind;
    int32_t last; // child; -1: none
    int32_t prev; // sibling before this one; -1: none
    int32_t a;    // literal, class, machine: where its bytes, ranges or edges begin; repeat: least; call: the rule
    int32_t b;    // literal, class, machine: how many; repeat: most, -1: any number
};

struct rv_syntax {
    struct rv_syntax_node *nodes;
    int32_t n_nodes, nodes_cap;
    struct rv_syntax_range *ranges;
    int32_t n_ranges, ranges_cap;
    struct rv_syntax_edge *edges;
    int32_t n_edges, edges_cap;
    int32_t *rules; // each its node; -1: not defined yet. Rule 0 is where a text begins
    int32_t n_rules, rules_cap;
    struct rv_buf bytes;
    ruvllm_status failed; // OK, TOO_LARGE or NO_MEMORY
};

void rv_syntax_init(struct rv_syntax *syntax);
void rv_syntax_release(struct rv_syntax *syntax);
/* OK, or the failure that has stuck. */
RV_CHECKED ruvllm_status rv_syntax_status(const struct rv_syntax *syntax, struct ruvllm_error *err);

/* A rule to be defined later; its number. */
int32_t rv_syntax_rule(struct rv_syntax *syntax);
void rv_syntax_define(struct rv_syntax *syntax, int32_t rule, int32_t node);

int32_t rv_syntax_literal(struct rv_syntax *syntax, const char *bytes, size_t len);
/* One character of the ranges, which may overlap and come in any order; surrogates are left out. */
int32_t rv_syntax_class(struct rv_syntax *syntax, const struct rv_syntax_range *ranges, size_t n);
/* One character that is in none of the ranges. */
int32_t rv_syntax_class_except(struct rv_syntax *syntax, const struct rv_syntax_range *ranges, size_t n);
int32_t rv_syntax_seq(struct rv_syntax *syntax);
int32_t rv_syntax_alt(struct rv_syntax *syntax);
/* Adds a child to a sequence or to alternatives. */
void rv_syntax_add(struct rv_syntax *syntax, int32_t parent, int32_t child);
int32_t rv_syntax_repeat(struct rv_syntax *syntax, int32_t child, int32_t min, int32_t max);
int32_t rv_syntax_call(struct rv_syntax *syntax, int32_t rule);
/* A text that leads through a machine, from its state 0 on. */
int32_t rv_syntax_machine(struct rv_syntax *syntax, const struct rv_syntax_edge *edges, size_t n);
/* Any text up to and with the first `end`. It is a rule of its own, of the number given back. */
int32_t rv_syntax_until(struct rv_syntax *syntax, const char *end);
/* Any text without `end` in it, that may stop anywhere. */
int32_t rv_syntax_without(struct rv_syntax *syntax, const char *end);

#endif
