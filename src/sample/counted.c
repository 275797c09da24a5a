/*
 * One tour through the trie for each child. That a text stands after a whole copy shows by LEFT in its standing; that
 * it can be read in one way only, by that standing being always the same (automaton.c says which children are counted).
 */
#include "sample/counted.h"

#include "base/alloc.h"

#include <string.h>

enum {
    N_SHAPES = 16,
    MAX_LONG = 1 << 14,  // tokens of more than RV_COUNTED_LEVELS copies, for a shape; no more than there are
    MAX_EDGES = 1 << 16, // likewise
};

ruvllm_status rv_counted_init(struct rv_counted *counted, const struct rv_token_trie *trie,
                              struct rv_grammar_walk *walk, struct ruvllm_error *err)
{
    struct rv_counted *c = counted;

    *c = (struct rv_counted){.trie = trie, .walk = walk, .n_words = (trie->n_tokens + 63) / 64};
    if (walk->automaton->n_counts == 0)
        return RUVLLM_OK;
    c->max_long = trie->n_tokens < MAX_LONG ? (int32_t)trie->n_tokens : MAX_LONG;
    c->max_edges = trie->n_nodes < MAX_EDGES / N_SHAPES ? N_SHAPES * trie->n_nodes : MAX_EDGES;
    c->shapes = rv_calloc(N_SHAPES, sizeof(*c->shapes));
    c->bits = rv_realloc_array(NULL, (size_t)N_SHAPES * RV_COUNTED_LEVELS * c->n_words + 1, sizeof(*c->bits));
    c->long_ones = rv_realloc_array(NULL, N_SHAPES * (size_t)c->max_long + 1, sizeof(*c->long_ones));
    c->edges = rv_realloc_array(NULL, (size_t)c->max_edges + 1, sizeof(*c->edges));
    c->scratch = rv_realloc_array(NULL, (size_t)c->max_edges + 1, sizeof(*c->scratch));
    if (!c->shapes || !c->bits || !c->long_ones || !c->edges || !c->scratch) {
        rv_counted_release(c);
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate masks of repetitions for %zu tokens", trie->n_tokens);
    }
    for (size_t i = 0; i < N_SHAPES; i++) {
        c->shapes[i].bits = c->bits + i * RV_COUNTED_LEVELS * c->n_words;
        c->shapes[i].long_ones = c->long_ones + i * (size_t)c->max_long;
    }
    rv_counted_forget(c);
    return RUVLLM_OK;
}

void rv_counted_release(struct rv_counted *counted)
{
    rv_free(counted->shapes);
    rv_free(counted->bits);
    rv_free(counted->long_ones);
    rv_free(counted->edges);
    rv_free(counted->scratch);
    *counted = (struct rv_counted){0};
}

void rv_counted_forget(struct rv_counted *counted)
{
    for (int32_t i = 0; counted->shapes && i < N_SHAPES; i++)
        counted->shapes[i].standing = -1;
    counted->next_shape = 0;
    counted->n_edges = 0;
}

/* ---- comparing ---------------------------------------------------------------------------------------- */

static void note_token(const struct rv_counted *c, struct rv_counted_shape *shape, int32_t token, int32_t n)
{
    for (; token >= 0; token = c->trie->same[token]) {
        if (n <= RV_COUNTED_LEVELS)
            shape->bits[(size_t)(n - 1) * c->n_words + (size_t)token / 64] |= (uint64_t)1 << (token % 64);
        else if (shape->n_long < c->max_long)
            shape->long_ones[shape->n_long++] = (struct rv_counted_token){token, n};
        else
            shape->is_usable = false;
    }
}

