/* The fields that generating requests share: how tokens are chosen, where an answer ends, and how it is served. */
#ifndef RV_API_API_SAMPLING_H
#define RV_API_API_SAMPLING_H

#include "server/api/api_fields.h"

/* The fields rv_api_sampling_read and rv_api_sampling_serving take. */
extern const struct rv_api_field rv_api_sampling_fields[];
extern const struct rv_api_field rv_api_sampling_serving_fields[];
/* Fields of the clients' world that do nothing here and may be there with values that ask for nothing. */
extern const struct rv_api_field rv_api_sampling_harmless_fields[];
/* Those of tools, where there are none. */
extern const struct rv_api_field rv_api_sampling_no_tools_fields[];

/* temperature, top_p, penalties, seed, stop, logit_bias, ... into request->params, on top of the defaults. */
void rv_api_sampling_read(struct rv_api_fields *body, struct rv_api_request *request);
/* user, metadata, session, kv, priority, prompt_cache. */
void rv_api_sampling_serving(struct rv_api_fields *body, struct rv_api_request *request);
/* The limit of the answer's length under this name; a second name must agree with the first. */
void rv_api_sampling_max_tokens(struct rv_api_fields *body, const char *name, struct rv_api_request *request);
/* stream and stream_options. */
void rv_api_sampling_stream(struct rv_api_fields *body, struct rv_api_request *request);
/* n, whose product with the number of inputs is limited: read those before. */
void rv_api_sampling_n(struct rv_api_fields *body, struct rv_api_request *request);
#endif
