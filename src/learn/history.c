#include "learn/history.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "learn/tick_event.h"
#include "store/store_events.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 64, MAX_BLOCKS = 64, ARENA_MAX = 32 << 20 };

static const uint8_t MARK[8] = {'r', 'v', 'n', 'o', 't', 'e', 0, 1}; // the last byte is the version

/* ---- notes ---------------------------------------------------------------------------------- */

/* Little-endian, as every machine we run on. */
ruvllm_status rv_history_add_note(struct rv_str delta, const struct rv_history_note *note, struct rv_str *out,
                                  struct ruvllm_error *err)
{
    char *bytes = rv_malloc(delta.len + RV_HISTORY_NOTE_BYTES), *at;

    *out = (struct rv_str){0};
    if (!bytes)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", delta.len + RV_HISTORY_NOTE_BYTES);
    if (delta.len)
        memcpy(bytes, delta.data, delta.len);
    at = bytes + delta.len;
    memcpy(at, MARK, sizeof(MARK));
    memcpy(at + 8, &note->generation, 8);
    memcpy(at + 16, &note->advantage, 8);
    memcpy(at + 24, &note->kl, 8);
    memcpy(at + 32, &note->gain, 8);
    *out = (struct rv_str){.data = bytes, .len = delta.len + RV_HISTORY_NOTE_BYTES};
    return RUVLLM_OK;
}

bool rv_history_take_note(struct rv_str *delta, struct rv_history_note *note)
{
    const char *at = delta->len >= RV_HISTORY_NOTE_BYTES ? delta->data + delta->len - RV_HISTORY_NOTE_BYTES : NULL;

    *note = (struct rv_history_note){.generation = -1, .advantage = NAN, .kl = NAN, .gain = NAN};
    if (!at || memcmp(at, MARK, sizeof(MARK)) != 0)
        return false;
    memcpy(&note->generation, at + 8, 8);
    memcpy(&note->advantage, at + 16, 8);
    memcpy(&note->kl, at + 24, 8);
    memcpy(&note->gain, at + 32, 8);
    delta->len -= RV_HISTORY_NOTE_BYTES;
    return true;
}

/* ---- pages ---------------------------------------------------------------------------------- */

/* Some events in the order of the log, of which those of one model are wanted. */
struct block {
    struct rv_arena *arena;
    const char *model;
    int64_t last; // number of the last one that is wanted
    struct rv_history_row rows[BLOCK];
    size_t n;
};

static const char *keep_text(struct rv_arena *arena, struct rv_str text)
{
    static const char more[] = "\xe2\x80\xa6";
    size_t len = text.len;
    char *copy;

    if (len > RV_HISTORY_TEXT_MAX)
        len = rv_utf8_complete_len(text.data, RV_HISTORY_TEXT_MAX);
    copy = rv_arena_alloc(arena, len + sizeof(more));
    if (!copy)
        return "";
    memcpy(copy, len ? text.data : "", len);
    copy[len] = '\0';
    if (len < text.len)
        memcpy(copy + len, more, sizeof(more));
    return copy;
}

static bool is_feedback(enum rv_store_event_kind kind)
{
    return kind == RV_STORE_EVENT_VOTE || kind == RV_STORE_EVENT_CORRECTION || kind == RV_STORE_EVENT_PAIR;
}

/* What the gate goes back to is in what it decided; the event itself has the generation that answered then. */
static int64_t about(const struct rv_store_event *event)
{
    int64_t back = event->kind == RV_STORE_EVENT_GATE ? rv_tick_event_goes_back_to(event->result) : -1;

    return back >= 0 ? back : event->generation;
}

static bool on_event(void *user, const struct rv_store_event *event)
{
    struct block *b = user;
    struct rv_history_row *row = &b->rows[b->n];
    struct rv_str delta = event->delta;

    if (event->seq > b->last || b->n == BLOCK)
        return false;
    if (strcmp(event->model ? event->model : "", b->model) != 0)
        return true;
    *row = (struct rv_history_row){.seq = event->seq,
                                   .time_us = event->time_us,
                                   .about = about(event),
                                   .kind = event->kind,
                                   .is_forgotten = event->is_forgotten,
                                   .score = event->score,
                                   .prompt = keep_text(b->arena, event->prompt),
                                   .answer = keep_text(b->arena, event->answer),
                                   .correction = keep_text(b->arena, event->correction),
                                   .reason = keep_text(b->arena, event->reason)};
    rv_history_take_note(&delta, &row->note);
    if (!is_feedback(event->kind)) // no answer was judged, so none was moved
        row->note.advantage = row->note.kl = row->note.gain = (double)NAN;
    b->n++;
    return !b->arena->failed;
}

/* Goes backwards by blocks of the log, each of which the store reads forwards. */
static ruvllm_status read_blocks(struct rv_history *out, struct ruvllm_store *store, const char *tenant, size_t max,
                                 struct block *b, struct ruvllm_error *err)
{
    ruvllm_status rc = RUVLLM_OK;

    for (int i = 0; i < MAX_BLOCKS && b->last > 0 && out->n < max && !rc; i++) {
        int64_t first = b->last > BLOCK ? b->last - BLOCK : 0;

        b->n = 0;
        rc = rv_store_events_replay(store, tenant, first, on_event, b, err);
        if (!rc && out->arena.failed)
            rc = rv_fail(err, out->arena.failed, "cannot keep %zu events in memory", out->n + b->n);
        while (b->n > 0 && out->n < max)
            out->rows[out->n++] = b->rows[--b->n];
        b->last = b->n > 0 ? b->rows[b->n - 1].seq : first;
    }
    return rc;
}

ruvllm_status rv_history_read(struct rv_history *out, struct ruvllm_store *store, const char *tenant, const char *model,
                              int64_t before, size_t max, struct ruvllm_error *err)
{
    struct block *block;
    ruvllm_status rc;

    *out = (struct rv_history){0};
    rv_arena_init(&out->arena, ARENA_MAX);
    if (before < 0 || max < 1 || max > RV_HISTORY_MAX)
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "a page has 1 to %d events, and begins with a number", RV_HISTORY_MAX);
    out->rows = rv_arena_calloc(&out->arena, max, sizeof(*out->rows));
    block = rv_arena_calloc(&out->arena, 1, sizeof(*block));
    if (!out->rows || !block)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a page of %zu events", max);
    block->arena = &out->arena;
    block->model = model;
    rc = rv_store_events_last(store, tenant, &block->last, err);
    if (!rc && before > 0 && before - 1 < block->last)
        block->last = before - 1;
    if (!rc)
        rc = read_blocks(out, store, tenant, max, block, err);
    out->next = rc || block->last == 0 ? 0 : block->last + 1;
    return rc;
}

void rv_history_release(struct rv_history *history)
{
    rv_arena_release(&history->arena);
    *history = (struct rv_history){0};
}
