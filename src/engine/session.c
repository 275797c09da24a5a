/*
 * Threads: files are read and written by the calling thread; what touches blocks or the tree runs on the engine's
 * thread, as an errand. Between the errands of a save the blocks are held by a reference, and blocks that somebody else
 * holds are neither moved nor dropped, so their bytes may be read from outside.
 */
#include "engine/session.h"

#include "base/alloc.h"
#include "engine/input.h"
#include "kv/kv_snapshot.h"

#include <string.h>

enum { SAMPLE_BYTES = 4096 };

uint64_t rv_session_model_hash(const struct ruvllm_engine *engine)
{
    static const uint8_t no_key[RV_KEYED_HASH_KEY];
    const struct ruvllm_model *m = engine->model;
    uint64_t parts[4] = {rv_gguf_file_n_bytes(m->file)};

    for (size_t i = 0; i < rv_gguf_file_n_tensors(m->file); i++) {
        const struct rv_gguf_tensor *t = rv_gguf_file_tensor(m->file, i);
        size_t n = t->n_bytes < SAMPLE_BYTES ? (size_t)t->n_bytes : SAMPLE_BYTES;

        parts[1] = parts[1] * 31 + rv_keyed_hash64(no_key, t->data, n);
    }
    parts[2] = rv_keyed_hash64(no_key, &m->hparams.rope, sizeof(m->hparams.rope));
    parts[3] = m->max_context > m->hparams.rope.original_context; // long-rope models have factors for either case
    return rv_keyed_hash64(no_key, parts, sizeof(parts));
}

static struct rv_kv_snapshot_identity identity_of(const struct ruvllm_engine *e, const struct rv_session_key *key)
{
    static const uint8_t no_key[RV_KEYED_HASH_KEY];
    const char *source = e->model->template_source ? e->model->template_source : "";

    return (struct rv_kv_snapshot_identity){
        .model = rv_session_model_hash(e),
        .adapter_layers = key->adapter_layers,
        .chat_template = rv_keyed_hash64(no_key, source, strlen(source)),
        .tenant = rv_keyed_hash64(no_key, key->tenant ? key->tenant : "", key->tenant ? strlen(key->tenant) : 0)};
}

static void fill_block_bytes(const struct ruvllm_engine *e, uint64_t out[RV_KV_BLOCK_N_FORMATS])
{
    for (int i = 0; i < RV_KV_BLOCK_N_FORMATS; i++)
        out[i] = rv_block_pool_block_bytes(e->pool, (enum rv_kv_block_format)i);
}

static ruvllm_status check_engine(const struct ruvllm_engine *e, struct ruvllm_error *err)
{
    if (!rv_model_has_blocks(e->model))
        return rv_fail(err, RUVLLM_UNSUPPORTED, "backend '%s' keeps no sessions; give the whole conversation instead",
                       e->model->backend->name);
    if (!e->tree)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "sessions need an engine that shares prefixes");
    return RUVLLM_OK;
}

/* ---- saving --------------------------------------------------------------------------------- */

struct save {
    struct rv_prefix_scope scope;
    const int32_t *tokens;
    int32_t n_tokens;
    int32_t *blocks;
    int32_t n_blocks;
    uint8_t *formats;
    const uint8_t **data;
};

static void hold_blocks(struct ruvllm_engine *e, void *arg)
{
    struct save *s = arg;

    s->n_blocks = rv_prefix_tree_find(e->tree, &s->scope, s->tokens, s->n_tokens, s->blocks, NULL);
    for (int32_t i = 0; i < s->n_blocks; i++) {
        rv_block_pool_ref(e->pool, s->blocks[i]);
        s->formats[i] = (uint8_t)rv_block_pool_format(e->pool, s->blocks[i]);
        s->data[i] = rv_block_pool_data(e->pool, s->blocks[i]);
    }
    e->n_held += s->n_blocks;
}

static void release_blocks(struct ruvllm_engine *e, void *arg)
{
    const struct save *s = arg;

    for (int32_t i = 0; i < s->n_blocks; i++)
        rv_block_pool_unref(e->pool, s->blocks[i]);
    e->n_held -= s->n_blocks;
}

static ruvllm_status save_blocks(struct ruvllm_engine *e, const struct rv_session_key *key, struct save *s,
                                 const char *path, struct ruvllm_error *err)
{
    struct rv_kv_snapshot snapshot = {.identity = identity_of(e, key), .tokens = s->tokens};
    ruvllm_status rc;

    if (!rv_engine_call(e, hold_blocks, s))
        return rv_fail(err, RUVLLM_CANCELLED, "the engine closes");
    if (s->n_blocks == 0)
        return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_SESSION,
                            "nothing of this conversation is in memory; a session needs at least 32 computed tokens");
    fill_block_bytes(e, snapshot.block_bytes);
    snapshot.n_blocks = s->n_blocks;
    snapshot.formats = s->formats;
    snapshot.blocks = s->data;
    rc = rv_kv_snapshot_save(&snapshot, path, err);
    (void)rv_engine_call(e, release_blocks, s); // an engine that closes drops them anyway
    return rc;
}

