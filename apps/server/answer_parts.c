/*
 * One state for each part. Marks are looked for byte by byte: `held` is the longest end of the text that begins the
 * mark; what can no longer be part of it is handed on.
 */
#include "server/answer_parts.h"

#include <string.h>

void rv_answer_parts_init(struct rv_answer_parts *parts, const struct ruvllm_tool_style *style, bool may_think,
                          bool is_thinking)
{
    *parts = (struct rv_answer_parts){.has_tools = style != NULL};
    if (style)
        parts->style = *style;
    parts->state = is_thinking ? RV_ANSWER_THOUGHT : may_think ? RV_ANSWER_BEGIN : RV_ANSWER_TEXT;
    if (parts->state == RV_ANSWER_TEXT && style && !style->open[0])
        parts->state = RV_ANSWER_GAP; // a call is what begins with a brace
}

static void hand_on(struct rv_answer_parts *p, const char *text, size_t len, const struct rv_answer_parts_sink *sink)
{
    if (len == 0)
        return;
    if (p->state == RV_ANSWER_THOUGHT)
        sink->thought(sink->user, text, len);
    else
        sink->said(sink->user, text, len);
}

/* Feeds a byte to the search for `mark`; true when it is complete. */
static bool find_mark(struct rv_answer_parts *p, const char *mark, char byte, const struct rv_answer_parts_sink *sink)
{
    size_t len = strlen(mark), drop = 0;

    p->held[p->n_held++] = byte;
    while (drop < p->n_held && memcmp(p->held + drop, mark, p->n_held - drop) != 0)
        drop++;
    if (sink)
        hand_on(p, p->held, drop, sink);
    p->n_held -= drop;
    memmove(p->held, p->held + drop, p->n_held);
    if (p->n_held < len)
        return false;
    p->n_held = 0;
    return true;
}

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

static void take_begin(struct rv_answer_parts *p, char byte, const struct rv_answer_parts_sink *sink)
{
    static const char mark[] = "<think>";

    p->held[p->n_held++] = byte;
    if (memcmp(p->held, mark, p->n_held) != 0) { // it says something at once
        char held[sizeof(p->held)];
        size_t n = p->n_held;

        memcpy(held, p->held, n);
        p->n_held = 0;
        p->state = p->has_tools && !p->style.open[0] ? RV_ANSWER_GAP : RV_ANSWER_TEXT;
        rv_answer_parts_add(p, held, n, sink);
    } else if (p->n_held == sizeof(mark) - 1) {
        p->n_held = 0;
        p->state = RV_ANSWER_THOUGHT;
    }
}

/* Behind a thought, or at the start where a brace is a call: white space belongs to neither. */
static void take_gap(struct rv_answer_parts *p, char byte, const struct rv_answer_parts_sink *sink)
{
    if (is_space(byte))
        return;
    p->state = p->has_tools && !p->style.open[0] && byte == '{' ? RV_ANSWER_HEAD : RV_ANSWER_TEXT;
    rv_answer_parts_add(p, &byte, 1, sink);
}

static void take_name(struct rv_answer_parts *p, char byte, const struct rv_answer_parts_sink *sink)
{
    if (byte != '"') {
        if (p->n_name < RV_ANSWER_PARTS_NAME)
            p->name[p->n_name++] = byte;
        return;
    }
    p->name[p->n_name] = '\0';
    p->n_name = 0;
    p->n_key = strlen(", \"") + strlen(p->style.arguments) + strlen("\": ");
    p->state = RV_ANSWER_KEY;
    sink->called(sink->user, p->n_calls++, p->name);
}

/* Follows brackets outside of strings; true when the arguments are complete with this byte. */
static bool is_last(struct rv_answer_parts *p, char byte)
{
    if (p->in_string) {
        p->in_string = p->is_escaped || byte != '"';
        p->is_escaped = !p->is_escaped && byte == '\\';
        return false;
    }
    p->in_string = byte == '"';
    if (byte == '{' || byte == '[')
        p->depth++;
    else if (byte == '}' || byte == ']')
        p->depth--;
    return p->depth == 0;
}

/* As much of the arguments as there is, in one piece; returns how much that was. */
static size_t take_arguments(struct rv_answer_parts *p, const char *text, size_t len,
                             const struct rv_answer_parts_sink *sink)
{
    size_t n = 0;

    while (n < len && p->state == RV_ANSWER_ARGUMENTS)
        if (is_last(p, text[n++]))
            p->state = RV_ANSWER_HEAD;
    sink->arguments(sink->user, p->n_calls - 1, text, n);
    return n;
}

static void take_byte(struct rv_answer_parts *p, char byte, const struct rv_answer_parts_sink *sink)
{
    switch (p->state) {
    case RV_ANSWER_BEGIN:
        take_begin(p, byte, sink);
        break;
    case RV_ANSWER_THOUGHT:
        if (find_mark(p, "</think>", byte, sink))
            p->state = RV_ANSWER_GAP;
        break;
    case RV_ANSWER_GAP:
        take_gap(p, byte, sink);
        break;
    case RV_ANSWER_TEXT:
        if (p->has_tools && p->style.open[0]) {
            if (find_mark(p, p->style.open, byte, sink))
                p->state = RV_ANSWER_HEAD;
        } else {
            hand_on(p, &byte, 1, sink);
        }
        break;
    case RV_ANSWER_HEAD:
        if (find_mark(p, "{\"name\": \"", byte, NULL)) // what stands around calls is nobody's
            p->state = RV_ANSWER_NAME;
        break;
    case RV_ANSWER_NAME:
        take_name(p, byte, sink);
        break;
    case RV_ANSWER_KEY:
        if (--p->n_key == 0)
            p->state = RV_ANSWER_ARGUMENTS;
        break;
    case RV_ANSWER_ARGUMENTS:
        break; // taken in pieces
    }
}

void rv_answer_parts_add(struct rv_answer_parts *parts, const char *text, size_t len,
                         const struct rv_answer_parts_sink *sink)
{
    for (size_t i = 0; i < len;) {
        if (parts->state == RV_ANSWER_ARGUMENTS) {
            i += take_arguments(parts, text + i, len - i, sink);
        } else if (parts->state == RV_ANSWER_TEXT && !(parts->has_tools && parts->style.open[0])) {
            hand_on(parts, text + i, len - i, sink); // nothing can follow it
            return;
        } else {
            take_byte(parts, text[i++], sink);
        }
    }
}

void rv_answer_parts_end(struct rv_answer_parts *parts, const struct rv_answer_parts_sink *sink)
{
    if (parts->state == RV_ANSWER_BEGIN || parts->state == RV_ANSWER_THOUGHT || parts->state == RV_ANSWER_TEXT)
        hand_on(parts, parts->held, parts->n_held, sink);
    parts->n_held = 0;
}
