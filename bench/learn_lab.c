#include "learn_lab.h"

#include "sample/weight.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 512, FIRST_TEXTS = 24, FIRST_SEED = 7 };

void lab_die(const char *what, const struct ruvllm_error *err)
{
    (void)fprintf(stderr, "learn: %s%s%s\n", what, err ? ": " : "", err ? err->message : "");
    exit(LAB_BROKEN);
}

void *lab_need(void *memory)
{
    if (!memory)
        lab_die("there is no memory", NULL);
    return memory;
}

/* ---- life ----------------------------------------------------------------------------------- */

static void open_decoder(struct lab *lab)
{
    const struct rv_hparams *h = &lab->model->hparams;
    struct rv_block_pool_config pool = {.n_layers = h->n_layers, .n_kv_heads = h->n_kv_heads, .head_dim = h->head_dim};
    struct rv_tier_policy policy = rv_tier_policy_single(RV_KV_BLOCK_F16);
    struct rv_decoder_config config = {.hparams = h,
                                       .weights = &lab->model->weights,
                                       .device = lab->model->device,
                                       .max_rows = MAX_ROWS,
                                       .max_context = lab->model->max_context};
    struct ruvllm_error err;

    pool.budget = rv_block_pool_budget_for(&pool, LAB_SEQS * (LAB_CONTEXT / RV_KV_BLOCK_TOKENS + 1));
    if (rv_block_pool_new(&lab->pool, &pool, &err))
        lab_die("keys and values", &err);
    config.pool = lab->pool;
    if (rv_decoder_new(&lab->decoder, &config, &err))
        lab_die("decoder", &err);
    for (int i = 0; i < LAB_SEQS; i++) {
        if (rv_kv_seq_init(&lab->seqs[i], lab->pool, &policy, lab->model->max_context, &err))
            lab_die("sequence", &err);
    }
}

struct states {
    float *rows;
    size_t n_dims;
};

static void keep_state(void *user, int32_t answer, int32_t i, const float *state, float *logits)
{
    struct states *s = user;

    (void)answer;
    (void)i;
    (void)logits;
    memcpy(s->rows, state, s->n_dims * sizeof(float));
    s->rows += s->n_dims;
}

void lab_open(struct lab *lab, const char *path, uint64_t seed)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct ruvllm_error err;

    *lab = (struct lab){0};
    params.n_threads = 1; // seeds run beside each other instead
    params.max_context = LAB_CONTEXT;
    if (rv_model_open(&lab->model, path, &params, false, &err))
        lab_die(path, &err);
    lab->n_vocab = (size_t)lab->model->hparams.n_vocab;
    lab->n_dims = (size_t)lab->model->hparams.n_embd;
    lab->weights = lab_need(malloc(lab->n_vocab * sizeof(float)));
    if (rv_head_gradient_init(&lab->gradient, &lab->model->manifest, &lab->model->hparams, &err))
        lab_die("head", &err);
    open_decoder(lab);
    rv_rng_init(&lab->rng, seed);
}

void lab_whiten(struct lab *lab)
{
    struct rv_rng rng = lab->rng;
    float *rows = lab_need(malloc((size_t)FIRST_TEXTS * LAB_TEXT * lab->n_dims * sizeof(float)));
    struct states states = {.rows = rows, .n_dims = lab->n_dims};
    struct lab_texts texts;
    struct ruvllm_error err;

    rv_rng_init(&lab->rng, FIRST_SEED);
    texts = lab_write_texts(lab, FIRST_TEXTS, LAB_TEXT);
    for (int32_t i = 0; i < texts.n; i++)
        lab_read(lab, NULL, texts.tokens + i * texts.length, texts.length, keep_state, &states);
    if (rv_whitening_init(&lab->whitening, rows, (size_t)FIRST_TEXTS * LAB_TEXT, (int32_t)lab->n_dims, &err))
        lab_die("whitening", &err);
    lab->rng = rng;
    free(rows);
    lab_free_texts(&texts);
}

