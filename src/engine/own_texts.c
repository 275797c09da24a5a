/* Kept as a generation of nobody's, as the model's whitening is. */
#include "engine/own_texts.h"

#include "base/alloc.h"
#include "engine/reply.h"
#include "store/store_generations.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LEAST_TEXTS = 64,
    MOST_TEXTS = 384,
    MANY_DIMS = 512,
    LENGTH = 96,
    AT_ONCE = 8,
    MAX_TEXTS = 4096,
    MAX_LENGTH = 8192
};

/* Nobody votes as this one, so nothing is learned that these texts could be written with. */
static const char WRITER[] = ".own_texts";
static const char MAGIC[8] = "rvtexts";

struct header {
    char magic[8];
    int32_t n;
    int32_t length;
    double nll;
};

void rv_own_texts_release(struct rv_own_texts *texts)
{
    rv_free(texts->tokens);
    *texts = (struct rv_own_texts){0};
}

/* ---- bytes ---------------------------------------------------------------------------------- */

ruvllm_status rv_own_texts_pack(const struct rv_own_texts *texts, struct rv_str *out, struct ruvllm_error *err)
{
    struct header h = {.n = texts->n, .length = texts->length, .nll = texts->nll};
    size_t bytes = (size_t)texts->n * (size_t)texts->length * sizeof(int32_t);
    char *data = rv_malloc(sizeof(h) + bytes);

    if (!data)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", sizeof(h) + bytes);
    memcpy(h.magic, MAGIC, sizeof(MAGIC));
    memcpy(data, &h, sizeof(h));
    memcpy(data + sizeof(h), texts->tokens, bytes);
    *out = (struct rv_str){data, sizeof(h) + bytes};
    return RUVLLM_OK;
}

static ruvllm_status damaged(struct ruvllm_error *err)
{
    return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                        "the model's own texts in the store are damaged or of another model");
}

ruvllm_status rv_own_texts_unpack(struct rv_own_texts *out, struct rv_str bytes, int32_t n_vocab,
                                  struct ruvllm_error *err)
{
    struct header h = {.n = 0};
    size_t n;

    *out = (struct rv_own_texts){0};
    if (bytes.len >= sizeof(h))
        memcpy(&h, bytes.data, sizeof(h));
    if (memcmp(h.magic, MAGIC, sizeof(MAGIC)) != 0 || h.n < 4 || h.n > MAX_TEXTS || h.length < 2 ||
        h.length > MAX_LENGTH || !(h.nll > 0 && isfinite(h.nll)))
        return damaged(err);
    n = (size_t)h.n * (size_t)h.length;
    if (bytes.len != sizeof(h) + n * sizeof(int32_t))
        return damaged(err);
    out->tokens = rv_realloc_array(NULL, n, sizeof(*out->tokens));
    if (!out->tokens)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %zu tokens", n);
    memcpy(out->tokens, bytes.data + sizeof(h), n * sizeof(*out->tokens));
    out->n = h.n;
    out->length = h.length;
    out->nll = h.nll;
    for (size_t i = 0; i < n; i++) {
        if (out->tokens[i] < 0 || out->tokens[i] >= n_vocab) {
            rv_own_texts_release(out);
            return damaged(err);
        }
    }
    return RUVLLM_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

static int32_t first_token(const struct ruvllm_engine *e)
{
    int32_t bos = rv_vocab_bos(e->model->vocab), eos = rv_vocab_eos(e->model->vocab);

    return bos >= 0 ? bos : eos >= 0 ? eos : 0;
}

static ruvllm_status submit(struct ruvllm_engine *e, int32_t n, uint64_t seed, uint64_t *id, struct ruvllm_error *err)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    int32_t first = first_token(e);
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = &first, .n_tokens = 1};
    struct ruvllm_request request = {.struct_size = sizeof(request), .tenant = WRITER, .no_shared_prefix = true};

    params.temperature = 1;
    params.top_p = 1;
    params.repetition_penalty = 1;
    params.max_tokens = n;
    params.ignore_eos = true;
    params.n_logprobs = 0;
    params.has_seed = true;
    params.seed = seed;
    return rv_engine_submit(e, &request, &input, &params, id, err);
}

/* Waits for a text and appends it. */
static ruvllm_status collect(struct ruvllm_engine *e, uint64_t id, struct rv_own_texts *out, struct ruvllm_error *err)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    int32_t *row = out->tokens + (size_t)out->n * (size_t)out->length;
    const struct ruvllm_response *r;
    ruvllm_status rc;

    do {
        event.type = RUVLLM_EVENT_NONE;
        rc = rv_engine_next_event(e, id, -1, &event, err);
    } while (!rc && event.type != RUVLLM_EVENT_DONE);
    if (rc)
        return rc;
    r = event.response;
    if (r->n_tokens + 1 == (size_t)out->length) {
        row[0] = first_token(e);
        memcpy(row + 1, r->tokens, r->n_tokens * sizeof(*row));
        for (size_t i = 0; i < r->n_tokens; i++)
            out->nll -= (double)r->logprobs[i * r->logprobs_per_token].logprob;
        out->n++;
    }
    rv_reply_response_free(event.response);
    return RUVLLM_OK;
}

