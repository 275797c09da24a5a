/*
 * For each row and adapter, A x and then B (A x) are products with one matrix of a stack, which ggml computes for
 * mixtures of experts. Place 0 of every stack is zero, for rows without adapters; ranks are filled up with zeros.
 */
#include "graph/lora_stack.h"

#include "base/alloc.h"
#include "kernels/half.h"

#include <ggml-alloc.h>
#include <string.h>

enum { FIRST_PLACES = 8 };

/* One matrix's stacks; NULL where no adapter changes it. */
struct pair_stack {
    struct ggml_tensor *a; /* [n_in, rank, places] F16 */
    struct ggml_tensor *b; /* [rank, n_out, places] F16 */
    int32_t n_in, n_out;   // 0: none
};

struct place {
    struct rv_adapter *adapter; // referred to; NULL: free
    uint64_t last_used;         // step
};

/* Whose matrices each row takes, and how much of each, for all rows of a batch or those read out. */
struct rows {
    int32_t *places; // [rows][n_used]
    float *factors;
    struct ggml_tensor *places_in;  /* [n_used, rows] I32 */
    struct ggml_tensor *factors_in; /* [1, n_used, rows] F32 */
};

struct rv_lora_stack {
    struct rv_lora_stack_config config;
    struct ggml_context *ctx;
    ggml_backend_buffer_t buffer;
    struct pair_stack (*layers)[RV_N_PARTS]; // n_layers
    struct pair_stack head;
    struct place *places;
    int32_t n_places; // the first is nobody's
    int32_t rank;     // of all stacks
    uint32_t version;
    uint64_t step;
    uint16_t *staging;                // of one matrix in one place
    const struct rv_adapter **wanted; // max_rows * RV_ADAPTER_MIX_ALL
    int32_t n_wanted;                 // different ones of the batch
    int32_t n_used;
    struct rows rows[2]; // by only_out
};

/* ---- what a batch asks for ------------------------------------------------------------------- */

static void want(struct rv_lora_stack *s, const struct rv_adapter *adapter)
{
    for (int32_t i = s->n_wanted - 1; i >= 0; i--) {
        if (s->wanted[i] == adapter)
            return;
    }
    s->wanted[s->n_wanted++] = adapter;
}

static ruvllm_status collect(struct rv_lora_stack *s, const struct rv_batch *batch, struct rv_lora_stack_shape *shape,
                             struct ruvllm_error *err)
{
    const struct rv_adapter_mix *last = NULL;

    s->n_wanted = 0;
    for (int32_t row = 0; row < batch->n_rows; row++) {
        const struct rv_adapter_mix *mix = rv_batch_mix(batch, row);

        if (!mix || mix == last)
            continue;
        last = mix;
        if (mix->gates)
            return rv_fail(err, RUVLLM_UNSUPPORTED, "adapters that tokens weigh need the CPU, not device '%s'",
                           rv_device_name(s->config.device));
        RV_ASSERT(mix->n_adapters <= RV_ADAPTER_MIX_ALL);
        shape->n_used = mix->n_adapters > shape->n_used ? mix->n_adapters : shape->n_used;
        for (int32_t i = 0; i < mix->n_adapters; i++) {
            want(s, mix->adapters[i]);
            shape->needs |= (mix->adapters[i]->head.rank > 0 ? RV_LORA_HEAD : 0U) |
                            (mix->adapters[i]->layers ? RV_LORA_LAYERS : 0U);
        }
    }
    return RUVLLM_OK;
}

static int32_t find_place(const struct rv_lora_stack *s, const struct rv_adapter *adapter)
{
    for (int32_t i = 1; i < s->n_places; i++) {
        if (s->places[i].adapter == adapter)
            return i;
    }
    return 0;
}

static bool pair_fits(const struct rv_adapter_pair *pair, const struct pair_stack *stack)
{
    return pair->rank == 0 || stack->a;
}

static bool fits(const struct rv_lora_stack *s, const struct rv_adapter *adapter)
{
    bool does = adapter->max_rank <= s->rank && pair_fits(&adapter->head, &s->head);

    for (int32_t i = 0; does && adapter->layers && i < adapter->n_layers; i++) {
        for (int part = 0; part < RV_N_PARTS; part++)
            does = does && pair_fits(&adapter->layers[i][part], &s->layers[i][part]);
    }
    return does;
}

/* ---- the stacks ------------------------------------------------------------------------------ */