void lab_close(struct lab *lab)
{
    for (int i = 0; i < LAB_SEQS; i++)
        rv_kv_seq_release(&lab->seqs[i]);
    rv_decoder_free(lab->decoder);
    rv_block_pool_free(lab->pool);
    rv_whitening_release(&lab->whitening);
    rv_head_gradient_release(&lab->gradient);
    rv_model_close(lab->model);
    free(lab->weights);
}

/* ---- steps ---------------------------------------------------------------------------------- */

/*
 * `n_each` tokens of each sequence in one step, those from `from` on. Rows for the last `n_out` of each; what the
 * pointers show is the decoder's until the next step.
 */
static void step(struct lab *lab, const struct lab_answer *answers, int32_t n_answers, int32_t from, int32_t n_each,
                 int32_t n_out, float **logits, const float **states)
{
    int32_t tokens[MAX_ROWS], pos[MAX_ROWS], seq[MAX_ROWS], out_rows[MAX_ROWS];
    struct rv_adapter_mix mixes[LAB_SEQS];
    const struct rv_adapter_mix *mix_of[LAB_SEQS];
    struct rv_kv_seq *seqs[LAB_SEQS];
    struct rv_batch batch = {.tokens = tokens,
                             .pos = pos,
                             .seq = seq,
                             .seqs = seqs,
                             .adapters = seq,
                             .mixes = mix_of,
                             .n_mixes = n_answers,
                             .out_rows = out_rows};
    struct ruvllm_error err;

    if (n_answers < 1 || n_answers > LAB_SEQS || n_answers * n_each > MAX_ROWS)
        lab_die("too much for one step", NULL);
    for (int32_t s = 0; s < n_answers; s++) {
        mixes[s] = (struct rv_adapter_mix){.weights = {1, 1}};
        if (lab->deep)
            mixes[s].adapters[mixes[s].n_adapters++] = lab->deep;
        if (answers[s].adapter)
            mixes[s].adapters[mixes[s].n_adapters++] = answers[s].adapter;
        mix_of[s] = &mixes[s];
        seqs[s] = &lab->seqs[s];
        if (!rv_kv_seq_reserve(seqs[s], n_each))
            lab_die("there is no room for keys and values", NULL);
        for (int32_t i = 0; i < n_each; i++, batch.n_rows++) {
            tokens[batch.n_rows] = answers[s].tokens[from + i];
            pos[batch.n_rows] = from + i;
            seq[batch.n_rows] = s;
            if (i >= n_each - n_out)
                out_rows[batch.n_out++] = batch.n_rows;
        }
    }
    if (rv_decoder_run(lab->decoder, &batch, RV_DECODER_LOGITS, logits, &err))
        lab_die("step", &err);
    *states = rv_decoder_states(lab->decoder);
    if (!*states)
        lab_die("the states of this model lie on a device", NULL);
    for (int32_t s = 0; s < n_answers; s++)
        rv_kv_seq_advance(seqs[s], n_each);
}

static void forget_all(struct lab *lab)
{
    for (int i = 0; i < LAB_SEQS; i++)
        rv_kv_seq_clear(&lab->seqs[i]);
}

static int32_t draw(struct lab *lab, const float *logits)
{
    float max = rv_weight_max(logits, lab->n_vocab);
    double total = rv_weight_fill(lab->weights, logits, lab->n_vocab, max, rv_weight_scale(1));
    double mark = rv_rng_uniform(&lab->rng) * total, passed = 0;

    for (size_t v = 0; v < lab->n_vocab; v++) {
        passed += (double)lab->weights[v];
        if (passed > mark)
            return (int32_t)v;
    }
    return (int32_t)lab->n_vocab - 1;
}

