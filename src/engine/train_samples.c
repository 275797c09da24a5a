/*
 * Answers in a conversation follow the template's rendering of what came before, and end with the model's end token. A
 * text is tokenised together with what precedes it, because tokens may span the seam; what differs from the prompt's
 * own tokens is learned.
 *
 * Scores become weights by how they compare with the others: a = (score - mean) / deviation, at least 0.1 of it,
 * between -2 and 2. Where all are the same there is nothing to compare and each example counts as right.
 */
#include "engine/train_samples.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "engine/input.h"

#include <math.h>
#include <string.h>

enum { MAX_TEXT = 1 << 24 };

static const float LEAST_WEIGHT = 1e-3f;

/* What the scores of all examples are measured by. */
struct scale {
    double mean;
    double deviation;
    bool has_votes;
};

struct maker {
    struct rv_train_samples *out;
    const struct ruvllm_model *model;
    int32_t max_tokens;
    struct scale scale;
};

static bool has_score(const struct ruvllm_train_sample *s)
{
    return !s->is_anchor && !isnan(s->score);
}

static ruvllm_status weigh_scores(struct scale *out, const struct ruvllm_train_sample *samples, size_t n,
                                  struct ruvllm_error *err)
{
    double sum = 0, squares = 0;
    size_t n_scores = 0;
    float low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < n; i++) {
        float score = samples[i].score;

        if (!has_score(&samples[i]))
            continue;
        if (!(score >= 0.0f && score <= 1.0f))
            return rv_fail(err, RUVLLM_INVALID, "example %zu has a score that is not between 0 and 1", i + 1);
        sum += (double)score;
        squares += (double)score * (double)score;
        low = score < low ? score : low;
        high = score > high ? score : high;
        n_scores++;
    }
    *out = (struct scale){.has_votes = n_scores > 0 && high > low};
    if (out->has_votes) {
        out->mean = sum / (double)n_scores;
        out->deviation = fmax(0.1, sqrt(fmax(0, squares / (double)n_scores - out->mean * out->mean)));
    }
    return RUVLLM_OK;
}

static float weight_of(const struct scale *scale, const struct ruvllm_train_sample *s)
{
    if (!scale->has_votes || !has_score(s))
        return 1.0f;
    return (float)fmin(2, fmax(-2, ((double)s->score - scale->mean) / scale->deviation));
}

/* Takes the tokens; those from n_prompt on have the weight. */
static ruvllm_status push(struct maker *m, const struct ruvllm_train_sample *s, size_t index, int32_t *tokens, size_t n,
                          size_t n_prompt, struct ruvllm_error *err)
{
    struct rv_train_samples *out = m->out;
    float weight = weight_of(&m->scale, s), *weights;
    bool is_vote = m->scale.has_votes && has_score(s);

    if (n > (size_t)m->max_tokens) {
        n = (size_t)m->max_tokens;
        out->n_cut++;
    }
    if (n <= n_prompt || n < 2) {
        rv_free(tokens);
        return rv_fail(err, RUVLLM_INVALID, "example %zu has nothing to learn within its first %d tokens", index + 1,
                       m->max_tokens);
    }
    if (!s->is_anchor && fabsf(weight) < LEAST_WEIGHT) { // as good as the mean: it says nothing
        rv_free(tokens);
        return RUVLLM_OK;
    }
    weights = rv_calloc(n, sizeof(*weights));
    if (out->n_items == out->cap && weights) {
        size_t cap = out->cap ? out->cap * 2 : 64;
        struct rv_deep_sample *items = rv_realloc_array(out->items, cap, sizeof(*items));

        if (items) {
            out->items = items;
            out->cap = cap;
        }
    }
    if (!weights || out->n_items == out->cap) {
        rv_free(tokens);
        rv_free(weights);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold example %zu", index + 1);
    }
    for (size_t i = n_prompt > 1 ? n_prompt : 1; i < n && !s->is_anchor; i++, out->n_tokens++)
        weights[i] = weight;
    out->items[out->n_items++] = (struct rv_deep_sample){.tokens = tokens,
                                                         .n = (int32_t)n,
                                                         .weights = weights,
                                                         .is_vote = is_vote,
                                                         .is_anchor = s->is_anchor,
                                                         .episode = (int32_t)(index & 0x7FFFFFFF)};
    return RUVLLM_OK;
}

