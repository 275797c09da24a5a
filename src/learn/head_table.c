#include "learn/head_table.h"

#include "base/alloc.h"
#include "kernels/vec.h"

#include <string.h>

enum { CHUNK = 256 }; // rows that are allocated together

static size_t chunks_of(size_t n_rows)
{
    return (n_rows + CHUNK - 1) / CHUNK;
}

ruvllm_status rv_head_table_init(struct rv_head_table *out, const struct rv_manifest *manifest,
                                 const struct rv_hparams *hparams, size_t max_bytes, struct ruvllm_error *err)
{
    ruvllm_status rc;

    *out = (struct rv_head_table){0};
    rc = rv_head_gradient_init(&out->head, manifest, hparams, err);
    if (rc)
        return rc;
    out->max_rows = max_bytes / (out->head.n_dims * sizeof(float));
    out->max_rows = out->max_rows > CHUNK ? out->max_rows : CHUNK;
    out->max_rows = out->max_rows < out->head.n_vocab ? out->max_rows : out->head.n_vocab;
    out->slots = rv_realloc_array(NULL, out->head.n_vocab, sizeof(*out->slots));
    out->chunks = rv_calloc(chunks_of(out->max_rows), sizeof(*out->chunks));
    if (!out->slots || !out->chunks) {
        rv_head_table_release(out);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a table of the head's rows");
    }
    memset(out->slots, 0xff, out->head.n_vocab * sizeof(*out->slots));
    return RUVLLM_OK;
}

void rv_head_table_release(struct rv_head_table *table)
{
    for (size_t i = 0; table->chunks && i < chunks_of(table->max_rows); i++)
        rv_free(table->chunks[i]);
    rv_free(table->chunks);
    rv_free(table->slots);
    rv_head_gradient_release(&table->head);
    *table = (struct rv_head_table){0};
}

void rv_head_table_settle(struct rv_head_table *table)
{
    if (table->max_rows == table->head.n_vocab || table->n_rows <= table->max_rows / 2)
        return;
    memset(table->slots, 0xff, table->head.n_vocab * sizeof(*table->slots));
    table->n_rows = 0;
}

const float *rv_head_table_row(struct rv_head_table *table, int32_t token)
{
    size_t dims = table->head.n_dims, at;
    float *row;

    if (token < 0 || (size_t)token >= table->head.n_vocab)
        return NULL;
    if (table->slots[token] >= 0) {
        at = (size_t)table->slots[token];
        return table->chunks[at / CHUNK] + at % CHUNK * dims;
    }
    at = table->n_rows;
    if (at == table->max_rows)
        return NULL;
    if (!table->chunks[at / CHUNK])
        table->chunks[at / CHUNK] = rv_realloc_array(NULL, CHUNK * dims, sizeof(float));
    if (!table->chunks[at / CHUNK])
        return NULL;
    row = table->chunks[at / CHUNK] + at % CHUNK * dims;
    rv_head_gradient_row(&table->head, token, row);
    table->slots[token] = (int32_t)at;
    table->n_rows++;
    return row;
}

double rv_head_table_length(const struct rv_head_table *table)
{
    double sum = 0;

    for (size_t i = 0; i < table->n_rows; i++)
        sum += rv_vec_norm(table->chunks[i / CHUNK] + i % CHUNK * table->head.n_dims, table->head.n_dims);
    return sum > 0 ? sum / (double)table->n_rows : 1;
}
