/* Questions as words, and words put together anew. Everything is tokens: no text is encoded a second time. */
#include "learn/deep_variants.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <string.h>

enum {
    BEGINNING = 48,   // tokens of a sentence put in front, at most
    FILLER_WORDS = 4, // that come in the place of others, at most
    FILLER_TOKENS = 12,
    ROLE_LINE = 6, // tokens behind a control token that name who speaks, at most
    MAX_VARIANTS = 8192,
};

/* How often: no sentence in front; words left out at all; one that may be left out; own words in its place. */
static const double BARE = 0.125, LOOSE = 0.5, LEFT_OUT = 0.5, FILLED = 0.5;
/* What share of the largest surprise keeps a word. */
static const double KEPT = 0.5;

struct word {
    int32_t from, n; // tokens of the sample
    double surprise;
    bool begins_sentence;
};

struct maker {
    const struct rv_deep_variants_config *config;
    const struct rv_deep_sample *samples;
    size_t n_samples;
    int32_t head, tail; // tokens that all questions begin and end with
    struct rv_backward *backward;
    float *nll;         // of the sample at hand
    struct word *words; // likewise
    int32_t n_words;
    double most; // surprise
    int32_t *tokens;
    float *weights;
    int32_t n; // of the variant in the making
    struct rv_rng rng;
};

/* ---- tokens --------------------------------------------------------------------------------------- */

static bool is_control(const struct maker *m, int32_t token)
{
    enum rv_token_type type = rv_vocab_type(m->config->vocab, token);

    return type == RV_TOKEN_CONTROL || type == RV_TOKEN_USER_DEFINED;
}

static bool has_newline(const struct maker *m, int32_t token)
{
    struct rv_str piece = rv_vocab_piece(m->config->vocab, token, false);

    return piece.len > 0 && memchr(piece.data, '\n', piece.len) != NULL;
}

/* After a space, and with a sign: what is behind it can go alone. Scripts without spaces have a word a token. */
static bool begins_word(const struct maker *m, int32_t token)
{
    struct rv_str piece = rv_vocab_piece(m->config->vocab, token, false);
    unsigned char first = piece.len > 0 ? (unsigned char)piece.data[0] : 'x';

    return first >= 0xE2 || strchr(" \n\t.,;:!?'\"()-", first) != NULL;
}

static bool ends_sentence(const struct maker *m, int32_t token)
{
    struct rv_str piece = rv_vocab_piece(m->config->vocab, token, false);
    static const char *const wide[] = {"\xE3\x80\x82", "\xEF\xBC\x81", "\xEF\xBC\x9F"}; // full stop, ! and ? of CJK

    while (piece.len > 1 && (piece.data[piece.len - 1] == '"' || piece.data[piece.len - 1] == '\''))
        piece.len--;
    if (piece.len == 0)
        return false;
    for (int i = 0; i < 3; i++)
        if (piece.len >= 3 && memcmp(piece.data + piece.len - 3, wide[i], 3) == 0)
            return true;
    return strchr(".!?\n", piece.data[piece.len - 1]) != NULL && piece.data[piece.len - 1] != '\0';
}

/* ---- what is asked --------------------------------------------------------------------------------- */

/* Tokens before the first one with a weight; 0: it is no correction. */
static int32_t question_of(const struct rv_deep_sample *s)
{
    int32_t n = 1;

    if (s->is_anchor || s->is_vote || s->rejected)
        return 0;
    while (n < s->n && s->weights[n] == 0.0f)
        n++;
    return n < s->n && s->weights[n] > 0.0f ? n : 0;
}

static int32_t common_head(const struct rv_deep_sample *a, int32_t n_a, const struct rv_deep_sample *b, int32_t n_b)
{
    int32_t n = 0;

    while (n < n_a && n < n_b && a->tokens[n] == b->tokens[n])
        n++;
    return n;
}

static int32_t common_tail(const struct rv_deep_sample *a, int32_t n_a, const struct rv_deep_sample *b, int32_t n_b)
{
    int32_t n = 0;

    while (n < n_a && n < n_b && a->tokens[n_a - 1 - n] == b->tokens[n_b - 1 - n])
        n++;
    return n;
}

