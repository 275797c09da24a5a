/*
 * Nodes are rows of one table, found through a hash map by their key: the hash of the parent's key and of their own 32
 * tokens, so a key stands for everything before it too. A path is walked from the first block on, one lookup a block.
 *
 * Leaves lie in one of two heaps, ordered by when they were last used: those that may go, and those of tenants that
 * have no more than their floor. Whoever used a node used its parents, so a node that becomes a leaf is at least as
 * recent as the child it lost. Whether a block is in use is the pool's to know, and changes without notice; so leaves
 * in use lie in the heaps too, and count as used now when they come up.
 */
#include "kv/prefix_tree.h"

#include "base/alloc.h"
#include "base/id_heap.h"
#include "base/id_map.h"

#include <string.h>

enum { NONE = -1 };
enum { MAY_GO, PROTECTED, N_HEAPS };

struct node {
    struct rv_keyed_hash key;
    struct rv_prefix_scope scope;
    int32_t tokens[RV_KV_BLOCK_TOKENS];
    uint64_t used_at; // by the tree's clock
    int32_t block;    // NONE: the node is free
    int32_t parent;   // NONE: first block of its sequences
    int32_t n_children;
    int32_t tenant; // row of tenants
    int32_t prev;   // among the tenant's
    int32_t next;   // the same, or among the free
};

struct tenant {
    uint64_t id;
    int32_t n_nodes;
    int32_t first;
    int32_t next_free;
};

struct rv_prefix_tree {
    struct rv_prefix_tree_config config;
    struct node *nodes; // max_nodes
    int32_t first_free;
    int32_t n_nodes;
    struct tenant *tenants; // max_nodes: each has a node at least
    int32_t first_free_tenant;
    struct rv_id_map node_by_key; // half the key; the whole is compared
    struct rv_id_map tenant_by_id;
    struct rv_id_heap leaves[N_HEAPS];
    uint64_t clock;
};

/* ---- order of going ------------------------------------------------------------------------- */

static bool is_protected(const struct rv_prefix_tree *t, int32_t tenant)
{
    return t->tenants[tenant].n_nodes <= t->config.tenant_floor;
}

/* Puts a node where it belongs: a leaf in the heap of its tenant, anything else in none. */
static void rank(struct rv_prefix_tree *t, int32_t i)
{
    const struct node *node = &t->nodes[i];
    int heap = is_protected(t, node->tenant) ? PROTECTED : MAY_GO;

    rv_id_heap_remove(&t->leaves[N_HEAPS - 1 - heap], i);
    if (node->n_children > 0)
        rv_id_heap_remove(&t->leaves[heap], i);
    else
        rv_id_heap_put(&t->leaves[heap], i, node->used_at);
}

static void touch(struct rv_prefix_tree *t, int32_t i)
{
    t->nodes[i].used_at = ++t->clock;
    rank(t, i);
}

