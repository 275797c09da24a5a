/*
 * Rows are sorted by their adapters into groups and groups are cut into items of some rows; when there are fewer items
 * than threads, each is cut again by outputs, and A x is computed once more for each cut. Threads draw items from a
 * counter until none is left. Which thread computes an item, and with which rows, changes no bit of a row's result: a
 * row is in one item of a cut, and its adapters add in the order of its mix.
 *
 * Threads: begin() runs alone, before the step. During the step the plan is only read, but for the factors, which the
 * node of gates writes, each row by one thread; the counters are atomic (relaxed: ggml's barrier between nodes orders
 * everything else); each thread has scratch memory of its own.
 */
#include "graph/lora.h"

#include "base/alloc.h"
#include "kernels/lora_kernel.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    ITEM_ROWS = 24,     // whole tiles of every kernel
    CUT_OUTPUTS = 64,   // cuts are multiples of these
    NODES_PER_LAYER = 5 // queries, keys and values (apart in a last layer that is narrowed), o, gate and up, down
};

/* Rows with the same adapters in the same order. */
struct group {
    const struct rv_adapter_mix *mix; // of one of them; NULL: those without any
    int32_t n_rows;
    int32_t first; // in a plan's order
};

struct item {
    int32_t group;
    int32_t first; // in the plan's order
    int32_t n_rows;
};

/* The rows that a node changes: all of the batch, or those read out. */
struct plan {
    int32_t *order;      // rows of the tensors, group after group
    const int32_t *rows; // their numbers in the batch; NULL: the same
    struct item *items;
    int32_t n_items;
    int32_t n_cuts;
};

/* What a node knows besides its tensors. */
struct node {
    struct rv_lora *lora;
    int32_t layer;
    int32_t n_parts;
    enum rv_part parts[RV_LORA_MAX_TARGETS];
    bool only_out;
    atomic_int next_item;
};

struct scratch {
    float *inner; // [ITEM_ROWS][RV_ADAPTER_MAX_RANK]
    const float *x[ITEM_ROWS];
    float *y[ITEM_ROWS];
};

struct rv_lora {
    struct rv_lora_config config;
    const struct rv_lora_kernel *kernel;
    const struct rv_batch *batch;
    struct group *groups; // max_rows + 1; the first is of those without any
    int32_t n_groups;
    int32_t *group_of_mix;                // max_rows
    int32_t *group_of_row;                // max_rows
    float (*factors)[RV_ADAPTER_MIX_ALL]; // max_rows: weights, times gates
    struct plan plans[2];                 // by only_out
    struct node *nodes;                   // NODES_PER_LAYER a layer, the head's, the gates'
    int32_t n_nodes;
    struct scratch *scratch; // n_threads
    float *memory;           // of all scratch
};

/* ---- planning ------------------------------------------------------------------------------ */

static bool same_adapters(const struct rv_adapter_mix *a, const struct rv_adapter_mix *b)
{
    return a->n_adapters == b->n_adapters &&
           memcmp(a->adapters, b->adapters, (size_t)a->n_adapters * sizeof(a->adapters[0])) == 0;
}

static int32_t find_group(struct rv_lora *l, const struct rv_adapter_mix *mix)
{
    for (int32_t i = 1; i < l->n_groups; i++) {
        if (same_adapters(l->groups[i].mix, mix))
            return i;
    }
    l->groups[l->n_groups] = (struct group){.mix = mix};
    return l->n_groups++;
}

static uint32_t needs_of(const struct rv_adapter_mix *mix)
{
    uint32_t needs = mix->gates ? RV_LORA_GATES : 0;

    for (int32_t i = 0; i < mix->n_adapters; i++)
        needs |=
            (mix->adapters[i]->head.rank > 0 ? RV_LORA_HEAD : 0U) | (mix->adapters[i]->layers ? RV_LORA_LAYERS : 0U);
    return needs;
}

