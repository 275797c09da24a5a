/*
 * Which answer of which engine a response id means, for feedback that comes later: a table of fixed size, the oldest
 * going first. Ids are random and found only under the tenant they were made for; another tenant's look like none.
 *
 * Threads: any may call; one lock, held for a few steps.
 */
#ifndef RV_SERVER_RESPONSE_INDEX_H
#define RV_SERVER_RESPONSE_INDEX_H

#include "base/error.h"

enum { RV_RESPONSE_INDEX_ID = 47, RV_RESPONSE_INDEX_TENANT = 64 }; // longest, without the NUL

struct rv_response_index;

/* Room for `n_answers`, at least 1. */
RV_CHECKED ruvllm_status rv_response_index_new(struct rv_response_index **out, size_t n_answers,
                                               struct ruvllm_error *err);
void rv_response_index_free(struct rv_response_index *index);

/* Answer number `choice` of a response; one whose id or tenant is too long is not kept. */
void rv_response_index_add(struct rv_response_index *index, const char *id, int32_t choice, const char *tenant,
                           size_t i_model, uint64_t answer);
/* False when there is none, or none of this tenant's. */
bool rv_response_index_find(struct rv_response_index *index, const char *id, int32_t choice, const char *tenant,
                            size_t *i_model, uint64_t *answer);
/* The model was opened anew: its engine counts from the beginning, so nothing known of its answers is true any more. */
void rv_response_index_forget(struct rv_response_index *index, size_t i_model);

#endif