void lab_generate(struct lab *lab, const struct lab_answer *answers, int32_t n_answers, int32_t n_prompt, int32_t n,
                  lab_row_fn on_row, void *user)
{
    forget_all(lab);
    for (int32_t s = 0; s < n_answers; s++) {
        if (answers[s].trace)
            answers[s].trace->n_rows = 0;
    }
    for (int32_t i = 0; i < n; i++) {
        const float *states;
        float *logits;

        if (i == 0)
            step(lab, answers, n_answers, 0, n_prompt, 1, &logits, &states);
        else
            step(lab, answers, n_answers, n_prompt + i - 1, 1, 1, &logits, &states);
        for (int32_t s = 0; s < n_answers; s++) {
            float *own = logits + (size_t)s * lab->n_vocab;
            const float *state = states + (size_t)s * lab->n_dims;
            int32_t token;

            if (on_row)
                on_row(user, s, i, state, own);
            token = draw(lab, own);
            answers[s].tokens[n_prompt + i] = token;
            if (answers[s].trace)
                rv_head_gradient_capture(&lab->gradient, answers[s].trace, state, own, 1, token);
        }
    }
}

void lab_read(struct lab *lab, const struct rv_adapter *adapter, const int32_t *tokens, int32_t n, lab_row_fn on_row,
              void *user)
{
    struct lab_answer text = {.tokens = (int32_t *)(uintptr_t)tokens, .adapter = adapter}; // which is only read
    const float *states;
    float *logits;

    if (n > LAB_TEXT)
        lab_die("a text is too long", NULL);
    forget_all(lab);
    step(lab, &text, 1, 0, n, n, &logits, &states);
    for (int32_t i = 0; i < n; i++)
        on_row(user, 0, i, states + (size_t)i * lab->n_dims, logits + (size_t)i * lab->n_vocab);
}

bool lab_has_word(const struct lab *lab, const int32_t *tokens, size_t n, const char *word)
{
    struct ruvllm_error err;
    char *text;
    bool found;

    if (ruvllm_detokenize(lab->model, tokens, n, false, &text, NULL, &err))
        lab_die("detokenize", &err);
    found = strstr(text, word) != NULL;
    ruvllm_free(text);
    return found;
}

/* ---- texts ---------------------------------------------------------------------------------- */

struct lab_texts lab_write_texts(struct lab *lab, int32_t n, int32_t length)
{
    struct lab_texts t = {.n = n, .length = length};
    int32_t bos = rv_vocab_bos(lab->model->vocab), eos = rv_vocab_eos(lab->model->vocab);

    t.tokens = lab_need(calloc((size_t)n * (size_t)length, sizeof(*t.tokens)));
    for (int32_t first = 0; first < n; first += LAB_SEQS) {
        struct lab_answer answers[LAB_SEQS];
        int32_t n_now = n - first < LAB_SEQS ? n - first : LAB_SEQS;

        for (int32_t i = 0; i < n_now; i++) {
            answers[i] = (struct lab_answer){.tokens = t.tokens + (first + i) * length};
            answers[i].tokens[0] = bos >= 0 ? bos : eos >= 0 ? eos : 0;
        }
        lab_generate(lab, answers, n_now, 1, length - 1, NULL, NULL);
    }
    return t;
}

void lab_free_texts(struct lab_texts *texts)
{
    free(texts->tokens);
    *texts = (struct lab_texts){0};
}

struct likelihood {
    const int32_t *tokens;
    int32_t n, from;
    size_t n_vocab;
    double sum;
};

static void add_row(void *user, int32_t answer, int32_t i, const float *state, float *logits)
{
    struct likelihood *l = user;
    float max;

    (void)answer;
    (void)state;
    if (i + 1 < l->from || i + 1 >= l->n)
        return;
    max = rv_weight_max(logits, l->n_vocab);
    l->sum +=
        (double)(max - logits[l->tokens[i + 1]]) + log(rv_weight_sum(logits, l->n_vocab, max, rv_weight_scale(1)));
}