/* Which group each row is in; what all of them need. */
static uint32_t group_rows(struct rv_lora *l, const struct rv_batch *batch)
{
    uint32_t needs = 0;

    l->n_groups = 1;
    l->groups[0] = (struct group){0};
    for (int32_t i = 0; i < batch->n_mixes; i++)
        l->group_of_mix[i] = -1;
    for (int32_t row = 0; row < batch->n_rows; row++) {
        const struct rv_adapter_mix *mix = rv_batch_mix(batch, row);
        int32_t *group;

        l->group_of_row[row] = 0;
        if (!mix)
            continue;
        group = &l->group_of_mix[batch->adapters[row]];
        if (*group < 0) {
            RV_ASSERT(mix->n_adapters <= RV_ADAPTER_MIX_ALL);
            *group = find_group(l, mix);
            needs |= needs_of(mix);
        }
        l->group_of_row[row] = *group;
        memcpy(l->factors[row], mix->weights, sizeof(l->factors[row]));
    }
    return needs;
}

static void add_items(struct rv_lora *l, struct plan *plan, int32_t i_group)
{
    const struct group *g = &l->groups[i_group];

    for (int32_t i = 0; i < g->n_rows; i += ITEM_ROWS) {
        int32_t n = g->n_rows - i < ITEM_ROWS ? g->n_rows - i : ITEM_ROWS;

        plan->items[plan->n_items++] = (struct item){.group = i_group, .first = g->first + i, .n_rows = n};
    }
}

/* Sorts the rows by their groups, each group's in the order of the batch; makes items. */
static void fill_plan(struct rv_lora *l, struct plan *plan, const int32_t *rows, int32_t n_rows)
{
    int32_t n_before = 0, n_working;

    plan->rows = rows;
    plan->n_items = 0;
    for (int32_t i = 0; i < l->n_groups; i++)
        l->groups[i].n_rows = 0;
    for (int32_t i = 0; i < n_rows; i++)
        l->groups[l->group_of_row[rows ? rows[i] : i]].n_rows++;
    for (int32_t i = 0; i < l->n_groups; i++) {
        l->groups[i].first = n_before;
        n_before += l->groups[i].n_rows;
        l->groups[i].n_rows = 0;
    }
    for (int32_t i = 0; i < n_rows; i++) {
        struct group *g = &l->groups[l->group_of_row[rows ? rows[i] : i]];

        plan->order[g->first + g->n_rows++] = i;
    }
    for (int32_t i = 1; i < l->n_groups; i++)
        add_items(l, plan, i);
    n_working = plan->n_items;
    add_items(l, plan, 0); // the short ones last
    plan->n_cuts = n_working > 0 ? (l->config.n_threads + n_working - 1) / n_working : 1;
}

uint32_t rv_lora_begin(struct rv_lora *lora, const struct rv_batch *batch)
{
    uint32_t needs;

    if (!batch->adapters)
        return 0;
    RV_ASSERT(batch->n_rows <= lora->config.max_rows && batch->n_mixes <= lora->config.max_rows);
    needs = group_rows(lora, batch);
    if (!(needs & (RV_LORA_HEAD | RV_LORA_LAYERS)))
        return 0;
    lora->batch = batch;
    fill_plan(lora, &lora->plans[0], NULL, batch->n_rows);
    fill_plan(lora, &lora->plans[1], batch->out_rows, batch->n_out);
    for (int32_t i = 0; i < lora->n_nodes; i++)
        atomic_store_explicit(&lora->nodes[i].next_item, 0, memory_order_relaxed);
    return needs;
}

/* ---- computing ----------------------------------------------------------------------------- */

static float *row_of(const struct ggml_tensor *t, int32_t row)
{
    return (float *)(void *)((char *)t->data + (size_t)row * t->nb[1]);
}

/* The outputs of one cut of n_out. */
static int32_t cut_start(int32_t n_out, int32_t cut, int32_t n_cuts)
{
    int32_t n_units = (n_out + CUT_OUTPUTS - 1) / CUT_OUTPUTS;
    int32_t start = (int32_t)((int64_t)n_units * cut / n_cuts) * CUT_OUTPUTS;

    return start < n_out ? start : n_out;
}

