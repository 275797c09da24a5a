/*
 * Matrix by matrix: the pairs of all inputs are read in double, each with its scale in B; the method makes one product
 * of them; the product is written down in 32 bits. An input without a pair there counts as a change by zero.
 *
 * SLERP is done matrix by matrix too. TIES (arXiv 2306.01708): each input keeps its largest elements, the sign of their
 * weighted sum is elected, and who has that sign is averaged with his weight. DARE (arXiv 2311.03099): elements are
 * dropped at random and the rest scaled up, so that the expectation stays; the draws depend on seed, matrix and input.
 */
#include "model/adapter_merge.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "kernels/low_rank.h"

#include <math.h>
#include <string.h>

enum { MAX_FILES = RV_ADAPTER_MERGE_MAX_FILES };

/* Directions closer than this to a line have no arc between them. */
static const double STRAIGHT = 1e-6;

struct merge {
    const struct rv_adapter_file *const *files;
    size_t n_files;
    size_t cursors[MAX_FILES]; // each file's next pair
    const struct rv_adapter_file_base *base;
    const struct ruvllm_merge_params *params;
    double weights[MAX_FILES];
    struct rv_adapter_file *out;
    struct rv_low_rank_loss loss; // of all matrices
};

/* One matrix of the model. */
struct matrix {
    int32_t layer;
    enum rv_part part;
    size_t n_out;
    size_t n_in;
    size_t max_rank; // of the inputs
    size_t sum_rank;
    bool is_there[MAX_FILES];
    struct rv_low_rank inputs[MAX_FILES];
};

static ruvllm_status fail_memory(struct ruvllm_error *err)
{
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a matrix to merge in");
}

/* ---- parameters ---------------------------------------------------------------------------- */

static ruvllm_status check_params(const struct merge *m, struct ruvllm_error *err)
{
    const struct ruvllm_merge_params *p = m->params;
    bool is_sparse = p->method == RUVLLM_MERGE_TIES || p->method == RUVLLM_MERGE_DARE;

    if (m->n_files < 1 || m->n_files > MAX_FILES)
        return rv_fail(err, RUVLLM_INVALID, "%zu adapters cannot be merged; 1 to %d can", m->n_files, MAX_FILES);
    if ((int)p->method < 0 || p->method > RUVLLM_MERGE_DARE)
        return rv_fail(err, RUVLLM_INVALID, "there is no merging method of number %d", (int)p->method);
    if (p->method == RUVLLM_MERGE_SLERP && m->n_files != 2)
        return rv_fail(err, RUVLLM_INVALID, "an arc lies between two adapters; %zu are given", m->n_files);
    if (p->rank < 0 || p->rank > RV_ADAPTER_MAX_RANK)
        return rv_fail(err, RUVLLM_INVALID, "rank %d is not between 0 and %d", p->rank, RV_ADAPTER_MAX_RANK);
    if (is_sparse && !(p->density > 0.0f && p->density <= 1.0f))
        return rv_fail(err, RUVLLM_INVALID, "the density is not above 0 and at most 1");
    return RUVLLM_OK;
}

static ruvllm_status read_weights(struct merge *m, struct ruvllm_error *err)
{
    const struct ruvllm_merge_params *p = m->params;
    double sum = 0;

    for (size_t i = 0; i < m->n_files; i++) {
        m->weights[i] = p->weights ? (double)p->weights[i] : 1;
        sum += m->weights[i];
        if (!isfinite(m->weights[i]))
            return rv_fail(err, RUVLLM_INVALID, "weight %zu is not a finite number", i + 1);
        if (p->method == RUVLLM_MERGE_TIES && m->weights[i] <= 0)
            return rv_fail(err, RUVLLM_INVALID, "weight %zu is not above 0, as votes must be", i + 1);
    }
    if (p->method == RUVLLM_MERGE_AVERAGE) {
        if (!(fabs(sum) > 0))
            return rv_fail(err, RUVLLM_INVALID, "the weights of an average come to nothing");
        for (size_t i = 0; i < m->n_files; i++)
            m->weights[i] /= sum;
    }
    if (p->method == RUVLLM_MERGE_SLERP) {
        if (!p->weights)
            m->weights[1] = 0.5;
        if (m->weights[1] < 0 || m->weights[1] > 1)
            return rv_fail(err, RUVLLM_INVALID, "the place on the arc (the second weight) is not between 0 and 1");
    }
    return RUVLLM_OK;
}

/* ---- inputs -------------------------------------------------------------------------------- */

