/* Budget, memory and output of one rendering. Whatever bound is hit, the answer is one INVALID with a sentence. */
#include "text/jinja_run.h"

#include "base/rng.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const struct rv_jinja_limits rv_jinja_limits_default = {
    .steps = 1000000,
    .output_bytes = (size_t)1 << 20,
    .memory_bytes = (size_t)64 << 20,
};

void rv_jinja_run_init(struct rv_jinja_run *run, const struct rv_jinja_limits *limits, struct ruvllm_error *err)
{
    *run = (struct rv_jinja_run){
        .limits = *limits,
        .steps_left = limits->steps,
        .now = (int64_t)time(NULL),
        .hash_seed = rv_rng_seed_from_system(),
        .err = err,
    };
    rv_arena_init(&run->arena, limits->memory_bytes);
    rv_buf_init(&run->text, limits->output_bytes);
    rv_buf_init(&run->mask, limits->output_bytes);
}

void rv_jinja_run_release(struct rv_jinja_run *run)
{
    rv_arena_release(&run->arena);
    rv_buf_release(&run->text);
    rv_buf_release(&run->mask);
}

ruvllm_status rv_jinja_fail(struct rv_jinja_run *run, const char *format, ...)
{
    char message[200];
    va_list args;

    va_start(args, format);
    if (vsnprintf(message, sizeof(message), format, args) < 0)
        message[0] = '\0';
    va_end(args);
    if (run->builtin)
        return rv_fail_kind(run->err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION, "line %d: %s: %s", run->line,
                            run->builtin, message);
    return rv_fail_kind(run->err, RUVLLM_INVALID, RUVLLM_ERROR_GENERATION, "line %d: %s", run->line, message);
}

ruvllm_status rv_jinja_charge(struct rv_jinja_run *run, size_t steps)
{
    if (steps > run->steps_left) {
        run->steps_left = 0;
        return rv_jinja_fail(run, "the template takes more than %zu steps", run->limits.steps);
    }
    run->steps_left -= steps;
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_charge_bytes(struct rv_jinja_run *run, size_t bytes)
{
    return rv_jinja_charge(run, bytes / 256);
}

ruvllm_status rv_jinja_enter(struct rv_jinja_run *run)
{
    if (run->depth >= RV_JINJA_MAX_EVAL_DEPTH)
        return rv_jinja_fail(run, "the template nests deeper than %d", RV_JINJA_MAX_EVAL_DEPTH);
    run->depth++;
    return RUVLLM_OK;
}

void rv_jinja_leave(struct rv_jinja_run *run)
{
    run->depth--;
}

void *rv_jinja_alloc(struct rv_jinja_run *run, size_t n, size_t size)
{
    return rv_arena_calloc(&run->arena, n, size);
}

ruvllm_status rv_jinja_no_memory(struct rv_jinja_run *run)
{
    if (run->arena.failed == RUVLLM_NO_MEMORY)
        return rv_fail(run->err, RUVLLM_NO_MEMORY, "cannot allocate memory for the chat template");
    return rv_jinja_fail(run, "the template needs more than %zu bytes of memory", run->limits.memory_bytes);
}

static ruvllm_status check_output(struct rv_jinja_run *run)
{
    ruvllm_status failed = run->text.failed ? run->text.failed : run->mask.failed;

    if (failed == RUVLLM_NO_MEMORY)
        return rv_fail(run->err, RUVLLM_NO_MEMORY, "cannot allocate memory for the chat template");
    if (failed)
        return rv_jinja_fail(run, "the template writes more than %zu bytes", run->limits.output_bytes);
    return RUVLLM_OK;
}

static ruvllm_status emit(struct rv_jinja_run *run, const char *data, size_t len, const unsigned char *mask,
                          unsigned char fill)
{
    ruvllm_status rc = rv_jinja_charge_bytes(run, len);

    if (rc || len == 0)
        return rc;
    rv_buf_add(&run->text, data, len);
    if (mask) {
        rv_buf_add(&run->mask, mask, len);
    } else if (rv_buf_reserve(&run->mask, len)) {
        memset(run->mask.data + run->mask.len, fill, len);
        run->mask.len += len;
    }
    return check_output(run);
}

ruvllm_status rv_jinja_emit(struct rv_jinja_run *run, struct rv_jinja_string text)
{
    return emit(run, text.data, text.len, text.mask, 0);
}

ruvllm_status rv_jinja_emit_bytes(struct rv_jinja_run *run, const char *data, size_t len)
{
    return emit(run, data, len, NULL, 0);
}

ruvllm_status rv_jinja_emit_as(struct rv_jinja_run *run, const char *data, size_t len, unsigned char mask)
{
    return emit(run, data, len, NULL, mask);
}

size_t rv_jinja_mark(const struct rv_jinja_run *run)
{
    return run->text.len;
}

ruvllm_status rv_jinja_cut(struct rv_jinja_run *run, size_t mark, struct rv_jinja_string *out)
{
    size_t len = run->text.len - mark;
    char *data;
    unsigned char *mask = NULL;

    *out = (struct rv_jinja_string){.data = "", .len = len};
    if (len == 0)
        return RUVLLM_OK;
    data = rv_arena_alloc(&run->arena, len);
    if (!data)
        return rv_jinja_no_memory(run);
    memcpy(data, run->text.data + mark, len);
    out->data = data;
    /* Most strings are wholly the template's: they need no mask. */
    if (memchr(run->mask.data + mark, 1, len)) {
        mask = rv_arena_alloc(&run->arena, len);
        if (!mask)
            return rv_jinja_no_memory(run);
        memcpy(mask, run->mask.data + mark, len);
        out->mask = mask;
    }
    run->text.len = mark;
    run->mask.len = mark;
    return RUVLLM_OK;
}