static void empty(struct rv_lora_stack *s)
{
    for (int32_t i = 0; i < s->n_places; i++)
        rv_adapter_unref(s->places[i].adapter);
    rv_free(s->places);
    rv_free(s->staging);
    ggml_backend_buffer_free(s->buffer);
    ggml_free(s->ctx);
    s->places = NULL;
    s->staging = NULL;
    s->buffer = NULL;
    s->ctx = NULL;
    s->n_places = 0;
}

static void widen(struct pair_stack *stack, const struct rv_adapter_pair *pair)
{
    if (pair->rank == 0)
        return;
    stack->n_in = pair->n_in;
    stack->n_out = pair->n_out;
}

/* Gives a matrix its tensors; *widest is the largest of their places, in numbers. */
static void make_tensors(struct rv_lora_stack *s, struct pair_stack *stack, size_t *widest)
{
    size_t wide = (size_t)(stack->n_in > stack->n_out ? stack->n_in : stack->n_out) * (size_t)s->rank;

    if (stack->n_in == 0)
        return;
    stack->a = ggml_new_tensor_3d(s->ctx, GGML_TYPE_F16, stack->n_in, s->rank, s->n_places);
    stack->b = ggml_new_tensor_3d(s->ctx, GGML_TYPE_F16, s->rank, stack->n_out, s->n_places);
    *widest = wide > *widest ? wide : *widest;
}

static ruvllm_status allocate_stacks(struct rv_lora_stack *s, struct ruvllm_error *err)
{
    int32_t n_layers = s->config.hparams->n_layers;
    size_t n_tensors = 2 * ((size_t)n_layers * RV_N_PARTS + 1), widest = 0;
    ggml_backend_buffer_type_t buft = ggml_backend_get_default_buffer_type(rv_device_backend(s->config.device, 0));

    s->ctx = ggml_init((struct ggml_init_params){.mem_size = n_tensors * ggml_tensor_overhead(), .no_alloc = true});
    s->places = rv_calloc((size_t)s->n_places, sizeof(*s->places));
    if (s->ctx && s->places) {
        make_tensors(s, &s->head, &widest);
        for (int32_t i = 0; i < n_layers; i++)
            for (int part = 0; part < RV_N_PARTS; part++)
                make_tensors(s, &s->layers[i][part], &widest);
        s->buffer = ggml_backend_alloc_ctx_tensors_from_buft(s->ctx, buft);
        s->staging = rv_calloc(widest, sizeof(*s->staging));
    }
    if (!s->buffer || !s->staging) {
        empty(s);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate stacks for %d adapters of rank %d on device '%s'",
                       s->n_wanted, s->rank, rv_device_name(s->config.device));
    }
    ggml_backend_buffer_set_usage(s->buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    ggml_backend_buffer_clear(s->buffer, 0);
    return RUVLLM_OK;
}

/* Stacks that hold the batch's adapters, and matrices and ranks of those before. */
static ruvllm_status remake(struct rv_lora_stack *s, struct ruvllm_error *err)
{
    int32_t n_places = s->n_places > FIRST_PLACES ? s->n_places : FIRST_PLACES;

    while (n_places < s->n_wanted + 1)
        n_places *= 2;
    for (int32_t i = 0; i < s->n_wanted; i++) {
        const struct rv_adapter *adapter = s->wanted[i];

        s->rank = adapter->max_rank > s->rank ? adapter->max_rank : s->rank;
        widen(&s->head, &adapter->head);
        for (int32_t layer = 0; adapter->layers && layer < adapter->n_layers; layer++)
            for (int part = 0; part < RV_N_PARTS; part++)
                widen(&s->layers[layer][part], &adapter->layers[layer][part]);
    }
    empty(s);
    s->n_places = n_places;
    s->version++;
    return allocate_stacks(s, err);
}

/* Copies one pair to a place; what it lacks in rank, or all of it, is zero there. */
static bool put_pair(struct rv_lora_stack *s, const struct pair_stack *stack, const struct rv_adapter_pair *pair,
                     int32_t place)
{
    size_t n_in = (size_t)stack->n_in, n_out = (size_t)stack->n_out, all = (size_t)s->rank, rank = (size_t)pair->rank;
    bool is_finite = true;

    if (!stack->a)
        return true;
    memset(s->staging, 0, all * n_in * sizeof(*s->staging));
    if (rank > 0)
        memcpy(s->staging, pair->a, rank * n_in * sizeof(*s->staging));
    ggml_backend_tensor_set(stack->a, s->staging, (size_t)place * stack->a->nb[2], all * n_in * sizeof(*s->staging));
    memset(s->staging, 0, all * n_out * sizeof(*s->staging));
    for (size_t j = 0; j < rank; j++) {
        for (size_t o = 0; o < n_out; o++) {
            uint16_t half = rv_half_from_float(pair->scale * rv_half_to_float(pair->b[j * n_out + o]));

            s->staging[o * all + j] = half;
            is_finite = is_finite && (half & 0x7c00) != 0x7c00;
        }
    }
    ggml_backend_tensor_set(stack->b, s->staging, (size_t)place * stack->b->nb[2], all * n_out * sizeof(*s->staging));
    return is_finite;
}