/* One pair's change of an item's rows; x and y are in the scratch. */
static void add_pair(const struct rv_lora *l, const struct plan *plan, const struct item *item, int32_t cut,
                     int32_t i_adapter, const struct rv_adapter_pair *pair, struct scratch *s)
{
    struct rv_lora_call call = {.rank = pair->rank,
                                .n_in = pair->n_in,
                                .n_out = pair->n_out,
                                .n_rows = item->n_rows,
                                .a = pair->a,
                                .b = pair->b,
                                .x = s->x,
                                .y = s->y,
                                .inner = s->inner,
                                .first = cut_start(pair->n_out, cut, plan->n_cuts),
                                .end = cut_start(pair->n_out, cut + 1, plan->n_cuts)};

    if (call.first == call.end)
        return;
    l->kernel->shrink(&call);
    for (int32_t i = 0; i < item->n_rows; i++) {
        int32_t row = plan->order[item->first + i];
        float factor = l->factors[plan->rows ? plan->rows[row] : row][i_adapter] * pair->scale;

        for (int32_t j = 0; j < pair->rank; j++)
            s->inner[(size_t)i * (size_t)pair->rank + (size_t)j] *= factor;
    }
    l->kernel->expand(&call);
}

static void gather(const struct plan *plan, const struct item *item, const struct ggml_tensor *x,
                   const struct ggml_tensor *y, struct scratch *s)
{
    for (int32_t i = 0; i < item->n_rows; i++) {
        s->x[i] = row_of(x, plan->order[item->first + i]);
        s->y[i] = row_of(y, plan->order[item->first + i]);
    }
}

static void change_item(const struct node *n, const struct plan *plan, const struct item *item, int32_t cut,
                        const struct ggml_tensor *dst, struct scratch *s)
{
    const struct rv_adapter_mix *mix = n->lora->groups[item->group].mix;
    const struct ggml_tensor *x = dst->src[n->n_parts];

    for (int32_t t = 0; mix && t < n->n_parts; t++) {
        gather(plan, item, x, dst->src[t], s);
        for (int32_t i = 0; i < mix->n_adapters; i++) {
            const struct rv_adapter *adapter = mix->adapters[i];
            const struct rv_adapter_pair *pair = adapter->layers ? &adapter->layers[n->layer][n->parts[t]] : NULL;

            if (!pair || pair->rank == 0)
                continue;
            RV_ASSERT(pair->n_in == x->ne[0] && pair->n_out == dst->src[t]->ne[0]);
            add_pair(n->lora, plan, item, cut, i, pair, s);
        }
    }
}

static void head_item(const struct node *n, const struct plan *plan, const struct item *item, int32_t cut,
                      const struct ggml_tensor *dst, struct scratch *s)
{
    const struct rv_adapter_mix *mix = n->lora->groups[item->group].mix;
    int32_t n_embd = (int32_t)dst->ne[0];
    int32_t first = cut_start(n_embd, cut, plan->n_cuts), end = cut_start(n_embd, cut + 1, plan->n_cuts);

    gather(plan, item, dst->src[0], dst, s);
    for (int32_t i = 0; i < item->n_rows; i++)
        memcpy(s->y[i] + first, s->x[i] + first, (size_t)(end - first) * sizeof(float));
    for (int32_t i = 0; mix && i < mix->n_adapters; i++) {
        const struct rv_adapter_pair *pair = &mix->adapters[i]->head;

        if (pair->rank == 0)
            continue;
        RV_ASSERT(pair->n_in == n_embd && pair->n_out == n_embd);
        add_pair(n->lora, plan, item, cut, i, pair, s);
    }
}

