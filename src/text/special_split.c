/*
 * One pass finds the longest candidate at every position; a heap then hands them out longest first. A candidate
 * that overlaps an accepted one is replaced by the longest that still fits, so memory is one entry a position however
 * many tokens nest (Gemma has one for each count of newlines up to 31).
 */
#include "text/special_split.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define POS_BITS 26
#define ID_BITS 24
#define POS_MASK ((UINT64_C(1) << POS_BITS) - 1)
#define ID_MASK ((UINT64_C(1) << ID_BITS) - 1)

/* Text to search, and what may be found in it. */
struct search {
    const struct rv_special_split *split;
    const char *text;
    size_t len;
    const uint8_t *user_mask;
    bool guarded;
    uint8_t *taken;
};

static int compare_texts(struct rv_str a, struct rv_str b)
{
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

    if (order)
        return order;
    return a.len < b.len ? -1 : a.len > b.len;
}

static void sift_ids(const struct rv_token_table *table, int32_t *ids, size_t root, size_t n)
{
    for (;;) {
        size_t child = 2 * root + 1;
        int32_t id = ids[root];

        if (child >= n)
            return;
        if (child + 1 < n && compare_texts(table->texts[ids[child]], table->texts[ids[child + 1]]) < 0)
            child++;
        if (compare_texts(table->texts[id], table->texts[ids[child]]) >= 0)
            return;
        ids[root] = ids[child];
        ids[child] = id;
        root = child;
    }
}

/* Heap sort, because qsort cannot be told about the table. */
static void sort_ids(const struct rv_token_table *table, int32_t *ids, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_ids(table, ids, i, n);
    for (size_t i = n; i-- > 1;) {
        int32_t last = ids[i];
        ids[i] = ids[0];
        ids[0] = last;
        sift_ids(table, ids, 0, i);
    }
}

static ruvllm_status check_ids(const struct rv_special_split *split, struct ruvllm_error *err)
{
    for (size_t i = 0; i < split->n_ids; i++) {
        int32_t id = split->ids[i];
        struct rv_str text = split->table->texts[id];

        if (text.len > RV_TOKEN_TABLE_MAX_SPECIAL_LEN)
            return rv_fail(err, RUVLLM_FORMAT, "special token %d is %zu bytes long, more than %d", (int)id, text.len,
                           RV_TOKEN_TABLE_MAX_SPECIAL_LEN);
        if (i > 0 && compare_texts(split->table->texts[split->ids[i - 1]], text) == 0)
            return rv_fail(err, RUVLLM_FORMAT, "special tokens %d and %d have the same text", (int)split->ids[i - 1],
                           (int)id);
    }
    return RUVLLM_OK;
}

ruvllm_status rv_special_split_init(struct rv_special_split *split, const struct rv_token_table *table,
                                    struct ruvllm_error *err)
{
    size_t n = 0;
    ruvllm_status rc;

    *split = (struct rv_special_split){.table = table};
    for (size_t i = 0; i < table->n_tokens; i++)
        n += rv_token_table_is_special(table, (int32_t)i) && table->texts[i].len > 0;
    split->ids = rv_calloc(n + 1, sizeof(*split->ids));
    if (!split->ids)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu special tokens", n);
    for (size_t i = 0; i < table->n_tokens; i++) {
        if (rv_token_table_is_special(table, (int32_t)i) && table->texts[i].len > 0)
            split->ids[split->n_ids++] = (int32_t)i;
    }
    sort_ids(table, split->ids, n);
    for (size_t i = 0; i < n; i++)
        split->starts[(unsigned char)table->texts[split->ids[i]].data[0] + 1]++;
    for (size_t i = 0; i < 256; i++)
        split->starts[i + 1] += split->starts[i];
    rc = check_ids(split, err);
    if (rc)
        rv_special_split_release(split);
    return rc;
}

void rv_special_split_release(struct rv_special_split *split)
{
    rv_free(split->ids);
    *split = (struct rv_special_split){0};
}

/* First index in [low, high) whose text has a byte at k that is `least` or more; shorter texts come before all. */
static size_t lower_bound(const struct rv_special_split *split, size_t low, size_t high, size_t k, unsigned least)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct rv_str text = split->table->texts[split->ids[middle]];

        if (text.len <= k || (unsigned char)text.data[k] < least)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Keeps of [*low, *high), which agree up to k, those that have `byte` there. */
static void narrow(const struct rv_special_split *split, size_t *low, size_t *high, size_t k, unsigned byte)
{
    const struct rv_str *texts = split->table->texts;
    struct rv_str first, last;

    if (texts[split->ids[*low]].len <= k) // only one can end here
        *low += 1;
    if (*low == *high)
        return;
    first = texts[split->ids[*low]];
    last = texts[split->ids[*high - 1]];
    if ((unsigned char)first.data[k] == byte && (unsigned char)last.data[k] == byte)
        return; // so do all between them
    *low = lower_bound(split, *low, *high, k, byte);
    *high = lower_bound(split, *low, *high, k, byte + 1);
}