static ruvllm_status put(struct rv_lora_stack *s, const struct rv_adapter *adapter, int32_t place,
                         struct ruvllm_error *err)
{
    static const struct rv_adapter_pair none = {0};
    bool is_finite;

    rv_adapter_unref(s->places[place].adapter);
    s->places[place].adapter = NULL;
    is_finite = put_pair(s, &s->head, &adapter->head, place);
    for (int32_t i = 0; i < s->config.hparams->n_layers; i++)
        for (int part = 0; part < RV_N_PARTS; part++)
            is_finite = put_pair(s, &s->layers[i][part], adapter->layers ? &adapter->layers[i][part] : &none, place) &&
                        is_finite;
    if (!is_finite)
        return rv_fail(err, RUVLLM_UNSUPPORTED,
                       "an adapter's numbers times its scale are not finite in 16 bits, which device '%s' needs",
                       rv_device_name(s->config.device));
    /* The count of references is all that changes in it. */
    s->places[place].adapter = rv_adapter_ref((struct rv_adapter *)adapter);
    return RUVLLM_OK;
}

/* A free place, or that of the adapter not used for longest, none of this step's. */
static int32_t pick_place(const struct rv_lora_stack *s)
{
    int32_t best = 0;

    for (int32_t i = 1; i < s->n_places; i++) {
        if (!s->places[i].adapter)
            return i;
        if (s->places[i].last_used < s->step && (best == 0 || s->places[i].last_used < s->places[best].last_used))
            best = i;
    }
    RV_ASSERT(best > 0);
    return best;
}

static ruvllm_status settle(struct rv_lora_stack *s, struct ruvllm_error *err)
{
    bool is_small = s->n_places < s->n_wanted + 1;
    ruvllm_status rc = RUVLLM_OK;

    s->step++;
    for (int32_t i = 0; i < s->n_wanted; i++) {
        int32_t place = find_place(s, s->wanted[i]);

        if (place > 0)
            s->places[place].last_used = s->step;
        else
            is_small = is_small || !fits(s, s->wanted[i]);
    }
    if (is_small)
        rc = remake(s, err);
    for (int32_t i = 0; i < s->n_wanted && !rc; i++) {
        int32_t place = find_place(s, s->wanted[i]);

        if (place > 0)
            continue;
        place = pick_place(s);
        rc = put(s, s->wanted[i], place, err);
        s->places[place].last_used = s->step;
    }
    return rc;
}

static void fill_rows(struct rv_lora_stack *s, const struct rv_batch *batch, const int32_t *numbers, int32_t n_rows,
                      struct rows *rows)
{
    for (int32_t i = 0; i < n_rows; i++) {
        const struct rv_adapter_mix *mix = rv_batch_mix(batch, numbers ? numbers[i] : i);

        for (int32_t k = 0; k < s->n_used; k++) {
            bool is_there = mix && k < mix->n_adapters;

            rows->places[i * s->n_used + k] = is_there ? find_place(s, mix->adapters[k]) : 0;
            rows->factors[i * s->n_used + k] = is_there ? mix->weights[k] : 0.0f;
        }
    }
}

ruvllm_status rv_lora_stack_begin(struct rv_lora_stack *stack, const struct rv_batch *batch,
                                  struct rv_lora_stack_shape *shape, struct ruvllm_error *err)
{
    ruvllm_status rc;

