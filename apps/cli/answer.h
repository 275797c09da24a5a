/* One answer of a model: shown while it comes, stopped by Ctrl-C, and put into JSON. */
#ifndef RV_CLI_ANSWER_H
#define RV_CLI_ANSWER_H

#include "output.h"

/* An answer on standard output while it comes; begins as {.show = ...}. */
struct rv_answer_view {
    bool show;
    bool is_waiting; // a sign that the prompt is being read is on the screen
    bool ends_line;  // the last thing written was a newline
};

void rv_answer_view_begin(struct rv_answer_view *view);
void rv_answer_view_text(struct rv_answer_view *view, const char *text, size_t len);
/* `is_answered`: what came ends with a newline. */
void rv_answer_view_end(struct rv_answer_view *view, bool is_answered);

/*
 * Generates the answer to `input`, writing it to standard output piece by piece when `show`, with a newline at
 * its end. Ctrl-C ends it early with RUVLLM_STOP_CALLBACK; what came is in the response.
 */
RV_CHECKED ruvllm_status rv_answer_stream(ruvllm_model *model, const struct ruvllm_input *input,
                                          const struct ruvllm_generate_params *params, bool show,
                                          struct ruvllm_response **out, struct ruvllm_error *err);

/* "interrupted" for a stop by Ctrl-C, else the library's name. */
const char *rv_answer_stop_name(ruvllm_stop_reason reason);

/*
 * Adds text, tokens, usage, timings, stop_reason, seed and, when present, logprobs to an object. The model spells
 * the tokens of the logprobs.
 */
void rv_answer_json(yyjson_mut_doc *doc, yyjson_mut_val *object, const ruvllm_model *model,
                    const struct ruvllm_response *response);

/* "42 tokens · 31.2 tok/s · prompt 120 (90 cached, 310 tok/s)" into `out`. */
void rv_answer_summary(const struct ruvllm_response *response, char *out, size_t out_size);

/* Speed of the tokens after the first, which is part of reading the prompt; 0 when there is none. */
double rv_answer_decode_rate(const struct ruvllm_response *response);

#endif