/* What differing questions have in common. A head is that of a template when a line or a control token ends it. */
static void find_frame(struct maker *m)
{
    const struct rv_deep_sample *first = NULL;
    int32_t n_first = 0, n;
    bool differ = false;

    for (size_t i = 0; i < m->n_samples; i++) {
        const struct rv_deep_sample *s = &m->samples[i];

        n = question_of(s);
        if (n == 0)
            continue;
        if (!first) {
            first = s;
            n_first = m->head = m->tail = n;
            continue;
        }
        if (n == n_first && memcmp(s->tokens, first->tokens, (size_t)n * sizeof(*s->tokens)) == 0)
            continue;
        n = common_head(first, n_first, s, n);
        m->head = n < m->head ? n : m->head;
        n = common_tail(first, n_first, s, question_of(s));
        m->tail = n < m->tail ? n : m->tail;
        differ = true;
    }
    if (!differ)
        m->head = m->tail = 0;
    while (m->head > 0 && !is_control(m, first->tokens[m->head - 1]) && !has_newline(m, first->tokens[m->head - 1]))
        m->head--;
}

/* Where the text of a question begins: behind the frame, and behind control tokens with the line they begin. */
static int32_t text_begin(const struct maker *m, const struct rv_deep_sample *s, int32_t end)
{
    int32_t begin = m->head, bos = rv_vocab_bos(m->config->vocab);

    for (int32_t i = 0; i < end; i++)
        if (is_control(m, s->tokens[i]) && i + 1 > begin)
            begin = i + 1;
    if (begin == 0 || !is_control(m, s->tokens[begin - 1]) || s->tokens[begin - 1] == bos)
        return begin;
    for (int32_t i = begin; i < end && i < begin + ROLE_LINE; i++)
        if (has_newline(m, s->tokens[i]))
            return i + 1;
    return begin;
}

/* Where it ends: before what all end with, and before its last word. */
static int32_t text_end(const struct maker *m, const struct rv_deep_sample *s, int32_t n_question)
{
    int32_t end = n_question - (m->tail < n_question ? m->tail : n_question), last = n_question - 1;

    while (last > 0 && (is_control(m, s->tokens[last]) || has_newline(m, s->tokens[last])))
        last--;
    while (last > 0 && !begins_word(m, s->tokens[last]) && !is_control(m, s->tokens[last - 1]))
        last--;
    end = end < last ? end : last;
    while (end > 0 && !begins_word(m, s->tokens[end]) && !is_control(m, s->tokens[end]))
        end--; // a word is not cut
    return end;
}

static ruvllm_status find_words(struct maker *m, const struct rv_deep_sample *s, int32_t begin, int32_t end,
                                struct ruvllm_error *err)
{
    struct rv_backward_sequence sequence = {.tokens = s->tokens, .n = s->n, .weights = s->weights, .nll = m->nll};
    struct rv_backward_result result;
    ruvllm_status rc = rv_backward_run(m->backward, NULL, &sequence, 1, false, &result, err);

    m->n_words = 0;
    m->most = 0;
    for (int32_t i = begin; i < end && !rc; i++) {
        struct word *w = &m->words[m->n_words];

        if (i == begin || begins_word(m, s->tokens[i])) {
            *w = (struct word){.from = i, .begins_sentence = i == begin || ends_sentence(m, s->tokens[i - 1])};
            m->n_words++;
        }
        w = &m->words[m->n_words - 1];
        w->n++;
        w->surprise += i > 0 ? (double)m->nll[i] : 0;
        m->most = w->surprise > m->most ? w->surprise : m->most;
    }
    return rc;
}

/* ---- what is put in its place ----------------------------------------------------------------------- */

static bool happens(struct maker *m, double how_often)
{
    return rv_rng_uniform(&m->rng) < how_often;
}

/* A place in one of the model's own texts; NULL: there are none. */
static const int32_t *own_place(struct maker *m, int32_t *n_left)
{
    size_t n = 0, chosen;

    for (size_t i = 0; i < m->n_samples; i++)
        n += m->samples[i].is_anchor && !m->samples[i].is_guard && m->samples[i].n > 2;
    if (n == 0)
        return NULL;
    chosen = (size_t)rv_rng_below(&m->rng, n);
    for (size_t i = 0; i < m->n_samples; i++) {
        const struct rv_deep_sample *s = &m->samples[i];

        if (s->is_anchor && !s->is_guard && s->n > 2 && chosen-- == 0) {
            int32_t at = 1 + (int32_t)rv_rng_below(&m->rng, (uint64_t)s->n - 1);

            *n_left = s->n - at;
            return s->tokens + at;
        }
    }
    return NULL;
}

