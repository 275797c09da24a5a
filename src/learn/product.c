/*
 * Work is cut by rows of the result, whose number decides the cut, never the number of threads.
 */
#include "learn/product.h"

#include "base/alloc.h"

#include <string.h>

enum { STRIP = RV_TILE_GEMM_STRIP, FORWARD_ROWS = 64, GRADIENT_ROWS = 128, MAX_BACKWARD_ROWS = 256, PARTS_AIM = 8 };

/* What the parts of one product need. */
struct work {
    const struct rv_product *p;
    const struct rv_tile_gemm_matrix *w;
    const float *bias;
    const float *in;     // packed, or the columns to pack
    const float *packed; // of `in`
    float *out;
    const float *other; // dots: the rows that stay
    int32_t n_columns;
    int32_t rows_each; // rows of the result in a part
    float scale;
    bool adds;
};

static struct rv_tile_gemm_matrix float_matrix(const float *data, int32_t n_rows, int32_t n_cols)
{
    return (struct rv_tile_gemm_matrix){.data = data,
                                        .row_bytes = (size_t)n_cols * sizeof(float),
                                        .n_rows = n_rows,
                                        .n_cols = n_cols,
                                        .block = 1,
                                        .block_bytes = sizeof(float)};
}

static int32_t n_parts(int32_t n, int32_t each)
{
    return (n + each - 1) / each;
}

static int32_t end_of(int32_t part, int32_t each, int32_t n)
{
    return (part + 1) * each < n ? (part + 1) * each : n;
}

static void pack_part(void *user, int32_t part, int32_t thread)
{
    struct work *w = user;
    int32_t n_rows = w->rows_each;

    (void)thread;
    rv_tile_gemm_pack(w->in + (size_t)part * STRIP, (size_t)w->n_columns, n_rows, STRIP,
                      w->out + (size_t)part * STRIP * (size_t)n_rows);
}

static void pack(struct rv_product *p, const float *x, int32_t n_rows, int32_t n_columns, float *out)
{
    struct work w = {.in = x, .out = out, .n_columns = n_columns, .rows_each = n_rows};

    rv_team_run(p->team, n_columns / STRIP, pack_part, &w);
}

static void set_row(float *row, float value, int32_t n)
{
    for (int32_t t = 0; t < n; t++)
        row[t] = value;
}

static void forward_part(void *user, int32_t part, int32_t thread)
{
    struct work *w = user;
    int32_t first = part * w->rows_each, end = end_of(part, w->rows_each, w->w->n_rows);

    for (int32_t i = first; i < end; i++)
        set_row(w->out + (size_t)i * (size_t)w->n_columns, w->bias ? w->bias[i] : 0.0f, w->n_columns);
    rv_tile_gemm_multiply(w->p->ops, w->w, first, end, w->packed, w->n_columns, w->out, (size_t)w->n_columns,
                          rv_product_scratch(w->p, thread));
}

/* Few rows: a part is a strip of tokens. */
static void low_part(void *user, int32_t part, int32_t thread)
{
    struct work *w = user;
    float *out = w->out + (size_t)part * STRIP;

    for (int32_t i = 0; i < w->w->n_rows; i++)
        memset(out + (size_t)i * (size_t)w->n_columns, 0, STRIP * sizeof(*out));
    rv_tile_gemm_multiply(w->p->ops, w->w, 0, w->w->n_rows, w->packed + (size_t)part * STRIP * (size_t)w->w->n_cols,
                          STRIP, out, (size_t)w->n_columns, rv_product_scratch(w->p, thread));
}

static void backward_part(void *user, int32_t part, int32_t thread)
{
    struct work *w = user;
    int32_t first = part * w->rows_each, end = end_of(part, w->rows_each, w->w->n_cols);

    if (!w->adds)
        memset(w->out + (size_t)first * (size_t)w->n_columns, 0,
               (size_t)(end - first) * (size_t)w->n_columns * sizeof(float));
    rv_tile_gemm_multiply_transposed(w->p->ops, w->w, first, end, w->packed, w->n_columns, w->out, (size_t)w->n_columns,
                                     rv_product_scratch(w->p, thread));
}

