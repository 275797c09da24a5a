/* Sorted by their bytes, tokens are already in the order of the walk; nodes are what each adds to the one before. */
#include "sample/token_trie.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    struct rv_str text;
    int32_t token;
    bool is_control;
};

static bool is_control(const struct rv_vocab *vocab, int32_t token)
{
    return rv_vocab_type(vocab, token) == RV_TOKEN_CONTROL;
}

static bool is_listed(const struct rv_vocab *vocab, int32_t token)
{
    enum rv_token_type type = rv_vocab_type(vocab, token);

    if (rv_vocab_is_eog(vocab, token))
        return false;
    return type == RV_TOKEN_NORMAL || type == RV_TOKEN_USER_DEFINED || type == RV_TOKEN_BYTE ||
           type == RV_TOKEN_CONTROL || type == RV_TOKEN_UNDEFINED;
}

size_t rv_token_trie_bytes(const struct rv_token_trie *trie, int32_t token, uint8_t out[RV_TOKEN_TRIE_MAX_LEN])
{
    struct rv_str piece = rv_vocab_piece(trie->vocab, token, true);
    size_t n = 0;

    if (!is_listed(trie->vocab, token) || piece.len == 0 || piece.len > RV_TOKEN_TRIE_MAX_LEN - 2)
        return 0;
    if (is_control(trie->vocab, token))
        out[n++] = RV_TOKEN_TRIE_CONTROL;
    memcpy(out + n, piece.data, piece.len);
    n += piece.len;
    if (is_control(trie->vocab, token))
        out[n++] = RV_TOKEN_TRIE_CONTROL;
    return n;
}

static int compare(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    size_t len = x->text.len < y->text.len ? x->text.len : y->text.len;
    int order;

    if (x->is_control != y->is_control) // FF comes last
        return x->is_control ? 1 : -1;
    order = memcmp(x->text.data, y->text.data, len);
    if (order)
        return order;
    if (x->text.len != y->text.len)
        return x->text.len < y->text.len ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static size_t list_entries(struct rv_token_trie *trie, struct entry *entries)
{
    size_t n = 0;

    for (size_t i = 0; i < trie->n_tokens; i++) {
        int32_t token = (int32_t)i;
        struct rv_str piece = rv_vocab_piece(trie->vocab, token, true);

        trie->same[i] = -1;
        if (rv_vocab_is_eog(trie->vocab, token))
            trie->ends[trie->n_ends++] = token;
        else if (is_listed(trie->vocab, token) && piece.len > 0 && piece.len <= RV_TOKEN_TRIE_MAX_LEN - 2)
            entries[n++] = (struct entry){.text = piece, .token = token, .is_control = is_control(trie->vocab, token)};
    }
    return n;
}

/* Adds what a token has beyond the one before it; `path` holds that one's nodes by depth. Returns its length. */
static int32_t add_token(struct rv_token_trie *trie, const struct entry *entry, int32_t *path, int32_t n_path)
{
    uint8_t bytes[RV_TOKEN_TRIE_MAX_LEN];
    int32_t len = (int32_t)rv_token_trie_bytes(trie, entry->token, bytes), shared = 0;

    while (shared < len && shared < n_path && trie->nodes[path[shared]].byte == bytes[shared])
        shared++;
    for (int32_t i = shared; i < n_path; i++)
        trie->nodes[path[i]].skip = trie->n_nodes;
    for (int32_t i = shared; i < len; i++) {
        path[i] = trie->n_nodes;
        trie->nodes[trie->n_nodes++] =
            (struct rv_token_trie_node){.token = -1, .depth = (uint16_t)(i + 1), .byte = bytes[i]};
    }
    trie->same[entry->token] = trie->nodes[path[len - 1]].token;
    trie->nodes[path[len - 1]].has_same = trie->same[entry->token] >= 0;
    trie->nodes[path[len - 1]].token = entry->token;
    trie->max_depth = len > trie->max_depth ? len : trie->max_depth;
    return len;
}

static ruvllm_status build(struct rv_token_trie *trie, struct entry *entries, struct ruvllm_error *err)
{
    size_t n = list_entries(trie, entries), n_bytes = 0;
    int32_t path[RV_TOKEN_TRIE_MAX_LEN], n_path = 0;
    struct rv_token_trie_node *exact;

    qsort(entries, n, sizeof(*entries), compare);
    for (size_t i = 0; i < n; i++)
        n_bytes += entries[i].text.len + 2;
    if (n_bytes > INT32_MAX)
        return rv_fail(err, RUVLLM_TOO_LARGE, "the vocabulary's %zu bytes are too many for a grammar", n_bytes);
    trie->nodes = rv_realloc_array(NULL, n_bytes + 1, sizeof(*trie->nodes));
    if (!trie->nodes)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a tree of %zu bytes", n_bytes);
    for (size_t i = 0; i < n; i++)
        n_path = add_token(trie, &entries[i], path, n_path);
    for (int32_t i = 0; i < n_path; i++)
        trie->nodes[path[i]].skip = trie->n_nodes;
    exact = rv_realloc_array(trie->nodes, (size_t)trie->n_nodes + 1, sizeof(*exact));
    trie->nodes = exact ? exact : trie->nodes; // smaller, where that works
    return RUVLLM_OK;
}

ruvllm_status rv_token_trie_new(struct rv_token_trie **out, const struct rv_vocab *vocab, struct ruvllm_error *err)
{
    struct rv_token_trie *trie = rv_calloc(1, sizeof(*trie));
    struct entry *entries = rv_calloc(rv_vocab_n_tokens(vocab) + 1, sizeof(*entries));
    ruvllm_status rc = RUVLLM_OK;

    *out = NULL;
    if (trie) {
        trie->vocab = vocab;
        trie->n_tokens = rv_vocab_n_tokens(vocab);
        trie->same = rv_calloc(trie->n_tokens + 1, sizeof(*trie->same));
        trie->ends = rv_calloc(trie->n_tokens + 1, sizeof(*trie->ends));
    }
    if (!trie || !entries || !trie->same || !trie->ends)
        rc = rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the vocabulary's tree");
    else
        rc = build(trie, entries, err);
    rv_free(entries);
    if (rc) {
        rv_token_trie_free(trie);
        return rc;
    }
    *out = trie;
    return RUVLLM_OK;
}

void rv_token_trie_free(struct rv_token_trie *trie)
{
    if (!trie)
        return;
    rv_free(trie->nodes);
    rv_free(trie->same);
    rv_free(trie->ends);
    rv_free(trie);
}