/* The longest allowed special token at `pos` of at most `limit` bytes, or -1. */
static int32_t longest_at(const struct search *s, size_t pos, size_t limit)
{
    const struct rv_special_split *split = s->split;
    unsigned char first = (unsigned char)s->text[pos];
    size_t low = split->starts[first], high = split->starts[first + 1];
    bool trusted = s->guarded;
    int32_t best = -1;

    for (size_t k = 0; k < limit && low < high; k++) {
        unsigned byte = (unsigned char)s->text[pos + k];

        if (k > 0)
            narrow(split, &low, &high, k, byte);
        if (s->user_mask && s->user_mask[pos + k])
            trusted = false;
        if (low < high && split->table->texts[split->ids[low]].len == k + 1 &&
            (trusted || !rv_token_table_is_guarded(split->table, split->ids[low])))
            best = split->ids[low];
    }
    return best;
}

static size_t text_len(const struct search *s, int32_t id)
{
    return s->split->table->texts[id].len;
}

/* Smaller is sooner: longer, then the smaller id, then further left. */
static uint64_t candidate_key(const struct search *s, int32_t id, size_t pos)
{
    uint64_t shortness = RV_TOKEN_TABLE_MAX_SPECIAL_LEN - text_len(s, id);

    return shortness << (ID_BITS + POS_BITS) | (uint64_t)(uint32_t)id << POS_BITS | pos;
}

static void sift_keys(uint64_t *keys, size_t root, size_t n)
{
    uint64_t key = keys[root];

    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= n)
            break;
        if (child + 1 < n && keys[child + 1] < keys[child])
            child++;
        if (keys[child] >= key)
            break;
        keys[root] = keys[child];
        root = child;
    }
    keys[root] = key;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static void accept(const struct search *s, int32_t id, size_t pos, struct rv_buf *cuts)
{
    struct rv_special_cut cut = {.start = (uint32_t)pos, .id = id};
    size_t end = pos + text_len(s, id);

    if (s->split->table->attrs[id] & RV_TOKEN_ATTR_RSTRIP) {
        while (end < s->len && !s->taken[end] && is_blank(s->text[end]))
            end++;
    }
    memset(s->taken + pos, 1, end - pos);
    cut.end = (uint32_t)end;
    rv_buf_add(cuts, &cut, sizeof(cut));
}

/* Bytes free from pos on, up to `limit`. */
static size_t free_len(const struct search *s, size_t pos, size_t limit)
{
    const uint8_t *taken = memchr(s->taken + pos, 1, limit);

    return taken ? (size_t)(taken - (s->taken + pos)) : limit;
}

static void hand_out(const struct search *s, uint64_t *keys, size_t n, struct rv_buf *cuts)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_keys(keys, i, n);
    while (n > 0) {
        size_t pos = keys[0] & POS_MASK;
        int32_t id = (int32_t)(keys[0] >> POS_BITS & ID_MASK);
        size_t room = free_len(s, pos, text_len(s, id));

        if (room == text_len(s, id)) {
            accept(s, id, pos, cuts);
            id = -1;
        } else {
            id = room ? longest_at(s, pos, room) : -1;
        }
        keys[0] = id >= 0 ? candidate_key(s, id, pos) : keys[--n];
        sift_keys(keys, 0, n ? n : 1);
    }
}

static int compare_cuts(const void *a, const void *b)
{
    uint32_t x = ((const struct rv_special_cut *)a)->start, y = ((const struct rv_special_cut *)b)->start;

    return x < y ? -1 : x > y;
}

ruvllm_status rv_special_split_find(const struct rv_special_split *split, const char *text, size_t len,
                                    const uint8_t *user_mask, bool guarded, struct rv_buf *cuts,
                                    struct ruvllm_error *err)
{
    struct search s = {.split = split, .text = text, .len = len, .user_mask = user_mask, .guarded = guarded};
    struct rv_buf keys;
    ruvllm_status rc;

    rv_buf_init(&keys, len * sizeof(uint64_t));
    for (size_t pos = 0; pos < len; pos++) {
        unsigned char first = (unsigned char)text[pos];
        int32_t id = split->starts[first] < split->starts[first + 1] ? longest_at(&s, pos, len - pos) : -1;
        if (id >= 0) {
            uint64_t key = candidate_key(&s, id, pos);
            rv_buf_add(&keys, &key, sizeof(key));
        }
    }
    rc = rv_buf_status(&keys, "list of special tokens", err);
    if (!rc && keys.len > 0) {
        s.taken = rv_calloc(len, 1);
        if (s.taken)
            hand_out(&s, (uint64_t *)(void *)keys.data, keys.len / sizeof(uint64_t), cuts);
        rc = s.taken ? rv_buf_status(cuts, "list of special tokens", err)
                     : rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", len);
        rv_free(s.taken);
    }
    if (!rc && cuts->len > 0)
        qsort(cuts->data, cuts->len / sizeof(struct rv_special_cut), sizeof(struct rv_special_cut), compare_cuts);
    rv_buf_release(&keys);
    return rc;
}