ruvllm_status rv_session_save(struct ruvllm_engine *engine, const struct rv_session_key *key,
                              const struct ruvllm_input *input, const char *path, int32_t *n_tokens,
                              struct ruvllm_error *err)
{
    struct save s = {.scope = rv_engine_scope(engine, key->tenant, &key->policy, key->adapter_layers)};
    int32_t *tokens;
    size_t n;
    ruvllm_status rc;

    rc = check_engine(engine, err);
    if (rc)
        return rc;
    rc = rv_input_tokens(engine->model, input, &tokens, &n, err);
    if (rc)
        return rc;
    s.tokens = tokens;
    s.n_tokens = (int32_t)n;
    s.blocks = rv_calloc(n / RV_KV_BLOCK_TOKENS + 1, sizeof(*s.blocks));
    s.formats = rv_calloc(n / RV_KV_BLOCK_TOKENS + 1, sizeof(*s.formats));
    s.data = rv_calloc(n / RV_KV_BLOCK_TOKENS + 1, sizeof(*s.data));
    if (!s.blocks || !s.formats || !s.data)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the table of a session");
    else
        rc = save_blocks(engine, key, &s, path, err);
    *n_tokens = s.n_blocks * RV_KV_BLOCK_TOKENS;
    rv_free(tokens);
    rv_free(s.blocks);
    rv_free(s.formats);
    rv_free((void *)(uintptr_t)s.data);
    return rc;
}

/* ---- loading -------------------------------------------------------------------------------- */

struct load {
    struct rv_prefix_scope scope;
    const struct rv_kv_snapshot *snapshot;
    int32_t *blocks;
    bool fits;
};

static void put_blocks(struct ruvllm_engine *e, void *arg)
{
    struct load *l = arg;
    const struct rv_kv_snapshot *s = l->snapshot;
    int32_t n = 0;

    while (n < s->n_blocks) {
        enum rv_kv_block_format format = (enum rv_kv_block_format)s->formats[n];
        int32_t block = rv_block_pool_take(e->pool, format);

        if (block < 0 && rv_prefix_tree_evict(e->tree, l->scope.tenant, 1) > 0)
            continue;
        if (block < 0)
            break;
        memcpy(rv_block_pool_data(e->pool, block), s->blocks[n], (size_t)s->block_bytes[format]);
        l->blocks[n++] = block;
    }
    l->fits = n == s->n_blocks;
    if (l->fits)
        rv_prefix_tree_insert(e->tree, &l->scope, s->tokens, l->blocks, n, NULL);
    while (n > 0)
        rv_block_pool_unref(e->pool, l->blocks[--n]); // the tree has its own
}

ruvllm_status rv_session_load(struct ruvllm_engine *engine, const struct rv_session_key *key, const char *path,
                              int32_t *n_tokens, struct ruvllm_error *err)
{
    struct rv_kv_snapshot_identity identity = identity_of(engine, key);
    struct load l = {.scope = rv_engine_scope(engine, key->tenant, &key->policy, key->adapter_layers)};
    uint64_t block_bytes[RV_KV_BLOCK_N_FORMATS];
    struct rv_kv_snapshot_file *file;
    ruvllm_status rc;

    rc = check_engine(engine, err);
    if (rc)
        return rc;
    fill_block_bytes(engine, block_bytes);
    rc = rv_kv_snapshot_load(&file, path, &identity, block_bytes, err);
    if (rc)
        return rc;
    l.snapshot = rv_kv_snapshot_of(file);
    l.blocks = rv_calloc((size_t)l.snapshot->n_blocks, sizeof(*l.blocks));
    if (!l.blocks)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the table of a session");
    else if (!rv_engine_call(engine, put_blocks, &l))
        rc = rv_fail(err, RUVLLM_CANCELLED, "the engine closes");
    else if (!l.fits)
        rc = rv_fail_kind(err, RUVLLM_BUSY, RUVLLM_ERROR_SESSION,
                          "%d blocks do not fit beside what runs; try again later", l.snapshot->n_blocks);
    *n_tokens = rc ? 0 : l.snapshot->n_blocks * RV_KV_BLOCK_TOKENS;
    rv_free(l.blocks);
    rv_kv_snapshot_close(file);
    return rc;
}