static void add_tokens(struct maker *m, const int32_t *tokens, int32_t n)
{
    memcpy(m->tokens + m->n, tokens, (size_t)n * sizeof(*tokens));
    m->n += n;
}

/* The next whole sentence after a random place, or its first tokens. */
static void add_beginning(struct maker *m, int32_t room)
{
    int32_t n = 0, from = 0;
    const int32_t *t = own_place(m, &n);
    int32_t max = room < BEGINNING ? room : BEGINNING;

    if (!t || max < 1)
        return;
    while (from < n && !ends_sentence(m, t[from]))
        from++;
    from = from + 1 < n ? from + 1 : 0;
    for (int32_t i = from; i < n && i < from + max && !is_control(m, t[i]); i++) {
        add_tokens(m, &t[i], 1);
        if (ends_sentence(m, t[i]))
            break;
    }
}

/* A few of the model's own words. */
static void add_filler(struct maker *m, int32_t room)
{
    int32_t n = 0, n_words = 1 + (int32_t)rv_rng_below(&m->rng, FILLER_WORDS), from = 0;
    const int32_t *t = own_place(m, &n);
    int32_t max = room < FILLER_TOKENS ? room : FILLER_TOKENS;

    while (t && from < n && !begins_word(m, t[from]))
        from++;
    for (int32_t i = from; t && i < n && i < from + max && !is_control(m, t[i]); i++) {
        if (begins_word(m, t[i]) && n_words-- == 0)
            break;
        add_tokens(m, &t[i], 1);
    }
}

/* ---- variants --------------------------------------------------------------------------------------- */

/* A sentence to begin with, no later than the one with the most surprising word. */
static int32_t first_word(struct maker *m)
{
    int32_t n = 0, chosen;

    for (int32_t i = 0; i < m->n_words; i++) {
        n += m->words[i].begins_sentence;
        if (m->words[i].surprise >= m->most)
            break;
    }
    chosen = (int32_t)rv_rng_below(&m->rng, n > 0 ? (uint64_t)n : 1);
    for (int32_t i = 0; i < m->n_words; i++)
        if (m->words[i].begins_sentence && chosen-- == 0)
            return i;
    return 0;
}

/* The words of a question, some exchanged; `room` is what there is for others. */
static void add_words(struct maker *m, const struct rv_deep_sample *s, int32_t from, int32_t room)
{
    bool is_loose = happens(m, LOOSE), was_left_out = false;

    for (int32_t i = from; i < m->n_words; i++) {
        const struct word *w = &m->words[i];
        bool is_kept = !is_loose || w->surprise >= KEPT * m->most || !happens(m, LEFT_OUT);
        int32_t before = m->n;

        if (is_kept)
            add_tokens(m, s->tokens + w->from, w->n);
        else if (!was_left_out && happens(m, FILLED))
            add_filler(m, room);
        room -= is_kept ? 0 : m->n - before;
        was_left_out = !is_kept;
    }
    if (is_loose && happens(m, FILLED))
        add_filler(m, room);
}

/* One variant in m->tokens and m->weights. */
static void make(struct maker *m, const struct rv_deep_sample *s, int32_t begin, int32_t end)
{
    int32_t room = m->config->run->max_tokens - s->n, n_question = question_of(s), before;

    m->n = 0;
    add_tokens(m, s->tokens, begin);
    if (!happens(m, BARE))
        add_beginning(m, room);
    room -= m->n - begin;
    add_words(m, s, first_word(m), room);
    add_tokens(m, s->tokens + end, n_question - end);
    before = m->n;
    add_tokens(m, s->tokens + n_question, s->n - n_question);
    memset(m->weights, 0, (size_t)before * sizeof(*m->weights));
    memcpy(m->weights + before, s->weights + n_question, (size_t)(s->n - n_question) * sizeof(*m->weights));
}

static ruvllm_status keep(const struct maker *m, struct rv_deep_variants *out, int32_t episode, int32_t turn,
                          int32_t n_turns, struct ruvllm_error *err)
{
    size_t n = (size_t)m->n;
    int32_t *tokens = rv_realloc_array(NULL, n, sizeof(*tokens));
    float *weights = rv_realloc_array(NULL, n, sizeof(*weights));

    if (!tokens || !weights) {
        rv_free(tokens);
        rv_free(weights);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %zu tokens", n);
    }
    memcpy(tokens, m->tokens, n * sizeof(*tokens));
    memcpy(weights, m->weights, n * sizeof(*weights));
    out->items[out->n++] = (struct rv_deep_sample){
        .tokens = tokens, .n = m->n, .weights = weights, .episode = episode, .turn = turn, .n_turns = n_turns};
    return RUVLLM_OK;
}