/* Asks for what tells where the numbers of an item's adapters are. */
static void fetch_pairs(const struct node *n, const struct item *item)
{
    const struct rv_adapter_mix *mix = n->lora->groups[item->group].mix;

    for (int32_t i = 0; mix && i < mix->n_adapters; i++) {
        for (int32_t t = 0; mix->adapters[i]->layers && t < n->n_parts; t++)
            __builtin_prefetch(&mix->adapters[i]->layers[n->layer][n->parts[t]]);
    }
}

static void run_node(struct ggml_tensor *dst, int i_thread, int n_threads, void *user)
{
    struct node *n = user;
    const struct plan *plan = &n->lora->plans[n->only_out];
    int32_t n_all = plan->n_items * plan->n_cuts;

    RV_ASSERT(i_thread < n->lora->config.n_threads);
    for (;;) {
        int32_t i = atomic_fetch_add_explicit(&n->next_item, 1, memory_order_relaxed);
        const struct item *item = &plan->items[i / plan->n_cuts];

        if (i >= n_all)
            return;
        if (i + n_threads < n_all)
            fetch_pairs(n, &plan->items[(i + n_threads) / plan->n_cuts]);
        if (n->layer < 0)
            head_item(n, plan, item, i % plan->n_cuts, dst, &n->lora->scratch[i_thread]);
        else
            change_item(n, plan, item, i % plan->n_cuts, dst, &n->lora->scratch[i_thread]);
    }
}

/* ---- gates --------------------------------------------------------------------------------- */

/* Sums in 16 lanes become vector code. */
static float dot(const float *a, const float *b, int32_t n)
{
    enum { LANES = 16 };
    float sums[LANES] = {0}, total = 0;
    int32_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++)
            sums[j] += a[i + j] * b[i + j];
    for (int j = 0; j < LANES; j++)
        total += sums[j];
    for (; i < n; i++)
        total += a[i] * b[i];
    return total;
}

static void weigh_row(const struct rv_adapter_mix *mix, const float *x, int32_t n_embd, float *factors)
{
    float scores[RV_ADAPTER_MIX_ALL], max = -INFINITY, total = 0;

    for (int32_t i = 0; i < mix->n_adapters; i++) {
        scores[i] = dot(mix->gates + (size_t)i * (size_t)n_embd, x, n_embd);
        max = fmaxf(max, scores[i]);
    }
    for (int32_t i = 0; i < mix->n_adapters; i++) {
        scores[i] = expf(scores[i] - max);
        total += scores[i];
    }
    for (int32_t i = 0; i < mix->n_adapters; i++)
        factors[i] = mix->weights[i] * (scores[i] / total);
}

static void run_gates(struct ggml_tensor *dst, int i_thread, int n_threads, void *user)
{
    const struct node *n = user;
    const struct rv_batch *batch = n->lora->batch;
    int32_t first = (int32_t)((int64_t)batch->n_rows * i_thread / n_threads);
    int32_t end = (int32_t)((int64_t)batch->n_rows * (i_thread + 1) / n_threads);

    for (int32_t row = first; row < end; row++) {
        const struct rv_adapter_mix *mix = rv_batch_mix(batch, row);

        if (mix && mix->gates)
            weigh_row(mix, row_of(dst, row), (int32_t)dst->ne[0], n->lora->factors[row]);
    }
}

/* ---- nodes --------------------------------------------------------------------------------- */

void rv_lora_begin_graph(struct rv_lora *lora)
{
    lora->n_nodes = 0;
}

static struct node *new_node(struct rv_lora *l, int32_t layer, bool only_out)
{
    struct node *n = &l->nodes[l->n_nodes++];

    RV_ASSERT(l->n_nodes <= l->config.hparams->n_layers * NODES_PER_LAYER + 2);
    n->lora = l;
    n->layer = layer;
    n->only_out = only_out;
    n->n_parts = 0;
    atomic_store_explicit(&n->next_item, 0, memory_order_relaxed);
    return n;
}