static bool load_input(struct rv_low_rank *out, const struct rv_adapter_file_pair *pair)
{
    size_t rank = (size_t)pair->rank, n_in = (size_t)pair->n_in, n_out = (size_t)pair->n_out;
    float *a = rv_realloc_array(NULL, rank * n_in, sizeof(*a)), *b = rv_realloc_array(NULL, rank * n_out, sizeof(*b));
    bool is_done = a && b && rv_low_rank_init(out, n_out, n_in, rank);

    if (is_done) {
        rv_adapter_file_floats(&pair->a, pair->n_in, 0, pair->rank, a);
        rv_adapter_file_floats(&pair->b, pair->rank, 0, pair->n_out, b);
        for (size_t i = 0; i < rank * n_in; i++)
            out->a[i] = (double)a[i];
        for (size_t r = 0; r < rank; r++) {
            for (size_t i = 0; i < n_out; i++)
                out->b[r * n_out + i] = (double)pair->scale * (double)b[i * rank + r];
        }
    }
    rv_free(a);
    rv_free(b);
    return is_done;
}

static void release_inputs(struct matrix *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rv_low_rank_release(&x->inputs[i]);
}

/* The pairs of all inputs for one matrix; an absent one is an empty product. False in *is_any: nobody changes it. */
static ruvllm_status load_inputs(struct merge *m, struct matrix *x, bool *is_any, struct ruvllm_error *err)
{
    *is_any = false;
    for (size_t i = 0; i < m->n_files; i++) {
        const struct rv_adapter_file *file = m->files[i];
        const struct rv_adapter_file_pair *pair = &file->pairs[m->cursors[i]];

        if (m->cursors[i] == file->n_pairs || pair->layer != x->layer || (x->layer >= 0 && pair->part != x->part))
            continue;
        m->cursors[i]++;
        if (!load_input(&x->inputs[i], pair))
            return fail_memory(err);
        *is_any = true;
        x->is_there[i] = true;
        x->n_out = (size_t)pair->n_out;
        x->n_in = (size_t)pair->n_in;
        x->sum_rank += (size_t)pair->rank;
        x->max_rank = x->max_rank > (size_t)pair->rank ? x->max_rank : (size_t)pair->rank;
    }
    if (x->sum_rank > RV_ADAPTER_MERGE_MAX_RANKS)
        return rv_fail(err, RUVLLM_TOO_LARGE, "the ranks of one matrix come to %zu, more than %d", x->sum_rank,
                       RV_ADAPTER_MERGE_MAX_RANKS);
    return RUVLLM_OK;
}

/* ---- sums ---------------------------------------------------------------------------------- */

/* The weights of a point on the arc between two changes; on the line where there is no arc. */
static void arc_weights(const struct matrix *x, double t, double out[2])
{
    double norms[2], cosine, angle;

    out[0] = 1 - t;
    out[1] = t;
    if (!x->is_there[0] || !x->is_there[1])
        return;
    norms[0] = sqrt(rv_low_rank_dot(&x->inputs[0], &x->inputs[0]));
    norms[1] = sqrt(rv_low_rank_dot(&x->inputs[1], &x->inputs[1]));
    if (norms[0] == 0 || norms[1] == 0)
        return;
    cosine = rv_low_rank_dot(&x->inputs[0], &x->inputs[1]) / norms[0] / norms[1];
    if (fabs(cosine) > 1 - STRAIGHT)
        return;
    angle = acos(cosine);
    out[0] = sin((1 - t) * angle) / sin(angle);
    out[1] = sin(t * angle) / sin(angle);
}

static bool stack(struct rv_low_rank *out, const struct matrix *x, const double *weights, size_t n)
{
    size_t at = 0;

    if (!rv_low_rank_init(out, x->n_out, x->n_in, x->sum_rank))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct rv_low_rank *input = &x->inputs[i];

        if (!x->is_there[i])
            continue;
        memcpy(out->a + at * x->n_in, input->a, input->rank * x->n_in * sizeof(*out->a));
        for (size_t j = 0; j < input->rank * x->n_out; j++)
            out->b[at * x->n_out + j] = weights[i] * input->b[j];
        at += input->rank;
    }
    return true;
}

/* The largest rank an adapter of this matrix can have. */
static size_t rank_limit(const struct matrix *x)
{
    size_t narrow = x->n_in < x->n_out ? x->n_in : x->n_out;

    return narrow < RV_ADAPTER_MAX_RANK ? narrow : RV_ADAPTER_MAX_RANK;
}

static ruvllm_status merge_sum(struct merge *m, const struct matrix *x, struct rv_low_rank *out,
                               struct ruvllm_error *err)
{
    size_t limit = rank_limit(x), exact = x->sum_rank, wanted = (size_t)m->params->rank;
    const double *weights = m->weights;
    struct rv_low_rank_loss loss;
    double arc[2];

