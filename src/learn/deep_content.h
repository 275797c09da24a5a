/*
 * What a deep run leaves behind, as bytes of the store's: the values of the pairs and how much each matters, so that
 * the next run can go on from them. Bytes that are read back are not trusted.
 */
#ifndef RV_LEARN_DEEP_CONTENT_H
#define RV_LEARN_DEEP_CONTENT_H

#include "base/str.h"
#include "learn/trainable.h"
#include "model/adapter.h"

struct rv_deep_content {
    int32_t rank;
    float alpha;
    uint32_t parts;
    struct rv_trainable trainable; // its own
    float *fisher;                 // trainable.n numbers; NULL: not known
};

/* rank, alpha and parts are those the trainable was made with; fisher may be NULL. *out is the caller's (rv_free). */
RV_CHECKED ruvllm_status rv_deep_content_write(const struct rv_deep_content *content, struct rv_str *out,
                                               struct ruvllm_error *err);
/* FORMAT for bytes that are none, or of another model. On failure there is nothing to release. */
RV_CHECKED ruvllm_status rv_deep_content_read(struct rv_deep_content *out, const struct rv_hparams *hparams,
                                              const struct rv_manifest *manifest, struct rv_str bytes,
                                              struct ruvllm_error *err);
void rv_deep_content_release(struct rv_deep_content *content);

/* What steps compute with; *out has one reference. INVALID for numbers that 16 bits cannot hold. */
RV_CHECKED ruvllm_status rv_deep_content_adapter(const struct rv_trainable *trainable, const struct rv_hparams *hparams,
                                                 const struct rv_manifest *manifest, struct rv_adapter **out,
                                                 struct ruvllm_error *err);

#endif
