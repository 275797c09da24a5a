/*
 * Files of examples. Input: a byte whose lowest bits say how prompts are taken and whether they are anchors, then the
 * file. What is accepted has exactly one of messages and a response, with a score from 0 to 1 or none; what is refused
 * names its line.
 */
#include "fuzz_target.h"
#include "jsonl_samples.h"

#include <math.h>
#include <string.h>

static void check_sample(const struct ruvllm_train_sample *s, bool is_anchor)
{
    RV_ASSERT(s->struct_size == sizeof(*s) && s->is_anchor == is_anchor);
    RV_ASSERT((s->messages != NULL) != (s->response != NULL));
    RV_ASSERT(isnan(s->score) || (s->score >= 0.0f && s->score <= 1.0f));
    for (size_t i = 0; i < s->n_messages; i++)
        RV_ASSERT(s->messages[i].role && s->messages[i].content);
    if (s->messages)
        RV_ASSERT(s->n_messages >= 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rv_jsonl_samples samples = {0};
    struct ruvllm_error err = {0};
    bool is_anchor = size > 0 && (data[0] & 2);
    ruvllm_status rc;

    if (size == 0)
        return 0;
    rc = rv_jsonl_samples_add(&samples, (const char *)data + 1, size - 1,
                              data[0] & 1 ? RV_JSONL_PROMPTS_CHAT : RV_JSONL_PROMPTS_TEXT, is_anchor, &err);
    RV_ASSERT(rc == RUVLLM_OK || strncmp(err.message, "line ", 5) == 0);
    for (size_t i = 0; i < samples.n_items; i++)
        check_sample(&samples.items[i], is_anchor);
    rv_jsonl_samples_release(&samples);
    return 0;
}
