/*
 * From bytes to a request: the tree is read and checked, the kind's reader fills the request, the request keeps the
 * tree, in which most of its strings live.
 */
#include "server/api/api_request.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "server/api/api_adapter.h"
#include "server/api/api_body.h"
#include "server/api/api_kinds.h"

#include <string.h>

enum { MAX_OVERHEAD = 8 << 20 }; // bytes beside joined texts: token ids, messages, biases

struct owner {
    struct rv_api_request request; // first: what callers hold is this
    yyjson_doc *doc;
    struct rv_arena arena;
};

typedef void (*read_fn)(struct rv_api_fields *body, struct rv_api_request *request);

static const read_fn readers[] = {
    [RV_API_CHAT] = rv_api_chat_read,           [RV_API_COMPLETION] = rv_api_completion_read,
    [RV_API_EMBEDDING] = rv_api_embedding_read, [RV_API_RESPONSE] = rv_api_response_read,
    [RV_API_TOKENIZE] = rv_api_tokenize_read,   [RV_API_DETOKENIZE] = rv_api_detokenize_read,
    [RV_API_TEMPLATE] = rv_api_template_read,
};

static struct owner *owner_new(enum rv_api_kind kind, size_t len)
{
    struct owner *owner = rv_calloc(1, sizeof(*owner));

    if (!owner)
        return NULL;
    rv_arena_init(&owner->arena, len + MAX_OVERHEAD);
    owner->request = (struct rv_api_request){
        .kind = kind,
        .params = ruvllm_generate_params_default(),
        .kv = ruvllm_kv_policy_default(),
        .n = 1,
    };
    owner->request.params.max_tokens = INT32_MAX;
    return owner;
}

static ruvllm_status read_body(struct owner *owner, struct rv_api_error *err)
{
    struct rv_api_reader reader = {.arena = &owner->arena, .err = err};
    struct rv_api_request *request = &owner->request;
    struct rv_api_fields body;

    if (rv_api_fields_init(&body, &reader, yyjson_doc_get_root(owner->doc), "")) {
        rv_api_fields_require(&body, "model");
        rv_api_fields_string(&body, "model", 1, RV_API_MAX_MODEL, &request->model);
        readers[request->kind](&body, request);
    }
    return reader.failed;
}

ruvllm_status rv_api_request_parse(enum rv_api_kind kind, const char *body, size_t len, struct rv_api_request **out,
                                   struct rv_api_error *err)
{
    struct owner *owner = owner_new(kind, len);
    ruvllm_status rc;

    *out = NULL;
    if (!owner) {
        rv_api_error_from(err, &(struct ruvllm_error){.status = RUVLLM_NO_MEMORY});
        return RUVLLM_NO_MEMORY;
    }
    rc = rv_api_body_read(body, len, &owner->doc, err);
    if (rc == RUVLLM_OK)
        rc = read_body(owner, err);
    if (rc) {
        rv_api_request_free(&owner->request);
        return rc;
    }
    *out = &owner->request;
    return RUVLLM_OK;
}

void rv_api_request_free(struct rv_api_request *request)
{
    struct owner *owner = (struct owner *)request;

    if (!owner)
        return;
    yyjson_doc_free(owner->doc);
    rv_arena_release(&owner->arena);
    rv_free(owner);
}

/* ---- what is promised ------------------------------------------------------------------------- */

static bool is_between(double value, double min, double max)
{
    return value >= min && value <= max;
}

static void check_input(const struct ruvllm_input *input)
{
    RV_ASSERT(input->struct_size == sizeof(*input));
    RV_ASSERT((input->text != NULL) + (input->messages != NULL) + (input->tokens != NULL) == 1);
    RV_ASSERT(!input->text || (strlen(input->text) == input->text_len && rv_utf8_valid(input->text, input->text_len)));
    RV_ASSERT(input->messages ? is_between((double)input->n_messages, 1, RV_API_MAX_MESSAGES + 1)
                              : input->n_messages == 0);
    for (size_t i = 0; input->messages && i < input->n_messages; i++) {
        const struct ruvllm_message *m = &input->messages[i];

        RV_ASSERT(!strcmp(m->role, "system") || !strcmp(m->role, "user") || !strcmp(m->role, "assistant") ||
                  !strcmp(m->role, "tool"));
        RV_ASSERT(rv_utf8_valid(m->content, strlen(m->content)));
    }
    RV_ASSERT((input->tokens != NULL) == (input->n_tokens > 0));
    for (size_t i = 0; input->tokens && i < input->n_tokens; i++)
        RV_ASSERT(input->tokens[i] >= 0);
}

static void check_params(const struct ruvllm_generate_params *p)
{
    RV_ASSERT(p->max_tokens >= 0 && p->top_k >= 0);
    RV_ASSERT(is_between((double)p->temperature, 0, 2) && is_between((double)p->top_p, 0, 1));
    RV_ASSERT(is_between((double)p->min_p, 0, 1) && is_between((double)p->typical_p, 0, 1));
    RV_ASSERT(p->repetition_penalty >= 0.01f && p->repetition_penalty <= 100.0f);
    RV_ASSERT(is_between((double)p->frequency_penalty, -2, 2) && is_between((double)p->presence_penalty, -2, 2));
    RV_ASSERT(is_between(p->penalty_window, -1, 1 << 20) && is_between(p->n_logprobs, -1, 20));
    RV_ASSERT(p->n_logit_bias <= RV_API_MAX_LOGIT_BIAS && p->n_stop <= RV_API_MAX_STOPS);
    for (size_t i = 0; i < p->n_logit_bias; i++)
        RV_ASSERT(p->logit_bias[i].token >= 0 && is_between((double)p->logit_bias[i].bias, -100, 100));
    for (size_t i = 0; i < p->n_stop; i++)
        RV_ASSERT(is_between((double)strlen(p->stop[i]), 1, RV_API_MAX_STOP_BYTES));
}

void rv_api_request_check(const struct rv_api_request *request)
{
    const struct rv_api_request *r = request;

    RV_ASSERT(r->model && is_between((double)strlen(r->model), 1, RV_API_MAX_MODEL));
    RV_ASSERT(is_between((double)r->n_inputs, 1, RV_API_MAX_PROMPTS) && is_between(r->n, 1, RV_API_MAX_N));
    RV_ASSERT(r->n_inputs * (size_t)r->n <= RV_API_MAX_CHOICES);
    for (size_t i = 0; i < r->n_inputs; i++)
        check_input(&r->inputs[i]);
    check_params(&r->params);
    RV_ASSERT(r->has_max_tokens || r->params.max_tokens == INT32_MAX);
    RV_ASSERT(r->stream || !r->include_usage);
    RV_ASSERT(is_between(r->kv.hot_tokens, 0, 1 << 24) && is_between(r->kv.warm_tokens, 0, 1 << 24));
    RV_ASSERT(is_between(r->priority, -10, 10) && is_between(r->dimensions, 0, 1 << 20));
    RV_ASSERT(!r->session || (is_between((double)strlen(r->session), 1, RV_API_MAX_NAME) && r->session[0] != '.'));
    RV_ASSERT(r->n_metadata <= RV_API_MAX_METADATA);
    RV_ASSERT(r->n_adapters <= RV_API_MAX_ADAPTERS);
    for (size_t i = 0; i < r->n_adapters; i++)
        RV_ASSERT(rv_api_adapter_is_id(r->adapters[i].id) && is_between((double)r->adapters[i].weight, -8, 8) &&
                  r->adapters[i].generation >= 0);
}