static ruvllm_status vary(struct maker *m, struct rv_deep_variants *out, size_t index, int32_t n_each,
                          struct ruvllm_error *err)
{
    const struct rv_deep_sample *s = &m->samples[index];
    int32_t end = text_end(m, s, question_of(s)), begin = text_begin(m, s, end);
    int32_t n_turns = n_each / m->config->n_at_once;
    ruvllm_status rc;

    if (begin >= end) // no words that could be others
        return RUVLLM_OK;
    rc = find_words(m, s, begin, end, err);
    rv_rng_init(&m->rng, m->config->run->seed * 0x9E3779B97F4A7C15u ^ (uint64_t)index);
    for (int32_t i = 0; i < n_each && !rc; i++) {
        make(m, s, begin, end);
        rc = keep(m, out, s->episode, n_turns > 1 ? i % n_turns : 0, n_turns > 1 ? n_turns : 0, err);
    }
    return rc;
}

static ruvllm_status prepare(struct maker *m, struct rv_deep_variants *out, size_t n_variants, struct ruvllm_error *err)
{
    const struct rv_deep_config *run = m->config->run;
    struct rv_backward_config backward = {.hparams = run->hparams,
                                          .manifest = run->manifest,
                                          .team = run->team,
                                          .context = run->context,
                                          .max_columns = run->max_tokens};
    size_t n = (size_t)run->max_tokens;

    out->items = rv_calloc(m->n_samples + n_variants + 1, sizeof(*out->items));
    m->nll = rv_calloc(n, sizeof(*m->nll));
    m->words = rv_calloc(n, sizeof(*m->words));
    m->tokens = rv_calloc(n, sizeof(*m->tokens));
    m->weights = rv_calloc(n, sizeof(*m->weights));
    if (!out->items || !m->nll || !m->words || !m->tokens || !m->weights)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot prepare %zu variants", n_variants);
    memcpy(out->items, m->samples, m->n_samples * sizeof(*m->samples));
    out->n = out->n_given = m->n_samples;
    return n_variants > 0 ? rv_backward_new(&m->backward, &backward, err) : RUVLLM_OK;
}

ruvllm_status rv_deep_variants_init(struct rv_deep_variants *out, const struct rv_deep_variants_config *config,
                                    const struct rv_deep_sample *samples, size_t n_samples, struct ruvllm_error *err)
{
    struct maker m = {.config = config, .samples = samples, .n_samples = n_samples};
    int32_t n_each = config->n_each;
    size_t n_corrections = 0;
    ruvllm_status rc = RUVLLM_OK;

    *out = (struct rv_deep_variants){0};
    if (n_each < 0 || config->n_at_once < 1)
        return rv_fail(err, RUVLLM_INVALID, "there cannot be %d variants, %d at once", n_each, config->n_at_once);
    for (size_t i = 0; i < n_samples && !rc; i++) {
        n_corrections += question_of(&samples[i]) > 0;
        if (samples[i].n > config->run->max_tokens)
            rc = rv_fail(err, RUVLLM_INVALID, "sample %zu is longer than %d tokens", i + 1, config->run->max_tokens);
    }
    if (n_corrections > 0 && (size_t)n_each * n_corrections > MAX_VARIANTS)
        n_each = (int32_t)(MAX_VARIANTS / n_corrections);
    if (!rc)
        rc = prepare(&m, out, (size_t)n_each * n_corrections, err);
    if (!rc)
        find_frame(&m);
    for (size_t i = 0; i < n_samples && !rc && n_each > 0; i++)
        if (question_of(&samples[i]) > 0)
            rc = vary(&m, out, i, n_each, err);
    rv_backward_free(m.backward);
    rv_free(m.nll);
    rv_free(m.words);
    rv_free(m.tokens);
    rv_free(m.weights);
    if (rc)
        rv_deep_variants_release(out);
    return rc;
}

void rv_deep_variants_release(struct rv_deep_variants *variants)
{
    for (size_t i = variants->n_given; i < variants->n; i++) {
        rv_free((void *)(uintptr_t)variants->items[i].tokens);
        rv_free((void *)(uintptr_t)variants->items[i].weights);
    }
    rv_free(variants->items);
    *variants = (struct rv_deep_variants){0};
}
