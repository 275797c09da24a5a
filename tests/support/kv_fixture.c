/*
 * A token is the value of all numbers of its rows: constant rows survive quantising with little error. All layers hold
 * the same bytes, which are copied and compared rather than computed: the suites write millions of tokens.
 */
#include "support/kv_fixture.h"

#include "support/test.h"

#include <math.h>
#include <string.h>

enum { LAYERS = 4, HEAD_DIM = 32 };

struct rv_block_pool *kv_fixture_pool(int32_t n_blocks)
{
    size_t block = 2 * rv_kv_block_k_bytes(RV_KV_BLOCK_F16, HEAD_DIM) * LAYERS;
    struct rv_block_pool_config config = {
        .n_layers = LAYERS, .n_kv_heads = 1, .head_dim = HEAD_DIM, .budget = (size_t)n_blocks * block, .poison = true};
    struct rv_block_pool *pool = NULL;

    assert_ok(rv_block_pool_new(&pool, &config, err));
    return pool;
}

/* Keys and values of the only head. */
static size_t layer_bytes(enum rv_kv_block_format format)
{
    return rv_kv_block_k_bytes(format, HEAD_DIM) + rv_kv_block_v_bytes(format, HEAD_DIM);
}

void kv_fixture_write(struct rv_block_pool *pool, int32_t block, int32_t slot, int32_t token)
{
    uint8_t *data = rv_block_pool_data(pool, block);
    float row[HEAD_DIM];

    assert_int_equal(rv_block_pool_format(pool, block), RV_KV_BLOCK_F16);
    for (int i = 0; i < HEAD_DIM; i++)
        row[i] = (float)token;
    rv_kv_block_put(data, data + rv_block_pool_v_offset(pool, RV_KV_BLOCK_F16, 0, 0), HEAD_DIM, slot, row, row);
    for (size_t layer = 1; layer < LAYERS; layer++)
        memcpy(data + layer * layer_bytes(RV_KV_BLOCK_F16), data, layer_bytes(RV_KV_BLOCK_F16));
}

static int32_t token_of(const float *row)
{
    float sum = 0;

    for (int i = 0; i < HEAD_DIM; i++)
        sum += row[i] / HEAD_DIM;
    /* Halves and scales are good to a thousandth; tokens are a twelfth apart. */
    return fabsf(sum - roundf(sum)) < 0.1F ? (int32_t)roundf(sum) : -1;
}

int32_t kv_fixture_read(struct rv_block_pool *pool, int32_t block, int32_t slot)
{
    enum rv_kv_block_format format = rv_block_pool_format(pool, block);
    const uint8_t *data = rv_block_pool_data(pool, block);
    float k[HEAD_DIM], v[HEAD_DIM];

    rv_kv_block_get(format, data, data + rv_block_pool_v_offset(pool, format, 0, 0), HEAD_DIM, slot, k, v);
    for (size_t layer = 1; layer < LAYERS; layer++) {
        if (memcmp(data + layer * layer_bytes(format), data, layer_bytes(format)) != 0)
            return -1;
    }
    return token_of(k) == token_of(v) ? token_of(k) : -1;
}

bool kv_fixture_compute(struct rv_kv_seq *seq, const int32_t *tokens, int32_t n)
{
    if (!rv_kv_seq_reserve(seq, n))
        return false;
    for (int32_t i = seq->len; i < seq->len + n; i++)
        kv_fixture_write(seq->pool, seq->blocks[i / RV_KV_BLOCK_TOKENS], i % RV_KV_BLOCK_TOKENS, tokens[i]);
    rv_kv_seq_advance(seq, n);
    return true;
}

bool kv_fixture_holds(const struct rv_kv_seq *seq, const int32_t *tokens)
{
    for (int32_t i = 0; i < seq->len; i++) {
        if (kv_fixture_read(seq->pool, seq->blocks[i / RV_KV_BLOCK_TOKENS], i % RV_KV_BLOCK_TOKENS) != tokens[i])
            return false;
    }
    return true;
}
