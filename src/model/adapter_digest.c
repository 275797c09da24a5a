/*
 * Norms without the matrices: the inner product of s B A and t D C, both changes of one matrix, is the sum over rows i
 * of A and j of C of s t (A_i . C_j) (B_i . D_j), B_i being column i. Sums are doubles: the difference of two
 * generations is small beside either.
 */
#include "model/adapter_digest.h"

#include "base/alloc.h"
#include "kernels/half.h"

#include <math.h>

enum { LANES = 8 };

/* ---- hashes -------------------------------------------------------------------------------- */

/* Where it is, its shape and scale, its numbers. */
static void add_pair(struct rv_sha256 *sha, int32_t layer, int32_t part, const struct rv_adapter_pair *pair)
{
    int32_t head[5] = {layer, part, pair->rank, pair->n_in, pair->n_out};

    rv_sha256_add(sha, head, sizeof(head));
    rv_sha256_add(sha, &pair->scale, sizeof(pair->scale));
    rv_sha256_add(sha, pair->a, (size_t)pair->rank * (size_t)pair->n_in * sizeof(*pair->a));
    rv_sha256_add(sha, pair->b, (size_t)pair->rank * (size_t)pair->n_out * sizeof(*pair->b));
}

/* The first 16 digits as a number; never 0, which stands for no change. */
static uint64_t first_word(const char *hex)
{
    uint64_t word = 0;

    for (int i = 0; i < 16; i++)
        word = word << 4 | (uint64_t)(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
    return word ? word : 1;
}

static void fill_hashes(struct rv_adapter_digest *out, const struct rv_adapter *adapter)
{
    struct rv_sha256 sha, layers;
    char hex[RV_SHA256_HEX_LEN + 1];

    rv_sha256_init(&sha);
    for (int32_t layer = 0; adapter->layers && layer < adapter->n_layers; layer++) {
        for (int32_t part = 0; part < RV_N_PARTS; part++) {
            const struct rv_adapter_pair *pair = &adapter->layers[layer][part];

            if (pair->rank == 0)
                continue;
            add_pair(&sha, layer, part, pair);
            out->n_pairs++;
        }
    }
    layers = sha;
    rv_sha256_finish(&layers, hex);
    out->layers = out->n_pairs ? first_word(hex) : 0;
    out->changes_head = adapter->head.rank > 0;
    if (out->changes_head)
        add_pair(&sha, -1, 0, &adapter->head);
    rv_sha256_finish(&sha, out->hash);
}

/* ---- norms --------------------------------------------------------------------------------- */

/* Rows of one pair in 32 bits: A's, then B's. */
struct rows {
    float *data;
    size_t n_data;
};

static bool fill_rows(struct rows *rows, const struct rv_adapter_pair *pair)
{
    size_t n_a = (size_t)pair->rank * (size_t)pair->n_in, n_b = (size_t)pair->rank * (size_t)pair->n_out;

    if (n_a + n_b > rows->n_data) {
        float *data = rv_realloc_array(rows->data, n_a + n_b, sizeof(*data));

        if (!data)
            return false;
        rows->data = data;
        rows->n_data = n_a + n_b;
    }
    for (size_t i = 0; i < n_a; i++)
        rows->data[i] = rv_half_to_float(pair->a[i]);
    for (size_t i = 0; i < n_b; i++)
        rows->data[n_a + i] = rv_half_to_float(pair->b[i]);
    return true;
}

static double dot(const float *x, const float *y, size_t n)
{
    double lanes[LANES] = {0}, sum = 0;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t k = 0; k < LANES; k++)
            lanes[k] += (double)x[i + k] * (double)y[i + k];
    }
    for (size_t k = 0; k < LANES; k++)
        sum += lanes[k];
    for (; i < n; i++)
        sum += (double)x[i] * (double)y[i];
    return sum;
}

static double inner_of_rows(const struct rv_adapter_pair *p, const float *x, const struct rv_adapter_pair *q,
                            const float *y)
{
    size_t n_in = (size_t)p->n_in, n_out = (size_t)p->n_out;
    const float *xb = x + (size_t)p->rank * n_in, *yb = y + (size_t)q->rank * n_in;
    double sum = 0;

    for (size_t i = 0; i < (size_t)p->rank; i++) {
        for (size_t j = 0; j < (size_t)q->rank; j++)
            sum += dot(x + i * n_in, y + j * n_in, n_in) * dot(xb + i * n_out, yb + j * n_out, n_out);
    }
    return sum * (double)p->scale * (double)q->scale;
}

/* |p|^2, |q|^2 and p.q are added to sums. */
static bool add_products(double sums[3], const struct rv_adapter_pair *p, const struct rv_adapter_pair *q,
                         struct rows rows[2])
{
    bool has_p = p && p->rank > 0, has_q = q && q->rank > 0;

    if ((has_p && !fill_rows(&rows[0], p)) || (has_q && !fill_rows(&rows[1], q)))
        return false;
    if (has_p)
        sums[0] += inner_of_rows(p, rows[0].data, p, rows[0].data);
    if (has_q)
        sums[1] += inner_of_rows(q, rows[1].data, q, rows[1].data);
    if (has_p && has_q)
        sums[2] += inner_of_rows(p, rows[0].data, q, rows[1].data);
    return true;
}

/* b may be NULL. */
static ruvllm_status products(double sums[3], const struct rv_adapter *a, const struct rv_adapter *b,
                              struct ruvllm_error *err)
{
    struct rows rows[2] = {{0}};
    bool fits = true;

    for (int32_t layer = 0; layer < a->n_layers; layer++) {
        for (int32_t part = 0; part < RV_N_PARTS && fits; part++)
            fits = add_products(sums, a->layers ? &a->layers[layer][part] : NULL,
                                b && b->layers ? &b->layers[layer][part] : NULL, rows);
    }
    if (fits)
        fits = add_products(sums, &a->head, b ? &b->head : NULL, rows);
    rv_free(rows[0].data);
    rv_free(rows[1].data);
    return fits ? RUVLLM_OK : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the rows of an adapter");
}

ruvllm_status rv_adapter_digest(struct rv_adapter_digest *out, const struct rv_adapter *adapter,
                                struct ruvllm_error *err)
{
    double sums[3] = {0};
    ruvllm_status rc;

    *out = (struct rv_adapter_digest){0};
    fill_hashes(out, adapter);
    rc = products(sums, adapter, NULL, err);
    out->norm = sqrt(sums[0]);
    return rc;
}

ruvllm_status rv_adapter_digest_distance(double *out, const struct rv_adapter *a, const struct rv_adapter *b,
                                         struct ruvllm_error *err)
{
    double sums[3] = {0}, square;
    ruvllm_status rc;

    *out = 0;
    if (a->n_layers != b->n_layers)
        return rv_fail(err, RUVLLM_INVALID, "the adapters belong to different models");
    rc = products(sums, a, b, err);
    square = sums[0] + sums[1] - 2 * sums[2];
    *out = square > 0 ? sqrt(square) : 0;
    return rc;
}
