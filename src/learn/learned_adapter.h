/* What was learned at the head and below it, as one adapter: for who takes it along. */
#ifndef RV_LEARN_LEARNED_ADAPTER_H
#define RV_LEARN_LEARNED_ADAPTER_H

#include "model/adapter.h"

/* Of the head's change of one adapter and the layers' of another, either of which may be NULL; one reference. */
RV_CHECKED ruvllm_status rv_learned_adapter_join(struct rv_adapter **out, const struct rv_adapter *head,
                                                 const struct rv_adapter *layers, const struct rv_hparams *hparams,
                                                 const struct rv_manifest *manifest, struct ruvllm_error *err);

#endif
