/* Kept as a generation of nobody's, as the model's whitening is. */
#include "engine/own_texts.h"

#include "base/alloc.h"
#include "engine/scribe.h"
#include "store/store_generations.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LEAST_TEXTS = 64,
    MOST_TEXTS = 384,
    MANY_DIMS = 512,
    LENGTH = 96,
    FIRST_SEED = 0x7E87,
    MAX_TEXTS = 4096,
    MAX_LENGTH = 8192
};

/* Nobody votes as this one, so nothing is learned that these texts could be written with. */
static const char WRITER[] = ".own_texts";
static const char MAGIC[8] = "rvtexts";

/* What texts are written into. */
struct writing {
    struct rv_own_texts *out;
    int32_t first_token;
    rv_own_texts_fn goes_on;
    void *user;
};

struct header {
    char magic[8];
    int32_t n;
    int32_t length;
    double nll;
};

bool rv_own_texts_are_by(const char *tenant)
{
    return tenant && strcmp(tenant, WRITER) == 0;
}

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

/* One that ended early is left out. */
static void take_text(void *user, uint64_t id, const struct ruvllm_response *response)
{
    struct writing *w = user;
    struct rv_own_texts *out = w->out;
    int32_t *row = out->tokens + (size_t)out->n * (size_t)out->length;

    (void)id;
    if (response->n_tokens + 1 != (size_t)out->length)
        return;
    row[0] = w->first_token;
    memcpy(row + 1, response->tokens, response->n_tokens * sizeof(*row));
    for (size_t i = 0; i < response->n_tokens; i++)
        out->nll -= (double)response->logprobs[i * response->logprobs_per_token].logprob;
    out->n++;
}

static bool goes_on(void *user, float fraction)
{
    const struct writing *w = user;

    (void)fraction;
    return !w->goes_on || w->goes_on(w->user);
}

/* Few texts are learned by heart and then hold nothing else in place; a small model writes many as soon. */
static int32_t how_many(const struct ruvllm_engine *e)
{
    int32_t n = LEAST_TEXTS * MANY_DIMS / e->model->hparams.n_embd;

    return n < LEAST_TEXTS ? LEAST_TEXTS : n > MOST_TEXTS ? MOST_TEXTS : n;
}

static ruvllm_status write_all(struct rv_own_texts *out, struct ruvllm_engine *e, struct writing *w,
                               struct ruvllm_error *err)
{
    struct rv_scribe_task task = {.tenant = WRITER,
                                  .n_texts = how_many(e),
                                  .seed = FIRST_SEED,
                                  .has_logprobs = true,
                                  .goes_on = goes_on,
                                  .on_text = take_text,
                                  .user = w};
    ruvllm_status rc;

    out->length = e->model->max_context < LENGTH ? e->model->max_context : LENGTH;
    out->tokens = rv_calloc((size_t)task.n_texts, (size_t)out->length * sizeof(*out->tokens));
    if (!out->tokens)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold %d texts", task.n_texts);
    task.n_tokens = out->length - 1;
    rc = rv_scribe_write(e, &task, err);
    if (!rc && out->n < task.n_texts / 2)
        rc = rv_fail(err, RUVLLM_INTERNAL, "the model ended %d of %d texts early", task.n_texts - out->n, task.n_texts);
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
                               const char *model, rv_own_texts_fn goes_on_with, void *user, struct ruvllm_error *err)
{
    struct writing w = {
        .out = out, .first_token = rv_scribe_first_token(engine), .goes_on = goes_on_with, .user = user};
    bool found = false;
    ruvllm_status rc;

    *out = (struct rv_own_texts){0};
    rc = load(out, store, model, engine->model->hparams.n_vocab, &found, err);
    if (rc || found)
        return rc;
    rc = write_all(out, engine, &w, err);
    if (!rc)
        rc = save(out, store, model, err);
    if (rc)
        rv_own_texts_release(out);
    return rc ? rv_fail_in(err, rc, "cannot have the model write texts of its own") : RUVLLM_OK;
}
