/* The shape an answer must have: "response_format", "grammar", "regex", and the format of a response's text. */
#ifndef RV_API_API_SHAPE_H
#define RV_API_API_SHAPE_H

#include "server/api/api_fields.h"

/* "grammar" and "regex", for tables of known fields. */
extern const struct rv_api_field rv_api_shape_fields[];

/* Reads "response_format", "grammar" and "regex"; at most one of them may ask for something. */
void rv_api_shape_read(struct rv_api_fields *body, struct rv_api_request *request);
/* Reads "text": {"format", "verbosity"}, and "grammar" and "regex" beside it. */
void rv_api_shape_read_text(struct rv_api_fields *body, struct rv_api_request *request);

#endif