/* Some at once, which a batch computes hardly slower than one. */
static ruvllm_status write_group(struct ruvllm_engine *e, uint64_t seed, struct rv_own_texts *out,
                                 struct ruvllm_error *err)
{
    uint64_t ids[AT_ONCE];
    int n_ids = 0;
    ruvllm_status rc = RUVLLM_OK;

    while (n_ids < AT_ONCE && !rc) {
        rc = submit(e, out->length - 1, seed + (uint64_t)n_ids, &ids[n_ids], err);
        n_ids += !rc;
    }
    for (int i = 0; i < n_ids; i++) {
        struct ruvllm_error late;
        ruvllm_status each = collect(e, ids[i], out, rc ? &late : err); // also after a failure: nobody else reads them

        rc = rc ? rc : each;
    }
    return rc;
}

/* Few texts are learned by heart and then hold nothing else in place; a small model writes many as soon. */
static int32_t how_many(const struct ruvllm_engine *e)
{
    int32_t n = LEAST_TEXTS * MANY_DIMS / e->model->hparams.n_embd;

    n = n < LEAST_TEXTS ? LEAST_TEXTS : n > MOST_TEXTS ? MOST_TEXTS : n;
    return n / AT_ONCE * AT_ONCE;
}

static ruvllm_status write_all(struct rv_own_texts *out, struct ruvllm_engine *e, rv_own_texts_fn goes_on, void *user,
                               struct ruvllm_error *err)
{
    int32_t n = how_many(e);
    ruvllm_status rc = RUVLLM_OK;

    out->length = e->model->max_context < LENGTH ? e->model->max_context : LENGTH;
    out->tokens = rv_calloc((size_t)n, (size_t)out->length * sizeof(*out->tokens));
    if (!out->tokens)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %d texts", n);
    for (int32_t i = 0; i < n && !rc; i += AT_ONCE)
        rc = goes_on && !goes_on(user) ? rv_fail(err, RUVLLM_CANCELLED, "it was stopped")
                                       : write_group(e, 0x7E87 + (uint64_t)i, out, err);
    if (!rc && out->n < n / 2)
        rc = rv_fail(err, RUVLLM_INTERNAL, "the model ended %d of %d texts early", n - out->n, n);
    out->nll /= out->n > 0 ? (double)out->n * (out->length - 1) : 1;
    return rc;
}

/* ---- in the store --------------------------------------------------------------------------- */

static ruvllm_status load(struct rv_own_texts *out, struct ruvllm_store *store, const char *model, int32_t n_vocab,
                          bool *found, struct ruvllm_error *err)
{
    struct rv_store_generation *gen = rv_calloc(1, sizeof(*gen));
    void *bytes = NULL;
    ruvllm_status rc = gen ? rv_store_generations_active(store, WRITER, model, gen, found, err)
                           : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a generation");

    if (!rc && *found)
        rc = rv_store_generations_content(store, gen, &bytes, err);
    if (!rc && *found)
        rc = rv_own_texts_unpack(out, (struct rv_str){bytes, gen->n_bytes}, n_vocab, err);
    rv_free(bytes);
    rv_free(gen);
    return rc;
}

static ruvllm_status save(const struct rv_own_texts *texts, struct ruvllm_store *store, const char *model,
                          struct ruvllm_error *err)
{
    struct rv_store_generation *gen = rv_calloc(1, sizeof(*gen));
    struct rv_str bytes = {0};
    ruvllm_status rc =
        gen ? rv_own_texts_pack(texts, &bytes, err) : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a generation");

    if (!rc) {
        snprintf(gen->tenant, sizeof(gen->tenant), "%s", WRITER);
        snprintf(gen->model, sizeof(gen->model), "%s", model);
        gen->kind = RV_STORE_GENERATION_IMPORT;
        gen->is_active = true;
        rc = rv_store_generations_add(store, gen, bytes.data, bytes.len, err);
    }
    rv_free((char *)(uintptr_t)bytes.data);
    rv_free(gen);
    return rc;
}

ruvllm_status rv_own_texts_get(struct rv_own_texts *out, struct ruvllm_engine *engine, struct ruvllm_store *store,
                               const char *model, rv_own_texts_fn goes_on, void *user, struct ruvllm_error *err)
{
    bool found = false;
    ruvllm_status rc;

    *out = (struct rv_own_texts){0};
    rc = load(out, store, model, engine->model->hparams.n_vocab, &found, err);
    if (rc || found)
        return rc;
    rc = write_all(out, engine, goes_on, user, err);
    if (!rc)
        rc = save(out, store, model, err);
    if (rc)
        rv_own_texts_release(out);
    return rc ? rv_fail_in(err, rc, "cannot have the model write texts of its own") : RUVLLM_OK;
}
