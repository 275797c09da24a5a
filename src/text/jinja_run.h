/*
 * One rendering under way: its memory, its budget and what it has written. Everything that evaluates takes it
 * first. It carries the caller's `err`, so the functions here and in the other jinja_* files that can fail
 * return a status only; rv_jinja_fail() adds the line.
 *
 * Text is built in one place, the tail of the output: take a mark, emit pieces, and cut what came after the
 * mark off into a string. Each byte has a mask byte beside it: 1 when it is a user's, 0 when the template's.
 */
#ifndef RV_TEXT_JINJA_RUN_H
#define RV_TEXT_JINJA_RUN_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

#include <stdint.h>

/* Blocks, calls and operands within each other. A macro calling a macro takes about five: twelve in a row fit. */
#define RV_JINJA_MAX_EVAL_DEPTH 128

struct rv_jinja_limits {
    size_t steps;        // nodes evaluated, plus one for every 256 bytes touched
    size_t output_bytes; // also of any single string
    size_t memory_bytes; // of all values
};

struct rv_jinja_string {
    const char *data;
    const unsigned char *mask; // NULL: all the template's
    size_t len;
};

struct rv_jinja_run {
    struct rv_arena arena;
    struct rv_buf text, mask; // equally long
    struct rv_jinja_limits limits;
    size_t steps_left;
    int depth;
    int line;
    const char *builtin; // the filter or test at work, named in failures; NULL: none
    int64_t now;         // seconds since 1970, for strftime_now
    uint64_t hash_seed;
    struct ruvllm_error *err;
};

/* 1,000,000 steps, 1 MiB of output, 64 MiB of values. */
extern const struct rv_jinja_limits rv_jinja_limits_default;

void rv_jinja_run_init(struct rv_jinja_run *run, const struct rv_jinja_limits *limits, struct ruvllm_error *err);
void rv_jinja_run_release(struct rv_jinja_run *run);

/* INVALID, with the line before the message. */
ruvllm_status rv_jinja_fail(struct rv_jinja_run *run, const char *format, ...) RV_PRINTF(2, 3);
/* Uses up steps; INVALID when none are left. */
RV_CHECKED ruvllm_status rv_jinja_charge(struct rv_jinja_run *run, size_t steps);
/* Uses up steps for `bytes` bytes looked at or copied. */
RV_CHECKED ruvllm_status rv_jinja_charge_bytes(struct rv_jinja_run *run, size_t bytes);
/* One level deeper into blocks, calls and nested values; pairs with rv_jinja_leave. */
RV_CHECKED ruvllm_status rv_jinja_enter(struct rv_jinja_run *run);
void rv_jinja_leave(struct rv_jinja_run *run);

/* n zeroed elements that live as long as the run; NULL when the bound is reached: return rv_jinja_no_memory(). */
void *rv_jinja_alloc(struct rv_jinja_run *run, size_t n, size_t size);
ruvllm_status rv_jinja_no_memory(struct rv_jinja_run *run);

RV_CHECKED ruvllm_status rv_jinja_emit(struct rv_jinja_run *run, struct rv_jinja_string text);
/* The template's own bytes. */
RV_CHECKED ruvllm_status rv_jinja_emit_bytes(struct rv_jinja_run *run, const char *data, size_t len);
/* `data` in place of bytes whose mask is `mask`, as when a character is escaped. */
RV_CHECKED ruvllm_status rv_jinja_emit_as(struct rv_jinja_run *run, const char *data, size_t len, unsigned char mask);
size_t rv_jinja_mark(const struct rv_jinja_run *run);
RV_CHECKED ruvllm_status rv_jinja_cut(struct rv_jinja_run *run, size_t mark, struct rv_jinja_string *out);

#endif
