#include "learn/tick.h"

#include "kernels/vec.h"

enum { TABLE_MIB = 64, FISHER_ROWS = 128, MAX_HALVINGS = 3 };

static const double FULL_TRUST = 16; // good answers it takes before the whole budget may be used
static const double DOUBT = 2;       // standard errors that count as chance

ruvllm_status rv_tick_init(struct rv_tick *out, const struct rv_tick_config *config, struct ruvllm_error *err)
{
    const struct rv_tick_config *c = config;
    int32_t dims = c->whitening->n_dims;
    ruvllm_status rc;

    *out = (struct rv_tick){.config = *c};
    rc = rv_head_table_init(&out->table, c->manifest, c->hparams, (size_t)TABLE_MIB << 20, err);
    if (!rc)
        rc = rv_head_fit_init(&out->fit, &out->table, c->whitening, c->anchors, c->rank, err);
    if (!rc)
        rc = rv_head_fisher_init(&out->fisher, c->whitening, err);
    if (!rc)
        rc = rv_head_adapter_init(&out->now, dims, c->rank, err);
    if (!rc)
        rc = rv_head_adapter_init(&out->fitted, dims, c->rank, err);
    if (!rc)
        rc = rv_head_adapter_init(&out->made, dims, c->rank, err);
    if (rc)
        rv_tick_release(out);
    return rc;
}

void rv_tick_release(struct rv_tick *tick)
{
    rv_head_fit_release(&tick->fit);
    rv_head_table_release(&tick->table);
    rv_head_fisher_release(&tick->fisher);
    rv_head_adapter_release(&tick->now);
    rv_head_adapter_release(&tick->fitted);
    rv_head_adapter_release(&tick->made);
    *tick = (struct rv_tick){0};
}

void rv_tick_begin(struct rv_tick *tick, const struct rv_head_adapter *now)
{
    rv_head_adapter_copy(&tick->now, now);
}

/* What bytes of an event will say. */
static void round_adapter(struct rv_head_adapter *x)
{
    for (size_t i = 0; i < (size_t)x->n_pairs * (size_t)x->n_dims; i++) {
        x->a[i] = rv_vec_from_bf16(rv_vec_to_bf16(x->a[i]));
        x->b[i] = rv_vec_from_bf16(rv_vec_to_bf16(x->b[i]));
    }
}

/* Goes over the answers again and makes one of what is and what was found; into tick->made. */
static ruvllm_status improve(struct rv_tick *t, struct rv_study *study, struct rv_rehearsal_answer *const *answers,
                             size_t n, double mean, int64_t until_us, const struct rv_tick_result *result,
                             struct ruvllm_error *err)
{
    double share = t->fit.n_good / FULL_TRUST, budget = t->budget * (share < 1 ? share : 1);
    struct rv_consolidate_member members[2] = {{.adapter = &t->now, .fisher = &study->fisher},
                                               {.adapter = &t->fitted, .fisher = &t->fisher}};
    ruvllm_status rc;

    budget = budget > result->kl_before ? budget : result->kl_before;
    budget = budget < t->budget ? budget : t->budget;
    rv_head_adapter_copy(&t->fitted, &t->now);
    t->fit.pull = study->pull;
    rv_head_fit_run(&t->fit, &t->fitted, budget, RV_TICK_STEPS, until_us);
    study->pull = t->fit.pull;
    rv_head_fisher_clear(&t->fisher);
    rv_head_fisher_add(&t->fisher, &t->fit, &t->fitted, FISHER_ROWS);
    rc = rv_head_fit_load(&t->fit, answers, n, mean, true, err);
    if (rc)
        return rc;
    for (int i = 0; i < 2; i++)
        members[i].quality = rv_head_fit_gain(&t->fit, members[i].adapter);
    return rv_consolidate(&t->made, t->config.strategy, members, 2, t->config.whitening, err);
}

/* Lets pass what does not do worse than chance explains on what was held out; else half of it, and half again. */
static ruvllm_status judge(struct rv_tick *t, struct rv_tick_result *result, struct ruvllm_error *err)
{
    struct rv_consolidate_member halves[2] = {{.adapter = &t->now}, {.adapter = &t->fitted}};
    struct rv_head_fit_verdict v = rv_head_fit_compare(&t->fit, &t->now, &t->made);
    ruvllm_status rc = RUVLLM_OK;

    result->verdict = RV_TICK_ACCEPTED;
    while (v.better < -DOUBT * v.error && result->n_halvings < MAX_HALVINGS && !rc) {
        rv_head_adapter_copy(&t->fitted, &t->made);
        rc = rv_consolidate(&t->made, RV_CONSOLIDATE_AVERAGE, halves, 2, t->config.whitening, err);
        v = rv_head_fit_compare(&t->fit, &t->now, &t->made);
        result->verdict = RV_TICK_HALVED;
        result->n_halvings++;
    }
    if (v.better < -DOUBT * v.error)
        result->verdict = RV_TICK_REJECTED;
    result->better = v.better;
    result->error = v.error;
    return rc;
}

ruvllm_status rv_tick_run(struct rv_tick *tick, struct rv_study *study, struct rv_rehearsal_answer *const *answers,
                          size_t n, double mean, int64_t until_us, struct rv_tick_result *result,
                          struct ruvllm_error *err)
{
    struct rv_tick *t = tick;
    bool is_over;
    ruvllm_status rc;

    *result = (struct rv_tick_result){.verdict = RV_TICK_NOTHING};
    rv_head_table_settle(&t->table);
    rc = rv_head_fit_load(&t->fit, answers, n, mean, false, err);
    if (rc)
        return rc;
    if (!(t->budget > 0))
        t->budget = t->config.budget * rv_head_fit_entropy(&t->fit);
    result->budget = t->budget;
    result->kl_before = result->kl = rv_head_fit_kl(&t->fit, &t->now);
    is_over = result->kl_before > t->budget;
    if (is_over) // whatever comes of the rest
        rv_head_fit_project(&t->fit, &t->now, t->budget);
    if (t->fit.up.n > 0 && t->fit.down.n > 0) {
        rc = improve(t, study, answers, n, mean, until_us, result, err);
        rv_head_fit_project(&t->fit, &t->made, t->budget);
        if (!rc)
            rc = judge(t, result, err);
    }
    if (!rc && is_over && (result->verdict == RV_TICK_NOTHING || result->verdict == RV_TICK_REJECTED)) {
        rv_head_adapter_copy(&t->made, &t->now);
        result->verdict = RV_TICK_HALVED;
    }
    if (rc || result->verdict == RV_TICK_NOTHING || result->verdict == RV_TICK_REJECTED)
        return rc;
    round_adapter(&t->made);
    result->kl = rv_head_fit_kl(&t->fit, &t->made);
    rc = rv_head_fit_load(&t->fit, answers, n, mean, false, err);
    if (!rc)
        rv_head_fisher_add(&study->fisher, &t->fit, &t->made, FISHER_ROWS);
    return rc;
}