struct ggml_tensor *rv_lora_gate(struct rv_lora *lora, struct ggml_context *ctx, struct ggml_tensor *x)
{
    return ggml_custom_inplace(ctx, x, NULL, 0, run_gates, GGML_N_TASKS_MAX, new_node(lora, -1, false));
}

void rv_lora_change(struct rv_lora *lora, struct ggml_context *ctx, struct ggml_cgraph *graph, struct ggml_tensor *x,
                    struct rv_lora_targets *targets)
{
    struct ggml_tensor *args[RV_LORA_MAX_TARGETS];
    struct node *n = new_node(lora, targets->layer, targets->only_out);

    n->n_parts = targets->n;
    memcpy(n->parts, targets->parts, sizeof(n->parts));
    for (int32_t i = 1; i < targets->n; i++)
        args[i - 1] = targets->y[i];
    args[targets->n - 1] = x;
    targets->y[0] = ggml_custom_inplace(ctx, targets->y[0], args, targets->n, run_node, GGML_N_TASKS_MAX, n);
    ggml_build_forward_expand(graph, targets->y[0]);
}

struct ggml_tensor *rv_lora_head(struct rv_lora *lora, struct ggml_context *ctx, struct ggml_tensor *x)
{
    return ggml_custom_4d(ctx, GGML_TYPE_F32, x->ne[0], x->ne[1], 1, 1, &x, 1, run_node, GGML_N_TASKS_MAX,
                          new_node(lora, -1, true));
}

/* ---- life ---------------------------------------------------------------------------------- */

static bool allocate(struct rv_lora *l)
{
    size_t max_rows = (size_t)l->config.max_rows, n_threads = (size_t)l->config.n_threads;
    size_t inner = (size_t)ITEM_ROWS * RV_ADAPTER_MAX_RANK;

    l->groups = rv_calloc(max_rows + 1, sizeof(*l->groups));
    l->group_of_mix = rv_calloc(max_rows, sizeof(*l->group_of_mix));
    l->group_of_row = rv_calloc(max_rows, sizeof(*l->group_of_row));
    l->factors = rv_calloc(max_rows, sizeof(*l->factors));
    l->nodes = rv_calloc((size_t)l->config.hparams->n_layers * NODES_PER_LAYER + 2, sizeof(*l->nodes));
    l->scratch = rv_calloc(n_threads, sizeof(*l->scratch));
    l->memory = rv_calloc(n_threads * inner, sizeof(*l->memory));
    for (int i = 0; i < 2; i++) {
        l->plans[i].order = rv_calloc(max_rows, sizeof(*l->plans[i].order));
        l->plans[i].items = rv_calloc(max_rows, sizeof(*l->plans[i].items)); // each has a row at least
        if (!l->plans[i].order || !l->plans[i].items)
            return false;
    }
    if (!l->groups || !l->group_of_mix || !l->group_of_row || !l->factors || !l->nodes || !l->scratch || !l->memory)
        return false;
    for (size_t i = 0; i < n_threads; i++)
        l->scratch[i].inner = l->memory + i * inner;
    return true;
}

ruvllm_status rv_lora_new(struct rv_lora **out, const struct rv_lora_config *config, struct ruvllm_error *err)
{
    struct rv_lora *l = rv_calloc(1, sizeof(*l));

    *out = NULL;
    if (l)
        l->config = *config;
    if (!l || !allocate(l)) {
        rv_lora_free(l);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate what adapters need for %d rows", config->max_rows);
    }
    l->kernel = rv_lora_kernel_best();
    *out = l;
    return RUVLLM_OK;
}

void rv_lora_free(struct rv_lora *lora)
{
    if (!lora)
        return;
    for (int i = 0; i < 2; i++) {
        rv_free(lora->plans[i].order);
        rv_free(lora->plans[i].items);
    }
    rv_free(lora->groups);
    rv_free(lora->group_of_mix);
    rv_free(lora->group_of_row);
    rv_free(lora->factors);
    rv_free(lora->nodes);
    rv_free(lora->scratch);
    rv_free(lora->memory);
    rv_free(lora);
}