/* After a tenant's count changed to n; when it came to its floor or left it, all of its leaves change sides. */
static void rank_tenant(struct rv_prefix_tree *t, int32_t tenant, int32_t n, int32_t n_before)
{
    int32_t floor = t->config.tenant_floor;

    if ((n <= floor) == (n_before <= floor))
        return;
    for (int32_t i = t->tenants[tenant].first; i != NONE; i = t->nodes[i].next)
        rank(t, i);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static int32_t tenant_row(struct rv_prefix_tree *t, uint64_t id)
{
    int32_t row = rv_id_map_find(&t->tenant_by_id, id);
    bool is_new;

    if (row != NONE)
        return row;
    row = t->first_free_tenant;
    t->first_free_tenant = t->tenants[row].next_free;
    t->tenants[row] = (struct tenant){.id = id, .first = NONE};
    is_new = rv_id_map_add(&t->tenant_by_id, id, row);
    RV_ASSERT(is_new);
    return row;
}

static void link_to_tenant(struct rv_prefix_tree *t, int32_t i)
{
    struct node *node = &t->nodes[i];
    struct tenant *tenant;

    node->tenant = tenant_row(t, node->scope.tenant);
    tenant = &t->tenants[node->tenant];
    node->prev = NONE;
    node->next = tenant->first;
    if (node->next != NONE)
        t->nodes[node->next].prev = i;
    tenant->first = i;
    tenant->n_nodes++;
    rank(t, i);
    rank_tenant(t, node->tenant, tenant->n_nodes, tenant->n_nodes - 1);
}

static void unlink_from_tenant(struct rv_prefix_tree *t, int32_t i)
{
    const struct node *node = &t->nodes[i];
    struct tenant *tenant = &t->tenants[node->tenant];

    if (node->prev != NONE)
        t->nodes[node->prev].next = node->next;
    else
        tenant->first = node->next;
    if (node->next != NONE)
        t->nodes[node->next].prev = node->prev;
    tenant->n_nodes--;
    rank_tenant(t, node->tenant, tenant->n_nodes, tenant->n_nodes + 1);
    if (tenant->n_nodes > 0)
        return;
    (void)rv_id_map_remove(&t->tenant_by_id, tenant->id);
    tenant->next_free = t->first_free_tenant;
    t->first_free_tenant = node->tenant;
}

static void add_node(struct rv_prefix_tree *t, const struct node *like)
{
    int32_t i = t->first_free;
    bool is_new = rv_id_map_add(&t->node_by_key, like->key.words[0], i);

    RV_ASSERT(is_new);
    t->first_free = t->nodes[i].next;
    t->n_nodes++;
    t->nodes[i] = *like;
    t->nodes[i].used_at = ++t->clock;
    rv_block_pool_cache(t->config.pool, like->block);
    if (like->parent != NONE) {
        t->nodes[like->parent].n_children++;
        rank(t, like->parent);
    }
    link_to_tenant(t, i);
}

/* Takes a node out, whatever hangs on it. */
static void drop_node(struct rv_prefix_tree *t, int32_t i)
{
    struct node *node = &t->nodes[i];

    for (int h = 0; h < N_HEAPS; h++)
        rv_id_heap_remove(&t->leaves[h], i);
    (void)rv_id_map_remove(&t->node_by_key, node->key.words[0]);
    rv_block_pool_uncache(t->config.pool, node->block);
    unlink_from_tenant(t, i);
    node->block = NONE;
    node->next = t->first_free;
    t->first_free = i;
    t->n_nodes--;
}

static void drop_leaf(struct rv_prefix_tree *t, int32_t i)
{
    int32_t parent = t->nodes[i].parent;
    uint64_t used_at = t->nodes[i].used_at;

    drop_node(t, i);
    if (parent == NONE)
        return;
    t->nodes[parent].n_children--;
    if (t->nodes[parent].used_at < used_at)
        t->nodes[parent].used_at = used_at;
    rank(t, parent);
}

/* ---- looking -------------------------------------------------------------------------------- */

static struct rv_keyed_hash first_key(const struct rv_prefix_tree *t, const struct rv_prefix_scope *scope)
{
    return rv_keyed_hash(t->config.secret, scope, sizeof(*scope));
}

static struct rv_keyed_hash next_key(const struct rv_prefix_tree *t, const struct rv_keyed_hash *key,
                                     const int32_t *tokens)
{
    struct {
        struct rv_keyed_hash before;
        int32_t tokens[RV_KV_BLOCK_TOKENS];
    } input;

    _Static_assert(sizeof(input) == sizeof(input.before) + sizeof(input.tokens), "no padding goes into the hash");
    input.before = *key;
    memcpy(input.tokens, tokens, sizeof(input.tokens));
    return rv_keyed_hash(t->config.secret, &input, sizeof(input));
}

static bool same_key(const struct rv_keyed_hash *a, const struct rv_keyed_hash *b)
{
    return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

static int32_t find_key(const struct rv_prefix_tree *t, const struct rv_keyed_hash *key)
{
    int32_t i = rv_id_map_find(&t->node_by_key, key->words[0]);

    return i != NONE && same_key(&t->nodes[i].key, key) ? i : NONE;
}

/* The node of this key, if it really is this block after that parent. */
static int32_t find_child(const struct rv_prefix_tree *t, int32_t parent, const struct rv_keyed_hash *key,
                          const struct rv_prefix_scope *scope, const int32_t *tokens)
{
    int32_t i = find_key(t, key);
    const struct node *node = i != NONE ? &t->nodes[i] : NULL;

    if (!node || node->parent != parent || memcmp(node->tokens, tokens, sizeof(node->tokens)) != 0 ||
        memcmp(&node->scope, scope, sizeof(*scope)) != 0)
        return NONE;
    return i;
}

int32_t rv_prefix_tree_find(struct rv_prefix_tree *tree, const struct rv_prefix_scope *scope, const int32_t *tokens,
                            int32_t n, int32_t *blocks, struct rv_prefix_cursor *cursor)
{
    struct rv_prefix_cursor at = {.key = first_key(tree, scope)};
    int32_t node = NONE;

    while ((at.n_blocks + 1) * RV_KV_BLOCK_TOKENS <= n) {
        const int32_t *own = tokens + (size_t)at.n_blocks * RV_KV_BLOCK_TOKENS;
        struct rv_keyed_hash key = next_key(tree, &at.key, own);
        int32_t child = find_child(tree, node, &key, scope, own);

        if (child == NONE)
            break;
        node = child;
        blocks[at.n_blocks++] = tree->nodes[node].block;
        at.key = key;
    }
    if (node != NONE)
        touch(tree, node);
    if (cursor)
        *cursor = at;
    return at.n_blocks;
}

/* ---- dropping ------------------------------------------------------------------------------- */

static bool is_idle(const struct rv_prefix_tree *t, int32_t i)
{
    return rv_block_pool_refs(t->config.pool, t->nodes[i].block) == 0;
}

/* The least recently used leaf of a heap that nobody uses now, or NONE. */
static int32_t oldest_idle(struct rv_prefix_tree *t, int heap)
{
    uint64_t now = ++t->clock;
    int32_t i;

    for (;;) {
        i = rv_id_heap_first(&t->leaves[heap]);
        if (i == NONE || is_idle(t, i))
            return i;
        if (t->nodes[i].used_at == now)
            return NONE; // all of them came up once
        t->nodes[i].used_at = now;
        rank(t, i);
    }
}

/* The same among a protected tenant's own, which are few. */
static int32_t oldest_idle_of(const struct rv_prefix_tree *t, uint64_t tenant)
{
    int32_t row = rv_id_map_find(&t->tenant_by_id, tenant), oldest = NONE;

    if (row == NONE || !is_protected(t, row))
        return NONE;
    for (int32_t i = t->tenants[row].first; i != NONE; i = t->nodes[i].next) {
        if (t->nodes[i].n_children == 0 && is_idle(t, i) &&
            (oldest == NONE || t->nodes[i].used_at < t->nodes[oldest].used_at))
            oldest = i;
    }
    return oldest;
}

static int32_t next_to_go(struct rv_prefix_tree *t, uint64_t tenant)
{
    int32_t i = oldest_idle(t, MAY_GO);

    if (i == NONE)
        i = oldest_idle_of(t, tenant);
    return i != NONE ? i : oldest_idle(t, PROTECTED);
}

static bool has_idle_parent(const struct rv_prefix_tree *t, int32_t i)
{
    while ((i = t->nodes[i].parent) != NONE) {
        if (is_idle(t, i))
            return true;
    }
    return false;
}

/*
 * Takes a leaf in use out of the tree when something idle lies before it: two sequences computed the same start at the
 * same time, the one whose blocks were entered has ended, and the other goes on behind them.
 */
static bool free_a_parent(struct rv_prefix_tree *t)
{
    for (int h = 0; h < N_HEAPS; h++) {
        for (int32_t k = 0; k < t->leaves[h].n; k++) {
            if (has_idle_parent(t, t->leaves[h].ids[k])) {
                drop_leaf(t, t->leaves[h].ids[k]);
                return true;
            }
        }
    }
    return false;
}

int32_t rv_prefix_tree_evict(struct rv_prefix_tree *tree, uint64_t tenant, int32_t n)
{
    int32_t n_dropped = 0;

    while (n_dropped < n && rv_block_pool_n_idle(tree->config.pool) > 0) {
        int32_t i = next_to_go(tree, tenant);

        if (i != NONE) {
            drop_leaf(tree, i);
            n_dropped++;
        } else if (!free_a_parent(tree)) {
            break;
        }
    }
    return n_dropped;
}

int32_t rv_prefix_tree_forget_tenant(struct rv_prefix_tree *tree, uint64_t tenant)
{
    int32_t row = rv_id_map_find(&tree->tenant_by_id, tenant), n = 0, next;

    if (row == NONE)
        return 0;
    /* A tenant's nodes have no parents or children but the tenant's, so none of those links needs care. */
    for (int32_t i = tree->tenants[row].first; i != NONE; i = next) {
        next = tree->nodes[i].next;
        drop_node(tree, i);
        n++;
    }
    return n;
}

/* ---- entering ------------------------------------------------------------------------------- */

static bool has_free_node(struct rv_prefix_tree *t, uint64_t tenant, int32_t needed)
{
    int32_t i;

    if (t->first_free != NONE)
        return true;
    i = next_to_go(t, tenant);
    if (i == NONE || i == needed)
        return false;
    drop_leaf(t, i);
    return true;
}

/* The node the cursor stands at; NONE at the start, where the cursor is put when its node is gone. */
static int32_t node_of(const struct rv_prefix_tree *t, struct rv_prefix_cursor *cursor,
                       const struct rv_prefix_scope *scope)
{
    int32_t node = cursor->n_blocks > 0 ? find_key(t, &cursor->key) : NONE;

    if (node == NONE)
        *cursor = (struct rv_prefix_cursor){.key = first_key(t, scope)};
    return node;
}

void rv_prefix_tree_insert(struct rv_prefix_tree *tree, const struct rv_prefix_scope *scope, const int32_t *tokens,
                           const int32_t *blocks, int32_t n_blocks, struct rv_prefix_cursor *cursor)
{
    struct rv_prefix_cursor start = {0};
    struct rv_prefix_cursor *at = cursor ? cursor : &start;
    int32_t node;

    if (at->is_closed || n_blocks <= at->n_blocks)
        return;
    node = node_of(tree, at, scope);
    while (at->n_blocks < n_blocks) {
        const int32_t *own = tokens + (size_t)at->n_blocks * RV_KV_BLOCK_TOKENS;
        struct node new = {
            .key = next_key(tree, &at->key, own), .scope = *scope, .block = blocks[at->n_blocks], .parent = node};
        int32_t child = find_child(tree, node, &new.key, scope, own);

        if (child != NONE) {
            touch(tree, child);
        } else if (rv_block_pool_is_cached(tree->config.pool, new.block) ||
                   rv_id_map_find(&tree->node_by_key, new.key.words[0]) != NONE ||
                   !has_free_node(tree, scope->tenant, node)) {
            at->is_closed = true; // known under another name, or no room
            return;
        } else {
            memcpy(new.tokens, own, sizeof(new.tokens));
            child = tree->first_free;
            add_node(tree, &new);
        }
        node = child;
        at->key = new.key;
        at->n_blocks++;
    }
}

/* ---- life ----------------------------------------------------------------------------------- */

static ruvllm_status allocate(struct rv_prefix_tree *t, struct ruvllm_error *err)
{
    int32_t n = t->config.max_nodes;
    ruvllm_status rc;

    t->nodes = rv_calloc((size_t)n, sizeof(*t->nodes));
    t->tenants = rv_calloc((size_t)n, sizeof(*t->tenants));
    if (!t->nodes || !t->tenants)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a prefix tree of %d blocks", n);
    for (int32_t i = 0; i < n; i++) {
        t->nodes[i].block = NONE;
        t->nodes[i].next = t->tenants[i].next_free = i + 1 < n ? i + 1 : NONE;
    }
    rc = rv_id_map_init(&t->node_by_key, (size_t)n, err);
    if (!rc)
        rc = rv_id_map_init(&t->tenant_by_id, (size_t)n, err);
    for (int h = 0; !rc && h < N_HEAPS; h++)
        rc = rv_id_heap_init(&t->leaves[h], n, err);
    return rc;
}

ruvllm_status rv_prefix_tree_new(struct rv_prefix_tree **out, const struct rv_prefix_tree_config *config,
                                 struct ruvllm_error *err)
{
    struct rv_prefix_tree *t = rv_calloc(1, sizeof(*t));
    ruvllm_status rc;

    RV_ASSERT(config->max_nodes > 0);
    *out = NULL;
    if (!t)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a prefix tree");
    t->config = *config;
    rc = allocate(t, err);
    if (rc) {
        rv_prefix_tree_free(t);
        return rc;
    }
    *out = t;
    return RUVLLM_OK;
}

void rv_prefix_tree_free(struct rv_prefix_tree *tree)
{
    if (!tree)
        return;
    for (int32_t i = 0; tree->n_nodes > 0 && i < tree->config.max_nodes; i++) {
        if (tree->nodes[i].block != NONE)
            rv_block_pool_uncache(tree->config.pool, tree->nodes[i].block);
    }
    for (int h = 0; h < N_HEAPS; h++)
        rv_id_heap_release(&tree->leaves[h]);
    rv_id_map_release(&tree->node_by_key);
    rv_id_map_release(&tree->tenant_by_id);
    rv_free(tree->nodes);
    rv_free(tree->tenants);
    rv_free(tree);
}

int32_t rv_prefix_tree_n_nodes(const struct rv_prefix_tree *tree)
{
    return tree->n_nodes;
}

/* ---- for tests ------------------------------------------------------------------------------ */

static bool check_node(const struct rv_prefix_tree *t, int32_t i)
{
    const struct node *node = &t->nodes[i];
    const struct node *parent = node->parent != NONE ? &t->nodes[node->parent] : NULL;
    struct rv_keyed_hash before = parent ? parent->key : first_key(t, &node->scope);
    struct rv_keyed_hash key = next_key(t, &before, node->tokens);
    int heap = is_protected(t, node->tenant) ? PROTECTED : MAY_GO;

    if (!same_key(&key, &node->key) || find_key(t, &key) != i || !rv_block_pool_is_cached(t->config.pool, node->block))
        return false;
    if (parent && (parent->block == NONE || parent->tenant != node->tenant))
        return false;
    return t->tenants[node->tenant].id == node->scope.tenant &&
           rv_id_heap_has(&t->leaves[heap], i) == (node->n_children == 0) &&
           !rv_id_heap_has(&t->leaves[N_HEAPS - 1 - heap], i);
}

/* Walks a tenant's list, taking its nodes and their children off the counts. */
static bool check_tenant(const struct rv_prefix_tree *t, int32_t row, int32_t *n_children)
{
    int32_t n = 0, before = NONE;

    for (int32_t i = t->tenants[row].first; i != NONE && n <= t->n_nodes; i = t->nodes[i].next) {
        if (t->nodes[i].tenant != row || t->nodes[i].prev != before || !check_node(t, i))
            return false;
        if (t->nodes[i].parent != NONE)
            n_children[t->nodes[i].parent]++;
        before = i;
        n++;
    }
    return n == t->tenants[row].n_nodes;
}

static bool check_counts(const struct rv_prefix_tree *t, int32_t *n_children)
{
    int32_t n_used = 0, n_free = 0;
    size_t n_tenants = 0;

    for (int32_t i = t->first_free; i != NONE && n_free <= t->config.max_nodes; i = t->nodes[i].next)
        n_free++;
    for (int32_t i = 0; i < t->config.max_nodes; i++) {
        int32_t row = t->nodes[i].block != NONE ? t->nodes[i].tenant : NONE;

        n_used += row != NONE;
        if (row == NONE || t->tenants[row].first != i)
            continue;
        if (!check_tenant(t, row, n_children) || rv_id_map_find(&t->tenant_by_id, t->tenants[row].id) != row)
            return false;
        n_tenants++;
    }
    for (int32_t i = 0; i < t->config.max_nodes; i++) {
        if (t->nodes[i].block != NONE && t->nodes[i].n_children != n_children[i])
            return false;
    }
    return n_used == t->n_nodes && n_used + n_free == t->config.max_nodes && n_tenants == t->tenant_by_id.n_ids &&
           t->node_by_key.n_ids == (size_t)n_used;
}

bool rv_prefix_tree_check(const struct rv_prefix_tree *tree)
{
    int32_t *n_children = rv_calloc((size_t)tree->config.max_nodes, sizeof(*n_children));
    bool is_good = n_children && check_counts(tree, n_children);

    for (int h = 0; h < N_HEAPS; h++)
        is_good = is_good && rv_id_heap_check(&tree->leaves[h]);
    rv_free(n_children);
    return is_good;
}
