#include "learn/tick_event.h"

#include "base/alloc.h"
#include "kernels/vec.h"

#include <math.h>
#include <string.h>

enum { VERSION = 1 };

/* Little-endian, as every machine we run on; then A and B in bfloat16. */
struct head {
    uint8_t version;
    uint8_t decision;
    uint8_t verdict;
    uint8_t n_halvings;
    int32_t n_pairs;
    int32_t n_dims;
    float budget; // 0: it was written before budgets were
    int64_t generation;
    double kl_before;
    double kl;
    double better;
    double error;
};

static ruvllm_status write_bytes(const struct head *head, const struct rv_head_adapter *made, struct rv_str *out,
                                 struct ruvllm_error *err)
{
    size_t n = (size_t)head->n_pairs * (size_t)head->n_dims, len = sizeof(*head) + 2 * n * sizeof(uint16_t);
    char *bytes = rv_malloc(len);

    if (!bytes)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate %zu bytes", len);
    memcpy(bytes, head, sizeof(*head));
    for (size_t i = 0; i < n; i++) {
        uint16_t a = rv_vec_to_bf16(made->a[i]), b = rv_vec_to_bf16(made->b[i]);

        memcpy(bytes + sizeof(*head) + i * sizeof(a), &a, sizeof(a));
        memcpy(bytes + sizeof(*head) + (n + i) * sizeof(b), &b, sizeof(b));
    }
    *out = (struct rv_str){.data = bytes, .len = len};
    return RUVLLM_OK;
}

static struct head head_of(const struct rv_tick_result *result)
{
    return (struct head){.version = VERSION,
                         .verdict = (uint8_t)result->verdict,
                         .n_halvings = (uint8_t)result->n_halvings,
                         .budget = (float)result->budget,
                         .kl_before = result->kl_before,
                         .kl = result->kl,
                         .better = result->better,
                         .error = result->error};
}

ruvllm_status rv_tick_event_write(const struct rv_head_adapter *made, const struct rv_tick_result *result, int64_t base,
                                  struct rv_str *out, struct ruvllm_error *err)
{
    struct head head = head_of(result);

    head.n_pairs = made->n_pairs;
    head.n_dims = made->n_dims;
    head.generation = base;
    return write_bytes(&head, made, out, err);
}

ruvllm_status rv_tick_event_write_gate(enum rv_tick_event_decision decision, const struct rv_tick_result *result,
                                       int64_t generation, struct rv_str *out, struct ruvllm_error *err)
{
    struct head head = head_of(result);

    head.decision = (uint8_t)decision;
    head.generation = generation;
    return write_bytes(&head, NULL, out, err);
}

static bool is_sound(const struct head *h, size_t len, const struct rv_head_adapter *made)
{
    if (h->version != VERSION || h->decision > RV_TICK_EVENT_PAUSED || h->generation < 0 || h->n_pairs < 0 ||
        !isfinite(h->budget) || !isfinite(h->kl_before) || !isfinite(h->kl) || !isfinite(h->better) ||
        !isfinite(h->error))
        return false;
    if (h->decision > 0)
        return h->n_pairs == 0 && len == sizeof(*h);
    return h->n_dims == made->n_dims && h->n_pairs <= made->rank &&
           len == sizeof(*h) + 2 * sizeof(uint16_t) * (size_t)h->n_pairs * (size_t)h->n_dims;
}

ruvllm_status rv_tick_event_read(struct rv_tick_event *out, struct rv_head_adapter *made, struct rv_str bytes,
                                 struct ruvllm_error *err)
{
    struct head h = {0};
    size_t n;

    if (bytes.len >= sizeof(h))
        memcpy(&h, bytes.data, sizeof(h));
    if (!is_sound(&h, bytes.len, made))
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                            "an event of the background loop is damaged or of another model");
    *out = (struct rv_tick_event){.decision = (enum rv_tick_event_decision)h.decision,
                                  .generation = h.generation,
                                  .result = {.verdict = (enum rv_tick_verdict)h.verdict,
                                             .n_halvings = h.n_halvings,
                                             .budget = (double)h.budget,
                                             .kl_before = h.kl_before,
                                             .kl = h.kl,
                                             .better = h.better,
                                             .error = h.error}};
    if (h.decision > 0)
        return RUVLLM_OK;
    n = (size_t)h.n_pairs * (size_t)h.n_dims;
    for (size_t i = 0; i < n; i++) {
        uint16_t a, b;

        memcpy(&a, bytes.data + sizeof(h) + i * sizeof(a), sizeof(a));
        memcpy(&b, bytes.data + sizeof(h) + (n + i) * sizeof(b), sizeof(b));
        made->a[i] = rv_vec_from_bf16(a);
        made->b[i] = rv_vec_from_bf16(b);
        if (!isfinite(made->a[i]) || !isfinite(made->b[i]))
            return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA,
                                "an event of the background loop has numbers that are none");
    }
    made->n_pairs = h.n_pairs;
    return RUVLLM_OK;
}

int64_t rv_tick_event_goes_back_to(struct rv_str bytes)
{
    struct head h = {0};

    if (bytes.len >= sizeof(h))
        memcpy(&h, bytes.data, sizeof(h));
    return h.decision == RV_TICK_EVENT_PAUSED && is_sound(&h, bytes.len, NULL) ? h.generation : -1;
}

ruvllm_status rv_tick_event_apply(struct rv_tenant_learner *learner, struct rv_str bytes, struct ruvllm_error *err)
{
    const struct rv_head_adapter *now = &learner->now.adapter;
    struct rv_head_adapter made;
    struct rv_tick_event event;
    ruvllm_status rc = rv_head_adapter_init(&made, now->n_dims, RV_HEAD_ADAPTER_MAX_RANK, err);

    if (rc)
        return rc;
    rc = rv_tick_event_read(&event, &made, bytes, err);
    if (!rc && event.decision == 0 && event.result.budget > 0)
        learner->now.kl_budget = event.result.budget;
    if (!rc && event.decision == 0 && !rv_tenant_learner_can_tick(learner, event.generation))
        rc = rv_tenant_learner_skip(learner, err); // another process was faster: void, then as now
    else if (!rc && event.decision == 0)
        rc = rv_tenant_learner_tick(learner, &made, event.generation, event.result.kl, err);
    else if (!rc && event.decision == RV_TICK_EVENT_PAUSED)
        rc = rv_tenant_learner_pause(learner, event.generation, err);
    rv_head_adapter_release(&made);
    return rc;
}
