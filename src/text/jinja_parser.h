/*
 * Tokens to a tree. Every node has the same shape; what its fields mean is written beside its kind. Lists
 * (statements, arguments, elements) are chained through `next`. Nesting is bounded, so the tree can be walked
 * by recursion: chains that grow to the left (a ~ b ~ c, x.y.z|f|g) do not count, their walker must loop.
 */
#ifndef RV_TEXT_JINJA_PARSER_H
#define RV_TEXT_JINJA_PARSER_H

#include "base/arena.h"
#include "base/str.h"

#include <stdint.h>

#define RV_JINJA_MAX_DEPTH 64

enum rv_jinja_kind {
    /* statements */
    RV_JINJA_TEXT,       // text
    RV_JINJA_OUTPUT,     // a: expression
    RV_JINJA_IF,         // a: condition, body, otherwise (an elif is a lone IF in there)
    RV_JINJA_FOR,        // a: target, b: iterable, c: condition or NULL, body, otherwise
    RV_JINJA_SET,        // a: target (NAME, TUPLE of NAMEs or MEMBER), b: value
    RV_JINJA_MACRO,      // text: name, a: parameters (NAME, with b: default or NULL), body
    RV_JINJA_CALL_BLOCK, // a: CALL, b: parameters as in MACRO, body
    RV_JINJA_BREAK,
    RV_JINJA_CONTINUE,
    /* expressions */
    RV_JINJA_STRING,  // text
    RV_JINJA_INTEGER, // integer
    RV_JINJA_FLOAT,   // real
    RV_JINJA_BOOLEAN, // integer
    RV_JINJA_NULL,
    RV_JINJA_NAME,    // text
    RV_JINJA_LIST,    // a: elements
    RV_JINJA_TUPLE,   // a: elements
    RV_JINJA_DICT,    // a: KEYWORDs with a: value, b: key
    RV_JINJA_CAPTURE, // body, rendered into a string
    RV_JINJA_TERNARY, // a: value, b: condition, c: other value or NULL
    RV_JINJA_UNARY,   // op, a
    RV_JINJA_BINARY,  // op, a, b
    RV_JINJA_MEMBER,  // a.text
    RV_JINJA_INDEX,   // a[b]
    RV_JINJA_SLICE,   // a[b:c:d], each may be NULL
    RV_JINJA_CALL,    // a(b: arguments)
    RV_JINJA_FILTER,  // a|text(b: arguments)
    RV_JINJA_TEST,    // a is text(b: arguments); op NOT when negated
    /* arguments */
    RV_JINJA_KEYWORD,     // text=a
    RV_JINJA_SPREAD,      // *a
    RV_JINJA_SPREAD_DICT, // **a
};

enum rv_jinja_op {
    RV_JINJA_OP_NONE,
    RV_JINJA_OP_OR,
    RV_JINJA_OP_AND,
    RV_JINJA_OP_NOT,
    RV_JINJA_OP_EQ,
    RV_JINJA_OP_NE,
    RV_JINJA_OP_LT,
    RV_JINJA_OP_LE,
    RV_JINJA_OP_GT,
    RV_JINJA_OP_GE,
    RV_JINJA_OP_IN,
    RV_JINJA_OP_NOT_IN,
    RV_JINJA_OP_ADD,
    RV_JINJA_OP_SUB,
    RV_JINJA_OP_CONCAT,
    RV_JINJA_OP_MUL,
    RV_JINJA_OP_DIV,
    RV_JINJA_OP_FLOOR_DIV,
    RV_JINJA_OP_MOD,
    RV_JINJA_OP_POW,
};

struct rv_jinja_node {
    enum rv_jinja_kind kind;
    enum rv_jinja_op op;
    int line;
    struct rv_str text;
    struct rv_jinja_node *a, *b, *c, *d;
    struct rv_jinja_node *body, *otherwise;
    struct rv_jinja_node *next;
    struct rv_jinja_node *up; // the node whose `a` this is, where such nodes form a chain to the left
    int64_t integer;
    double real;
};

/*
 * Parses source[0..len), which must outlive the tree. The nodes live in `arena`. *root is the first statement,
 * NULL for an empty template. A failure is INVALID with the line.
 */
RV_CHECKED ruvllm_status rv_jinja_parse(const char *source, size_t len, struct rv_arena *arena,
                                        struct rv_jinja_node **root, struct ruvllm_error *err);

#endif