/* ids, then more ids, then the end token where the model has one; `head` is consumed. */
static ruvllm_status join(const struct ruvllm_model *model, int32_t **head, size_t *n, const int32_t *tail,
                          size_t n_tail, struct ruvllm_error *err)
{
    int32_t end = rv_vocab_eos(model->vocab);
    int32_t *all = rv_realloc_array(*head, *n + n_tail + 1, sizeof(*all));

    if (!all)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %zu tokens", *n + n_tail + 1);
    *head = all;
    if (n_tail)
        memcpy(all + *n, tail, n_tail * sizeof(*all));
    *n += n_tail;
    if (end >= 0)
        all[(*n)++] = end;
    return RUVLLM_OK;
}

/* One answer of a conversation: messages[0..at) are what it answers. */
static ruvllm_status add_answer(struct maker *m, const struct ruvllm_train_sample *s, size_t index, size_t at,
                                struct ruvllm_error *err)
{
    struct ruvllm_input before = {.struct_size = sizeof(before), .messages = s->messages, .n_messages = at};
    const char *answer = s->messages[at].content;
    struct ruvllm_input after = {
        .struct_size = sizeof(after), .text = answer, .text_len = strlen(answer), .no_bos = true};
    int32_t *tokens = NULL, *tail = NULL;
    size_t n = 0, n_tail = 0, n_prompt;
    ruvllm_status rc = rv_input_tokens(m->model, &before, &tokens, &n, err);

    n_prompt = n;
    if (!rc)
        rc = rv_input_tokens(m->model, &after, &tail, &n_tail, err);
    if (!rc)
        rc = join(m->model, &tokens, &n, tail, n_tail, err);
    rv_free(tail);
    if (rc) {
        rv_free(tokens);
        return rc;
    }
    return push(m, s, index, tokens, n, n_prompt, err);
}

static ruvllm_status add_conversation(struct maker *m, const struct ruvllm_train_sample *s, size_t index,
                                      struct ruvllm_error *err)
{
    size_t n_answers = 0;
    ruvllm_status rc = RUVLLM_OK;

    for (size_t i = 0; i < s->n_messages && !rc; i++) {
        if (!s->messages[i].role || !s->messages[i].content)
            return rv_fail(err, RUVLLM_INVALID, "message %zu of example %zu has no role or no content", i + 1,
                           index + 1);
        if (i > 0 && strcmp(s->messages[i].role, "assistant") == 0) {
            rc = add_answer(m, s, index, i, err);
            n_answers++;
        }
    }
    if (!rc && n_answers == 0)
        rc = rv_fail(err, RUVLLM_INVALID, "example %zu has no answer of the assistant", index + 1);
    return rc;
}

static ruvllm_status add_text(struct maker *m, const struct ruvllm_train_sample *s, size_t index,
                              struct ruvllm_error *err)
{
    const char *prompt = s->prompt ? s->prompt : "";
    struct rv_buf text;
    struct ruvllm_input whole = {.struct_size = sizeof(whole)}, part = {.struct_size = sizeof(part), .text = prompt};
    int32_t *tokens = NULL, *before = NULL;
    size_t n = 0, n_before = 0, n_prompt = 0;
    ruvllm_status rc = RUVLLM_OK;

    rv_buf_init(&text, MAX_TEXT);
    rv_buf_add_str(&text, prompt);
    rv_buf_add_str(&text, s->response);
    if (text.failed)
        rc = rv_fail(err, RUVLLM_TOO_LARGE, "example %zu is longer than %d bytes", index + 1, MAX_TEXT);
    whole.text = text.data ? text.data : "";
    whole.text_len = text.len;
    part.text_len = strlen(prompt);
    if (!rc)
        rc = rv_input_tokens(m->model, &whole, &tokens, &n, err);
    if (!rc && part.text_len > 0)
        rc = rv_input_tokens(m->model, &part, &before, &n_before, err);
    while (!rc && n_prompt < n_before && n_prompt < n && before[n_prompt] == tokens[n_prompt])
        n_prompt++;
    if (!rc)
        rc = join(m->model, &tokens, &n, NULL, 0, err);
    rv_buf_release(&text);
    rv_free(before);
    if (rc) {
        rv_free(tokens);
        return rc;
    }
    return push(m, s, index, tokens, n, n_prompt, err);
}