    if (m->params->method == RUVLLM_MERGE_SLERP) {
        arc_weights(x, m->weights[1], arc);
        weights = arc;
    }
    /* A matrix has no more rank than its narrow side; what does not fit an adapter is cut to the inputs' rank. */
    exact = exact < x->n_in ? exact : x->n_in;
    exact = exact < x->n_out ? exact : x->n_out;
    if (wanted == 0)
        wanted = exact <= limit ? exact : x->max_rank;
    if (!stack(out, x, weights, m->n_files))
        return fail_memory(err);
    if (x->sum_rank <= wanted && x->sum_rank <= limit) {
        m->loss.total += rv_low_rank_dot(out, out);
        return RUVLLM_OK;
    }
    if (!rv_low_rank_truncate(out, wanted < limit ? wanted : limit, &loss)) {
        rv_low_rank_release(out);
        return fail_memory(err);
    }
    m->loss.total += loss.total;
    m->loss.dropped += loss.dropped;
    return RUVLLM_OK;
}

/* ---- elements ------------------------------------------------------------------------------ */

/* The k-th largest, k from 1; reorders the numbers. */
static float largest(float *x, size_t n, size_t k)
{
    size_t low = 0, high = n - 1, wanted = k - 1;

    while (low < high) {
        float pivot = x[low + (high - low) / 2];
        size_t i = low, j = high;

        for (;;) {
            while (x[i] > pivot)
                i++;
            while (x[j] < pivot)
                j--;
            if (i >= j)
                break;
            float old = x[i];
            x[i++] = x[j];
            x[j--] = old;
        }
        if (wanted <= j)
            high = j;
        else
            low = j + 1;
    }
    return x[wanted];
}

/* The size an element of an input must have to be among its `density` largest. */
static float trim_threshold(const struct rv_low_rank *input, float density, float *sizes, double *row)
{
    size_t n = input->n_out * input->n_in, keep = (size_t)ceil((double)density * (double)n);

    for (size_t i = 0; i < input->n_out; i++) {
        rv_low_rank_row(input, i, row);
        for (size_t j = 0; j < input->n_in; j++)
            sizes[i * input->n_in + j] = (float)fabs(row[j]);
    }
    return largest(sizes, n, keep < 1 ? 1 : keep < n ? keep : n);
}

/* A row of the merged matrix; rows[i] is that of input i, trimmed. */
static void elect_row(const struct merge *m, const struct matrix *x, double *const *rows, float *out)
{
    for (size_t j = 0; j < x->n_in; j++) {
        double vote = 0, sum = 0, weight = 0;

        for (size_t i = 0; i < m->n_files; i++)
            vote += x->is_there[i] ? m->weights[i] * rows[i][j] : 0;
        for (size_t i = 0; i < m->n_files; i++) {
            if (!x->is_there[i] || rows[i][j] == 0 || (rows[i][j] > 0) != (vote > 0))
                continue;
            sum += m->weights[i] * rows[i][j];
            weight += m->weights[i];
        }
        out[j] = weight > 0 && vote != 0 ? (float)(sum / weight) : 0.0f;
    }
}

static void merge_ties(const struct merge *m, const struct matrix *x, double *const *rows, float *out)
{
    float thresholds[MAX_FILES] = {0};

    for (size_t i = 0; i < m->n_files; i++) {
        if (x->is_there[i])
            thresholds[i] = trim_threshold(&x->inputs[i], m->params->density, out, rows[i]);
    }
    for (size_t r = 0; r < x->n_out; r++) {
        for (size_t i = 0; i < m->n_files; i++) {
            if (!x->is_there[i])
                continue;
            rv_low_rank_row(&x->inputs[i], r, rows[i]);
            for (size_t j = 0; j < x->n_in; j++)
                rows[i][j] = (float)fabs(rows[i][j]) >= thresholds[i] ? rows[i][j] : 0;
        }
        elect_row(m, x, rows, out + r * x->n_in);
    }
}

