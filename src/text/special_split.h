/*
 * Finding special tokens spelled in text, before anything else is done with it.
 *
 * Longer tokens win over shorter ones wherever they are; equally long ones from left to right. Control and unknown
 * tokens count only where the caller allows it and every byte of theirs is trusted; user-defined tokens always do.
 */
#ifndef RV_TEXT_SPECIAL_SPLIT_H
#define RV_TEXT_SPECIAL_SPLIT_H

#include "text/token_table.h"

struct rv_special_split {
    const struct rv_token_table *table;
    int32_t *ids; // special tokens in the order of their texts
    size_t n_ids;
    uint32_t starts[257]; // where in ids the texts with each first byte begin
};

/* One found token: text[start..end) becomes `id`, white space it swallows included. */
struct rv_special_cut {
    uint32_t start;
    uint32_t end;
    int32_t id;
};

/* Two special tokens with one text, or one that is too long, are FORMAT errors. The table is borrowed. */
RV_CHECKED ruvllm_status rv_special_split_init(struct rv_special_split *split, const struct rv_token_table *table,
                                               struct ruvllm_error *err);
void rv_special_split_release(struct rv_special_split *split);
/*
 * Appends a struct rv_special_cut for each special token in text[0..len), in order, to `cuts`. `guarded` allows
 * control and unknown tokens; user_mask as for rv_vocab_encode. len is below 2^26.
 */
RV_CHECKED ruvllm_status rv_special_split_find(const struct rv_special_split *split, const char *text, size_t len,
                                               const uint8_t *user_mask, bool guarded, struct rv_buf *cuts,
                                               struct ruvllm_error *err);

#endif