static void gradient_part(void *user, int32_t part, int32_t thread)
{
    struct work *w = user;
    int32_t n = w->w->n_cols, first = part * GRADIENT_ROWS, end = end_of(part, GRADIENT_ROWS, n);

    (void)thread;
    w->p->ops->dots(w->other, w->w->n_rows, w->in + (size_t)first * (size_t)w->n_columns, end - first,
                    (size_t)w->n_columns, w->n_columns, w->scale, w->out + first, (size_t)n);
}

/* out[rank][T] = m x; x is packed. */
static void lower(struct rv_product *p, const struct rv_tile_gemm_matrix *m, const float *packed, int32_t n_columns,
                  float *out)
{
    struct work w = {.p = p, .w = m, .packed = packed, .out = out, .n_columns = n_columns};

    rv_team_run(p->team, n_columns / STRIP, low_part, &w);
}

/* out[n_cols][T] = m' x, x packed. */
static void transposed(struct rv_product *p, const struct rv_tile_gemm_matrix *m, const float *packed,
                       int32_t n_columns, bool adds, float *out)
{
    int32_t unit = m->block > STRIP ? m->block : STRIP, aim = (m->n_cols + PARTS_AIM - 1) / PARTS_AIM;
    struct work w = {.p = p, .w = m, .packed = packed, .out = out, .n_columns = n_columns, .adds = adds};

    w.rows_each = (aim + unit - 1) / unit * unit;
    if (w.rows_each > MAX_BACKWARD_ROWS)
        w.rows_each = MAX_BACKWARD_ROWS / unit * unit;
    rv_team_run(p->team, n_parts(m->n_cols, w.rows_each), backward_part, &w);
}

/* grad[rank][n] += scale low x' */
static void gradient(struct rv_product *p, const struct rv_tile_gemm_matrix *shape, const float *low, const float *x,
                     int32_t n_columns, float scale, float *grad)
{
    struct work w = {.p = p, .w = shape, .other = low, .in = x, .n_columns = n_columns, .scale = scale, .out = grad};

    rv_team_run(p->team, n_parts(shape->n_cols, GRADIENT_ROWS), gradient_part, &w);
}

static void scale_all(float *x, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
}

void rv_product_forward(struct rv_product *product, const struct rv_product_linear *linear, const float *x,
                        int32_t n_columns, float *y)
{
    struct rv_product *p = product;
    const struct rv_trainable_pair *pair = linear->pair;
    struct work w = {.p = p,
                     .w = &linear->w,
                     .bias = linear->bias,
                     .packed = p->packed,
                     .out = y,
                     .n_columns = n_columns,
                     .rows_each = FORWARD_ROWS};

    RV_ASSERT(n_columns <= p->max_columns && n_columns % STRIP == 0 && linear->w.n_cols <= p->max_rows);
    pack(p, x, linear->w.n_cols, n_columns, p->packed);
    rv_team_run(p->team, n_parts(linear->w.n_rows, FORWARD_ROWS), forward_part, &w);
    if (pair && pair->rank > 0) {
        struct rv_tile_gemm_matrix a = float_matrix(pair->a, pair->rank, pair->n_in);
        struct rv_tile_gemm_matrix b = float_matrix(pair->b, pair->rank, pair->n_out);

        lower(p, &a, p->packed, n_columns, p->low[0]);
        scale_all(p->low[0], (size_t)pair->rank * (size_t)n_columns, pair->scale);
        pack(p, p->low[0], pair->rank, n_columns, p->low[2]);
        transposed(p, &b, p->low[2], n_columns, true, y);
    }
}