double lab_nll(struct lab *lab, const struct rv_adapter *adapter, const int32_t *tokens, int32_t n, int32_t from)
{
    struct likelihood l = {.tokens = tokens, .n = n, .from = from, .n_vocab = lab->n_vocab};

    lab_read(lab, adapter, tokens, n, add_row, &l);
    return l.sum / (n - from);
}

double lab_texts_nll(struct lab *lab, const struct rv_adapter *adapter, const struct lab_texts *texts)
{
    double sum = 0;

    for (int32_t i = 0; i < texts->n; i++)
        sum += lab_nll(lab, adapter, texts->tokens + i * texts->length, texts->length, 1);
    return sum / texts->n;
}

/* ---- learning ------------------------------------------------------------------------------- */

struct rv_trace *lab_new_trace(const struct lab *lab, int32_t n)
{
    struct rv_trace *trace;
    struct ruvllm_error err;

    if (rv_trace_new(&trace, 1, "", (int32_t)lab->n_dims, n, &err))
        lab_die("trace", &err);
    return trace;
}

struct rv_tenant_learner *lab_new_learner(const struct lab *lab, int32_t rank)
{
    struct rv_tenant_learner *learner;
    struct ruvllm_error err;

    if (rv_tenant_learner_new(&learner, &lab->whitening, rank, &err))
        lab_die("learner", &err);
    return learner;
}

void lab_vote(struct rv_tenant_learner *learner, const struct rv_trace *trace, double score)
{
    struct rv_tenant_vote made;
    struct ruvllm_error err;

    if (rv_tenant_learner_weigh(learner, trace, score, &made, &err) || rv_tenant_learner_apply(learner, &made, &err))
        lab_die("vote", &err);
    rv_tenant_learner_release_vote(&made);
}

struct numbers {
    const float *a;
    float *b; // [n_dims][pairs]
};

static ruvllm_status give_numbers(void *user, int32_t layer, enum rv_part part, struct rv_adapter_numbers *out,
                                  struct ruvllm_error *err)
{
    const struct numbers *n = user;

    (void)layer;
    (void)part;
    (void)err;
    *out = (struct rv_adapter_numbers){.a = n->a, .b = n->b};
    return RUVLLM_OK;
}

struct rv_adapter *lab_publish(const struct lab *lab, const struct rv_head_adapter *learned)
{
    size_t pairs = (size_t)learned->n_pairs, dims = (size_t)learned->n_dims;
    struct rv_adapter_shape shape = {.hparams = &lab->model->hparams,
                                     .manifest = &lab->model->manifest,
                                     .head_rank = learned->n_pairs,
                                     .head_scale = 1};
    struct numbers numbers = {.a = learned->a};
    struct rv_adapter *adapter;
    struct ruvllm_error err;

    if (pairs == 0)
        return NULL;
    numbers.b = lab_need(malloc(pairs * dims * sizeof(float)));
    for (size_t i = 0; i < pairs; i++) {
        for (size_t d = 0; d < dims; d++)
            numbers.b[d * pairs + i] = learned->b[i * dims + d];
    }
    if (rv_adapter_new(&adapter, &shape, give_numbers, &numbers, &err))
        lab_die("adapter", &err);
    free(numbers.b);
    return adapter;
}

static uint64_t hash_more(uint64_t hash, const void *bytes, size_t n)
{
    const uint8_t *b = bytes;

    for (size_t i = 0; i < n; i++)
        hash = (hash ^ b[i]) * 0x100000001b3u; // FNV-1a
    return hash;
}

uint64_t lab_hash_adapter(const struct rv_adapter *adapter)
{
    uint64_t hash = 0xcbf29ce484222325u;
    const struct rv_adapter_pair *p = adapter ? &adapter->head : NULL;

    if (!p || p->rank == 0)
        return hash;
    hash = hash_more(hash, &p->rank, sizeof(p->rank));
    hash = hash_more(hash, p->a, (size_t)p->rank * (size_t)p->n_in * sizeof(*p->a));
    return hash_more(hash, p->b, (size_t)p->rank * (size_t)p->n_out * sizeof(*p->b));
}
