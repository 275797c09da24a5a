/*
 * A tenant's state as bytes and back, bit by bit: the generations that are kept, the newest of which is what answers. A
 * state that was read goes on as the one that was written would have.
 */
#ifndef RV_LEARN_TENANT_CHECKPOINT_H
#define RV_LEARN_TENANT_CHECKPOINT_H

#include "learn/tenant_learner.h"

/* *out is the caller's to rv_free. */
RV_CHECKED ruvllm_status rv_tenant_checkpoint_write(const struct rv_tenant_learner *learner, void **out, size_t *len,
                                                    struct ruvllm_error *err);
/* Sets right the sum that its bytes begin with. It tells what was damaged: who forges one does this too. */
void rv_tenant_checkpoint_seal(void *data, size_t len);
/*
 * A new learner of this width and rank. FORMAT for bytes that are none: damaged, of another form, width or rank.
 */
RV_CHECKED ruvllm_status rv_tenant_checkpoint_read(struct rv_tenant_learner **out, const void *data, size_t len,
                                                   const struct rv_whitening *whitening, int32_t rank,
                                                   struct ruvllm_error *err);

#endif