static ruvllm_status add_one(struct maker *m, const struct ruvllm_train_sample *s, size_t index,
                             struct ruvllm_error *err)
{
    return s->messages ? add_conversation(m, s, index, err) : add_text(m, s, index, err);
}

/* The last answer of a conversation, or the text; a pair is about nothing else. */
static ruvllm_status add_side(struct maker *m, const struct ruvllm_train_sample *s, size_t index,
                              struct ruvllm_error *err)
{
    if (!s->messages)
        return add_text(m, s, index, err);
    if (s->n_messages < 2 || !s->messages[s->n_messages - 1].role || !s->messages[s->n_messages - 1].content ||
        strcmp(s->messages[s->n_messages - 1].role, "assistant") != 0)
        return rv_fail(err, RUVLLM_INVALID, "the last message of example %zu, a pair, is not the assistant's",
                       index + 1);
    return add_answer(m, s, index, s->n_messages - 1, err);
}

/* The rejected answer as a sample like the other, which then takes it over. */
static ruvllm_status add_rejected(struct maker *m, const struct ruvllm_train_sample *s, size_t index,
                                  struct ruvllm_error *err)
{
    struct ruvllm_train_sample other = *s;
    struct ruvllm_message *messages = NULL;
    struct rv_deep_sample *rejected = rv_calloc(1, sizeof(*rejected));
    ruvllm_status rc;

    if (s->messages) {
        messages = rv_realloc_array(NULL, s->n_messages, sizeof(*messages));
        if (messages) {
            memcpy(messages, s->messages, s->n_messages * sizeof(*messages));
            messages[s->n_messages - 1].content = s->rejected;
        }
        other.messages = messages;
    } else {
        other.response = s->rejected;
    }
    rc = rejected && (messages || !s->messages) ? add_side(m, &other, index, err)
                                                : rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold example %zu", index + 1);
    rv_free(messages);
    if (rc) {
        rv_free(rejected);
        return rc;
    }
    *rejected = m->out->items[--m->out->n_items];
    m->out->items[m->out->n_items - 1].rejected = rejected;
    return RUVLLM_OK;
}

static ruvllm_status add_pair(struct maker *m, const struct ruvllm_train_sample *s, size_t index,
                              struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (s->is_anchor || has_score(s))
        return rv_fail(err, RUVLLM_INVALID, "example %zu, a pair, can be no anchor and have no score", index + 1);
    rc = add_side(m, s, index, err);
    return rc ? rc : add_rejected(m, s, index, err);
}

ruvllm_status rv_train_samples_init(struct rv_train_samples *out, const struct ruvllm_model *model,
                                    const struct ruvllm_train_sample *samples, size_t n, int32_t max_tokens,
                                    struct ruvllm_error *err)
{
    struct maker m = {.out = out, .model = model, .max_tokens = max_tokens};
    ruvllm_status rc;

    *out = (struct rv_train_samples){0};
    rc = weigh_scores(&m.scale, samples, n, err);
    for (size_t i = 0; i < n && !rc; i++) {
        const struct ruvllm_train_sample *s = &samples[i];

        if (s->struct_size != sizeof(*s))
            rc = rv_fail(err, RUVLLM_INVALID, "example %zu: struct_size is not that of ruvllm_train_sample", i + 1);
        else if ((s->messages != NULL) == (s->response != NULL))
            rc = rv_fail(err, RUVLLM_INVALID, "example %zu must have either messages or a response", i + 1);
        else
            rc = s->rejected ? add_pair(&m, s, i, err) : add_one(&m, s, i, err);
    }
    if (rc)
        rv_train_samples_release(out);
    return rc;
}

static void free_tokens(const struct rv_deep_sample *s)
{
    rv_free((void *)s->tokens);
    rv_free((void *)s->weights);
}

void rv_train_samples_release(struct rv_train_samples *samples)
{
    for (size_t i = 0; i < samples->n_items; i++) {
        const struct rv_deep_sample *rejected = samples->items[i].rejected;

        free_tokens(&samples->items[i]);
        if (rejected)
            free_tokens(rejected);
        rv_free((void *)rejected);
    }
    rv_free(samples->items);
    *samples = (struct rv_train_samples){0};
}