static uint64_t stream_of(const struct merge *m, const struct matrix *x, size_t i_file)
{
    uint64_t place = ((uint64_t)(x->layer + 1) * RV_N_PARTS + (uint64_t)x->part) * MAX_FILES + i_file;

    return m->params->seed ^ (place + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

static void merge_dare(const struct merge *m, const struct matrix *x, double *const *rows, float *out)
{
    double density = (double)m->params->density;

    memset(out, 0, x->n_out * x->n_in * sizeof(*out));
    for (size_t i = 0; i < m->n_files; i++) {
        struct rv_rng rng;

        if (!x->is_there[i])
            continue;
        rv_rng_init(&rng, stream_of(m, x, i));
        for (size_t r = 0; r < x->n_out; r++) {
            rv_low_rank_row(&x->inputs[i], r, rows[i]);
            for (size_t j = 0; j < x->n_in; j++) {
                if (rv_rng_uniform(&rng) < density)
                    out[r * x->n_in + j] += (float)(m->weights[i] * rows[i][j] / density);
            }
        }
    }
}

static ruvllm_status merge_elements(struct merge *m, const struct matrix *x, struct rv_low_rank *out,
                                    struct ruvllm_error *err)
{
    size_t rank = m->params->rank ? (size_t)m->params->rank : x->max_rank, limit = rank_limit(x);
    float *full = rv_realloc_array(NULL, x->n_out * x->n_in, sizeof(*full));
    double *block = rv_realloc_array(NULL, m->n_files * x->n_in, sizeof(*block)), *rows[MAX_FILES] = {0};
    struct rv_low_rank_loss loss = {0};
    bool is_done = full && block;

    for (size_t i = 0; is_done && i < m->n_files; i++)
        rows[i] = block + i * x->n_in;
    if (is_done && m->params->method == RUVLLM_MERGE_TIES)
        merge_ties(m, x, rows, full);
    else if (is_done)
        merge_dare(m, x, rows, full);
    is_done = is_done && rv_low_rank_from_matrix(out, full, x->n_out, x->n_in, rank < limit ? rank : limit,
                                                 stream_of(m, x, MAX_FILES - 1) + 1, &loss);
    rv_free(full);
    rv_free(block);
    if (!is_done)
        return fail_memory(err);
    m->loss.total += loss.total;
    m->loss.dropped += loss.dropped;
    return RUVLLM_OK;
}

/* ---- results ------------------------------------------------------------------------------- */

static ruvllm_status store(struct merge *m, const struct matrix *x, const struct rv_low_rank *product,
                           struct ruvllm_error *err)
{
    struct rv_adapter_file_pair *pair;
    ruvllm_status rc = rv_adapter_file_pair_at(m->out, m->base, x->layer, x->part, &pair, err);
    float *a, *b;

    if (rc)
        return rc;
    a = rv_adapter_file_alloc(m->out, product->rank * x->n_in * sizeof(*a));
    b = rv_adapter_file_alloc(m->out, product->rank * x->n_out * sizeof(*b));
    if (!a || !b)
        return fail_memory(err);
    for (size_t i = 0; i < product->rank * x->n_in; i++)
        a[i] = (float)product->a[i];
    for (size_t r = 0; r < product->rank; r++) {
        for (size_t i = 0; i < x->n_out; i++)
            b[i * product->rank + r] = (float)product->b[r * x->n_out + i];
    }
    pair->rank = (int32_t)product->rank;
    pair->a = (struct rv_adapter_file_matrix){GGML_TYPE_F32, a};
    pair->b = (struct rv_adapter_file_matrix){GGML_TYPE_F32, b};
    return RUVLLM_OK;
}

static ruvllm_status merge_matrix(struct merge *m, int32_t layer, enum rv_part part, struct ruvllm_error *err)
{
    bool is_sparse = m->params->method == RUVLLM_MERGE_TIES || m->params->method == RUVLLM_MERGE_DARE;
    struct matrix x = {.layer = layer, .part = part};
    struct rv_low_rank product = {0};
    bool is_any;
    ruvllm_status rc = load_inputs(m, &x, &is_any, err);

    if (!rc && is_any)
        rc = is_sparse ? merge_elements(m, &x, &product, err) : merge_sum(m, &x, &product, err);
    if (!rc && is_any)
        rc = store(m, &x, &product, err);
    rv_low_rank_release(&product);
    release_inputs(&x, m->n_files);
    return rc;
}

ruvllm_status rv_adapter_merge(struct rv_adapter_file **out, const struct rv_adapter_file *const *files, size_t n_files,
                               const struct rv_adapter_file_base *base, const struct ruvllm_merge_params *params,
                               double *error, struct ruvllm_error *err)
{
    struct merge m = {.files = files, .n_files = n_files, .base = base, .params = params};
    ruvllm_status rc = check_params(&m, err);

    *out = NULL;
    if (!rc)
        rc = read_weights(&m, err);
    if (!rc)
        rc = rv_adapter_file_new(&m.out, err);
    for (int32_t layer = 0; !rc && layer < base->hparams->n_layers; layer++) {
        for (int part = 0; !rc && part < RV_N_PARTS; part++)
            rc = merge_matrix(&m, layer, (enum rv_part)part, err);
    }
    if (!rc)
        rc = merge_matrix(&m, -1, RV_PART_ATTN_NORM, err);
    if (!rc)
        rc = rv_adapter_file_seal(m.out, base, err);
    if (rc) {
        rv_adapter_file_close(m.out);
        return rc;
    }
    *error = m.loss.total > 0 ? sqrt(m.loss.dropped / m.loss.total) : 0;
    *out = m.out;
    return RUVLLM_OK;
}