/* False: the walk is out of room or of steps. Edges go to the scratch, *n_edges of them. */
static bool tour(struct rv_counted *c, struct rv_counted_shape *shape, int32_t whole, int32_t *n_edges)
{
    const struct rv_token_trie_node *nodes = c->trie->nodes;
    struct rv_grammar_walk *w = c->walk;

    for (int32_t i = 0; i < c->trie->n_nodes && shape->is_usable;) {
        const struct rv_token_trie_node *node = &nodes[i];
        int32_t from = c->path[node->depth - 1], n = c->copies[node->depth - 1];
        int32_t to = rv_grammar_walk_step(w, from, node->byte);
        bool is_whole;

        if (to == RV_GRAMMAR_WALK_DEAD) {
            if (w->is_full || w->n_steps > RV_GRAMMAR_WALK_MAX_STEPS)
                return false;
            if (from == whole && *n_edges < c->max_edges)
                c->scratch[(*n_edges)++] = (struct rv_counted_edge){i, n};
            else if (from == whole)
                shape->is_usable = false;
            i = node->skip;
            continue;
        }
        is_whole = w->standings[to].has_left;
        if (is_whole && to != whole)
            shape->is_usable = false;
        n += is_whole;
        c->path[node->depth] = to;
        c->copies[node->depth] = n;
        if (node->token >= 0)
            note_token(c, shape, node->token, is_whole ? n : n + 1);
        i++;
    }
    return true;
}

/* From the scratch to the shape's own, by byte. */
static void sort_edges(struct rv_counted *c, struct rv_counted_shape *shape, int32_t n)
{
    int32_t at[257] = {0};

    for (int32_t i = 0; i < n; i++)
        at[c->trie->nodes[c->scratch[i].node].byte + 1]++;
    at[0] = c->n_edges;
    for (int32_t byte = 0; byte < 256; byte++)
        at[byte + 1] += at[byte];
    memcpy(shape->first_edge, at, sizeof(at));
    for (int32_t i = 0; i < n; i++)
        c->edges[at[c->trie->nodes[c->scratch[i].node].byte]++] = c->scratch[i];
    c->n_edges += n;
}

const struct rv_counted_shape *rv_counted_look(struct rv_counted *counted, int32_t standing, int32_t whole)
{
    struct rv_counted *c = counted;
    struct rv_counted_shape *shape = &c->shapes[c->next_shape];
    int32_t n_edges = 0;

    shape->standing = -1;
    shape->is_usable = true;
    shape->n_long = 0;
    memset(shape->bits, 0, RV_COUNTED_LEVELS * c->n_words * sizeof(*shape->bits));
    memset(shape->first_edge, 0, sizeof(shape->first_edge));
    c->path[0] = standing;
    c->copies[0] = 0;
    if (!tour(c, shape, whole, &n_edges))
        return NULL;
    for (int32_t byte = 0; byte < 256; byte++)
        shape->takes[byte] = rv_grammar_walk_step(c->walk, whole, (uint8_t)byte) != RV_GRAMMAR_WALK_DEAD;
    if (c->walk->is_full)
        return NULL;
    for (size_t i = c->n_words; i < RV_COUNTED_LEVELS * c->n_words; i++)
        shape->bits[i] |= shape->bits[i - c->n_words];
    if (shape->is_usable && n_edges > c->max_edges - c->n_edges) { // those of the others go
        for (int32_t i = 0; i < N_SHAPES; i++)
            c->shapes[i].standing = -1;
        c->n_edges = 0;
    }
    if (shape->is_usable)
        sort_edges(c, shape, n_edges);
    shape->standing = standing;
    c->next_shape = (c->next_shape + 1) % N_SHAPES;
    return shape;
}

const struct rv_counted_shape *rv_counted_find(const struct rv_counted *counted, int32_t standing)
{
    for (int32_t i = 0; i < N_SHAPES; i++)
        if (counted->shapes[i].standing == standing)
            return &counted->shapes[i];
    return NULL;
}

void rv_counted_add(const struct rv_counted *counted, const struct rv_counted_shape *shape, int32_t most,
                    uint64_t *bits)
{
    int32_t level = most < RV_COUNTED_LEVELS ? most : RV_COUNTED_LEVELS;
    const uint64_t *from = shape->bits + (size_t)(level > 0 ? level - 1 : 0) * counted->n_words;

    if (most <= 0)
        return;
    for (size_t i = 0; i < counted->n_words; i++)
        bits[i] |= from[i];
    for (int32_t i = 0; most > RV_COUNTED_LEVELS && i < shape->n_long; i++)
        if (shape->long_ones[i].n <= most)
            bits[shape->long_ones[i].token / 64] |= (uint64_t)1 << (shape->long_ones[i].token % 64);
}