    *shape = (struct rv_lora_stack_shape){0};
    RV_ASSERT(batch->n_rows <= stack->config.max_rows);
    rc = collect(stack, batch, shape, err);
    if (rc || shape->needs == 0) {
        shape->n_used = 0;
        return rc;
    }
    rc = settle(stack, err);
    if (rc)
        return rc;
    stack->n_used = shape->n_used;
    shape->version = stack->version;
    fill_rows(stack, batch, NULL, batch->n_rows, &stack->rows[0]);
    fill_rows(stack, batch, batch->out_rows, batch->n_out, &stack->rows[1]);
    return RUVLLM_OK;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

void rv_lora_stack_begin_graph(struct rv_lora_stack *stack, struct ggml_context *ctx, int32_t n_rows, int32_t n_out)
{
    for (int i = 0; i < 2; i++) {
        struct rows *rows = &stack->rows[i];
        int32_t n = i == 0 ? n_rows : n_out > 0 ? n_out : 1;

        rows->places_in = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, stack->n_used, n);
        rows->factors_in = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 1, stack->n_used, n);
        ggml_set_input(rows->places_in);
        ggml_set_input(rows->factors_in);
    }
}

/* y [n_out, rows] and what adapters make of x [n_in, rows]. */
static struct ggml_tensor *add_changes(const struct rv_lora_stack *s, struct ggml_context *ctx, struct ggml_tensor *x,
                                       struct ggml_tensor *y, const struct pair_stack *stack, bool only_out)
{
    const struct rows *rows = &s->rows[only_out];
    struct ggml_tensor *inner, *change;

    if (!stack->a)
        return y;
    x = ggml_reshape_3d(ctx, x, x->ne[0], 1, x->ne[1]);
    inner = ggml_mul_mat_id(ctx, stack->a, x, rows->places_in); /* [rank, n_used, rows] */
    inner = ggml_mul(ctx, inner, rows->factors_in);
    change = ggml_mul_mat_id(ctx, stack->b, inner, rows->places_in); /* [n_out, n_used, rows] */
    for (int32_t k = 0; k < s->n_used; k++)
        y = ggml_add(ctx, y,
                     ggml_view_2d(ctx, change, change->ne[0], change->ne[2], change->nb[2], (size_t)k * change->nb[1]));
    return y;
}

void rv_lora_stack_change(struct rv_lora_stack *stack, struct ggml_context *ctx, struct ggml_tensor *x,
                          struct rv_lora_targets *targets)
{
    for (int32_t i = 0; i < targets->n; i++)
        targets->y[i] = add_changes(stack, ctx, x, targets->y[i], &stack->layers[targets->layer][targets->parts[i]],
                                    targets->only_out);
}

struct ggml_tensor *rv_lora_stack_head(struct rv_lora_stack *stack, struct ggml_context *ctx, struct ggml_tensor *x)
{
    return add_changes(stack, ctx, x, x, &stack->head, true);
}

static void set_input(struct ggml_tensor *t, const void *data)
{
    if (t->buffer) // one that no node uses gets no memory
        ggml_backend_tensor_set(t, data, 0, ggml_nbytes(t));
}

void rv_lora_stack_set_inputs(struct rv_lora_stack *stack)
{
    for (int i = 0; i < 2; i++) {
        set_input(stack->rows[i].places_in, stack->rows[i].places);
        set_input(stack->rows[i].factors_in, stack->rows[i].factors);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

ruvllm_status rv_lora_stack_new(struct rv_lora_stack **out, const struct rv_lora_stack_config *config,
                                struct ruvllm_error *err)
{
    struct rv_lora_stack *s = rv_calloc(1, sizeof(*s));
    size_t n = (size_t)config->max_rows * RV_ADAPTER_MIX_ALL;
    bool is_good = s != NULL;

    *out = NULL;
    if (s) {
        s->config = *config;
        s->layers = rv_calloc((size_t)config->hparams->n_layers, sizeof(*s->layers));
        s->wanted = rv_calloc(n, sizeof(struct rv_adapter *));
        is_good = s->layers && s->wanted;
    }
    for (int i = 0; s && i < 2; i++) {
        s->rows[i].places = rv_calloc(n, sizeof(*s->rows[i].places));
        s->rows[i].factors = rv_calloc(n, sizeof(*s->rows[i].factors));
        is_good = is_good && s->rows[i].places && s->rows[i].factors;
    }
    if (!is_good) {
        rv_lora_stack_free(s);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what adapters need for %d rows", config->max_rows);
    }
    *out = s;
    return RUVLLM_OK;
}

void rv_lora_stack_free(struct rv_lora_stack *stack)
{
    if (!stack)
        return;
    empty(stack);
    for (int i = 0; i < 2; i++) {
        rv_free(stack->rows[i].places);
        rv_free(stack->rows[i].factors);
    }
    rv_free(stack->layers);
    rv_free(stack->wanted);
    rv_free(stack);
}