void rv_product_backward(struct rv_product *product, const struct rv_product_linear *linear, const float *x,
                         const float *dy, int32_t n_columns, bool adds, float *dx)
{
    struct rv_product *p = product;
    const struct rv_trainable_pair *pair = linear->pair;
    bool has_pair = pair && pair->rank > 0;
    struct rv_tile_gemm_matrix a, b;

    RV_ASSERT(n_columns <= p->max_columns && linear->w.n_rows <= p->max_rows && linear->w.n_cols <= p->max_rows);
    if (has_pair) {
        a = float_matrix(pair->a, pair->rank, pair->n_in);
        b = float_matrix(pair->b, pair->rank, pair->n_out);
        pack(p, x, pair->n_in, n_columns, p->packed);
        lower(p, &a, p->packed, n_columns, p->low[0]);
    }
    if (has_pair || dx)
        pack(p, dy, linear->w.n_rows, n_columns, p->packed);
    if (dx)
        transposed(p, &linear->w, p->packed, n_columns, adds, dx);
    if (!has_pair)
        return;
    lower(p, &b, p->packed, n_columns, p->low[1]);
    gradient(p, &b, p->low[0], dy, n_columns, pair->scale, pair->grad_b);
    gradient(p, &a, p->low[1], x, n_columns, pair->scale, pair->grad_a);
    if (dx) {
        scale_all(p->low[1], (size_t)pair->rank * (size_t)n_columns, pair->scale);
        pack(p, p->low[1], pair->rank, n_columns, p->low[2]);
        transposed(p, &a, p->low[2], n_columns, true, dx);
    }
}

ruvllm_status rv_product_matrix(struct rv_tile_gemm_matrix *out, const struct rv_gguf_tensor *tensor,
                                struct ruvllm_error *err)
{
    const struct ggml_type_traits *traits = ggml_get_type_traits(tensor->type);

    if (tensor->type != GGML_TYPE_F32 && !traits->to_float)
        return rv_fail(err, RUVLLM_UNSUPPORTED, "tensor '%.*s' is of type %s, which cannot be trained through",
                       (int)tensor->name.len, tensor->name.data, ggml_type_name(tensor->type));
    *out = (struct rv_tile_gemm_matrix){.data = tensor->data,
                                        .row_bytes = ggml_row_size(tensor->type, tensor->ne[0]),
                                        .n_rows = (int32_t)tensor->ne[1],
                                        .n_cols = (int32_t)tensor->ne[0],
                                        .block = (int32_t)traits->blck_size,
                                        .block_bytes = traits->type_size,
                                        .decode = tensor->type == GGML_TYPE_F32 ? NULL : traits->to_float};
    RV_ASSERT(out->block <= MAX_BACKWARD_ROWS);
    return RUVLLM_OK;
}

ruvllm_status rv_product_init(struct rv_product *out, struct rv_team *team, int32_t max_rows, int32_t max_columns,
                              struct ruvllm_error *err)
{
    size_t n_threads = (size_t)rv_team_n_threads(team), columns = (size_t)max_columns;
    bool ok = true;

    *out =
        (struct rv_product){.ops = rv_tile_gemm_best(), .team = team, .max_rows = max_rows, .max_columns = max_columns};
    out->scratch = rv_calloc(n_threads, RV_TILE_GEMM_SCRATCH * sizeof(float));
    out->packed = rv_calloc((size_t)max_rows, columns * sizeof(float));
    for (int i = 0; i < 3; i++) {
        out->low[i] = rv_calloc(RV_TRAINABLE_MAX_RANK, columns * sizeof(float));
        ok = ok && out->low[i];
    }
    if (ok && out->scratch && out->packed)
        return RUVLLM_OK;
    rv_product_release(out);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate room for products of %d tokens", max_columns);
}

void rv_product_release(struct rv_product *product)
{
    rv_free(product->scratch);
    rv_free(product->packed);
    for (int i = 0; i < 3; i++)
        rv_free(product->low[i]);
    *product = (struct rv_product){0};
}

float *rv_product_scratch(const struct rv_product *product, int32_t thread)
{
    return product->scratch + (size_t)thread * RV_TILE_GEMM_SCRATCH;
}
