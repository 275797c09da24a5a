/* A metric is a row of a table where it is one number of a model; histograms and routes have loops of their own. */
#include "server/metrics.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <string.h>

static const double bounds[RV_METRICS_N_BUCKETS - 1] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                        1,     2.5,    5,     10,   20,    30,   60,  120};
/* What we answer with; anything else is counted under 0. */
static const int statuses[RV_METRICS_N_STATUSES] = {200, 204, 302, 304, 400, 401, 403, 404, 405, 408, 409, 411, 413,
                                                    414, 415, 417, 421, 429, 431, 499, 500, 501, 503, 504, 507, 0};

ruvllm_status rv_metrics_init(struct rv_metrics *metrics, size_t n_models, size_t n_routes, struct ruvllm_error *err)
{
    *metrics = (struct rv_metrics){.n_models = n_models, .n_routes = n_routes};
    metrics->models = rv_calloc(n_models ? n_models : 1, sizeof(*metrics->models));
    metrics->requests = rv_calloc(n_routes + 1, sizeof(*metrics->requests));
    if (metrics->models && metrics->requests)
        return RUVLLM_OK;
    rv_metrics_release(metrics);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the metrics");
}

void rv_metrics_release(struct rv_metrics *metrics)
{
    rv_free(metrics->models);
    rv_free(metrics->requests);
    *metrics = (struct rv_metrics){0};
}

void rv_metrics_request(struct rv_metrics *metrics, size_t i_route, int status)
{
    size_t i = 0;

    while (i < RV_METRICS_N_STATUSES - 1 && statuses[i] != status)
        i++;
    metrics->requests[i_route < metrics->n_routes ? i_route : metrics->n_routes][i]++;
}

void rv_metrics_observe(struct rv_metrics_histogram *histogram, double seconds, uint64_t n)
{
    size_t i = 0;

    while (i < RV_METRICS_N_BUCKETS - 1 && seconds > bounds[i])
        i++;
    histogram->counts[i] += n;
    histogram->n += n;
    histogram->sum += seconds * (double)n;
}

double rv_metrics_mean_seconds(const struct rv_metrics *metrics, size_t i_model)
{
    const struct rv_metrics_histogram *h = &metrics->models[i_model].total;

    return h->n ? h->sum / (double)h->n : 0;
}

/* ---- the page --------------------------------------------------------------------------------- */

static void add_head(struct rv_buf *out, const char *name, const char *type, const char *help)
{
    rv_buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Model names hold nothing that a label would have to escape: the model set saw to that. */
static void add_histogram(struct rv_buf *out, const char *name, const char *model,
                          const struct rv_metrics_histogram *histogram)
{
    uint64_t n = 0;

    for (size_t i = 0; i < RV_METRICS_N_BUCKETS - 1; i++) {
        n += histogram->counts[i];
        rv_buf_addf(out, "%s_bucket{model_name=\"%s\",le=\"%g\"} %" PRIu64 "\n", name, model, bounds[i], n);
    }
    rv_buf_addf(out, "%s_bucket{model_name=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, model, histogram->n);
    rv_buf_addf(out, "%s_sum{model_name=\"%s\"} %.6f\n", name, model, histogram->sum);
    rv_buf_addf(out, "%s_count{model_name=\"%s\"} %" PRIu64 "\n", name, model, histogram->n);
}

struct histogram_row {
    const char *name;
    const char *help;
    size_t offset; // in struct rv_metrics_model
};

static const struct histogram_row histogram_rows[] = {
    {"ruvllm_time_to_first_token_seconds", "From a request's arrival to its first token.",
     offsetof(struct rv_metrics_model, first_token)},
    {"ruvllm_inter_token_seconds", "Between two tokens of an answer.", offsetof(struct rv_metrics_model, inter_token)},
    {"ruvllm_queue_seconds", "Waiting before a prompt was computed.", offsetof(struct rv_metrics_model, queue)},
    {"ruvllm_request_seconds", "From a request's arrival to its last token.", offsetof(struct rv_metrics_model, total)},
    {"ruvllm_feedback_compute_seconds", "From feedback to what it changes, without the disk and without reading texts.",
     offsetof(struct rv_metrics_model, feedback_compute)},
    {"ruvllm_feedback_commit_seconds", "What feedback waits for the disk.",
     offsetof(struct rv_metrics_model, feedback_commit)},
    {"vllm:time_to_first_token_seconds", "As ruvllm_time_to_first_token_seconds.",
     offsetof(struct rv_metrics_model, first_token)},
    {"vllm:time_per_output_token_seconds", "As ruvllm_inter_token_seconds.",
     offsetof(struct rv_metrics_model, inter_token)},
    {"vllm:request_queue_time_seconds", "As ruvllm_queue_seconds.", offsetof(struct rv_metrics_model, queue)},
    {"vllm:e2e_request_latency_seconds", "As ruvllm_request_seconds.", offsetof(struct rv_metrics_model, total)},
};

static void add_histograms(struct rv_buf *out, const struct rv_metrics *m, const struct rv_metrics_view *view)
{
    for (size_t r = 0; r < sizeof(histogram_rows) / sizeof(histogram_rows[0]); r++) {
        const struct histogram_row *row = &histogram_rows[r];

        add_head(out, row->name, "histogram", row->help);
        for (size_t i = 0; i < m->n_models; i++)
            add_histogram(
                out, row->name, view->models[i].name,
                (const struct rv_metrics_histogram *)(const void *)((const char *)&m->models[i] + row->offset));
    }
}

/* One number of a model. Gauges and counters of an engine are there only while it is loaded. */
struct number_row {
    const char *name;
    const char *type;
    const char *help;
    double (*value)(const struct rv_metrics_model *model, const struct ruvllm_engine_stats *stats);
    bool needs_engine;
};

#define NUMBER(id, expression)                                                                                         \
    static double id(const struct rv_metrics_model *model, const struct ruvllm_engine_stats *stats)                    \
    {                                                                                                                  \
        (void)model, (void)stats;                                                                                      \
        return (double)(expression);                                                                                   \
    }

NUMBER(prompt_tokens, model->prompt_tokens)
NUMBER(cached_tokens, model->cached_tokens)
NUMBER(generated_tokens, model->generated_tokens)
NUMBER(n_stop, model->n_stop)
NUMBER(n_length, model->n_length)
NUMBER(n_cancelled, model->n_cancelled)
NUMBER(feedback, model->feedback_compute.n)
NUMBER(running, stats->running)
NUMBER(waiting, stats->waiting)
NUMBER(kv_used, stats->kv_used)
NUMBER(kv_budget, stats->kv_budget)
NUMBER(kv_share, stats->kv_budget ? (double)stats->kv_used / (double)stats->kv_budget : 0)
NUMBER(blocks_f16, stats->kv_blocks_f16)
NUMBER(blocks_q8, stats->kv_blocks_q8)
NUMBER(blocks_q4, stats->kv_blocks_q4)
NUMBER(blocks_idle, stats->kv_blocks_idle)
NUMBER(steps, stats->steps)
NUMBER(engine_prompt, stats->prompt_tokens)
NUMBER(engine_cached, stats->cached_tokens)
NUMBER(migrated, stats->blocks_migrated)
NUMBER(squeezed, stats->blocks_squeezed)
NUMBER(evicted, stats->blocks_evicted)
NUMBER(preempted, stats->preempted)
NUMBER(spilled, stats->blocks_spilled)
NUMBER(restored, stats->blocks_restored)
NUMBER(spill_failures, stats->spill_failures)
NUMBER(drafted, stats->drafted_tokens)
NUMBER(accepted, stats->accepted_tokens)
NUMBER(busy, (double)stats->busy_us / 1e6)

static const struct number_row number_rows[] = {
    {"ruvllm_prompt_tokens_total", "counter", "Prompt tokens of answered requests.", prompt_tokens, false},
    {"ruvllm_cached_tokens_total", "counter", "Of those, found in the prefix cache.", cached_tokens, false},
    {"ruvllm_generated_tokens_total", "counter", "Tokens of answers.", generated_tokens, false},
    {"ruvllm_finished_stop_total", "counter", "Answers the model or a stop string ended.", n_stop, false},
    {"ruvllm_finished_length_total", "counter", "Answers that max_tokens or the context ended.", n_length, false},
    {"ruvllm_cancelled_total", "counter", "Answers whose reader went away.", n_cancelled, false},
    {"ruvllm_feedback_total", "counter", "Votes, corrections and pairs that were taken.", feedback, false},
    {"ruvllm_drafted_tokens_total", "counter", "Tokens that were guessed ahead.", drafted, true},
    {"ruvllm_accepted_tokens_total", "counter", "Of those, what the model says.", accepted, true},
    {"ruvllm_requests_running", "gauge", "Sequences being computed: the size of the batch.", running, true},
    {"ruvllm_requests_waiting", "gauge", "Sequences waiting for their turn.", waiting, true},
    {"ruvllm_kv_bytes_used", "gauge", "Bytes of keys and values in use.", kv_used, true},
    {"ruvllm_kv_bytes_budget", "gauge", "Bytes of keys and values there may be.", kv_budget, true},
    {"ruvllm_kv_blocks_f16", "gauge", "Blocks of 32 tokens kept in 16 bits.", blocks_f16, true},
    {"ruvllm_kv_blocks_q8", "gauge", "Blocks kept in 8 bits.", blocks_q8, true},
    {"ruvllm_kv_blocks_q4", "gauge", "Blocks kept in 4 bits.", blocks_q4, true},
    {"ruvllm_kv_blocks_idle", "gauge", "Blocks kept for requests to come.", blocks_idle, true},
    {"ruvllm_engine_steps_total", "counter", "Batches computed.", steps, true},
    {"ruvllm_engine_busy_seconds_total", "counter", "Time spent computing.", busy, true},
    {"ruvllm_prefix_queries_tokens_total", "counter", "Prompt tokens the prefix cache was asked for.", engine_prompt,
     true},
    {"ruvllm_prefix_hits_tokens_total", "counter", "Prompt tokens it had.", engine_cached, true},
    {"ruvllm_kv_blocks_migrated_total", "counter", "Blocks that moved to a lower precision by age.", migrated, true},
    {"ruvllm_kv_blocks_squeezed_total", "counter", "Blocks quantised early, for room.", squeezed, true},
    {"ruvllm_kv_blocks_evicted_total", "counter", "Shared blocks dropped for room.", evicted, true},
    {"ruvllm_preempted_total", "counter", "Sequences that had to give way.", preempted, true},
    {"ruvllm_kv_blocks_spilled_total", "counter", "Blocks of those written to the spill file.", spilled, true},
    {"ruvllm_kv_blocks_restored_total", "counter", "Blocks read back from it.", restored, true},
    {"ruvllm_kv_spill_failures_total", "counter", "Times the spill file could not be written or read.", spill_failures,
     true},
    {"vllm:num_requests_running", "gauge", "As ruvllm_requests_running.", running, true},
    {"vllm:num_requests_waiting", "gauge", "As ruvllm_requests_waiting.", waiting, true},
    {"vllm:kv_cache_usage_perc", "gauge", "Share of the budget of keys and values in use, 0 to 1.", kv_share, true},
    {"vllm:gpu_cache_usage_perc", "gauge", "As vllm:kv_cache_usage_perc.", kv_share, true},
    {"vllm:prompt_tokens_total", "counter", "As ruvllm_prompt_tokens_total.", prompt_tokens, false},
    {"vllm:generation_tokens_total", "counter", "As ruvllm_generated_tokens_total.", generated_tokens, false},
    {"vllm:num_preemptions_total", "counter", "As ruvllm_preempted_total.", preempted, true},
};

static void add_numbers(struct rv_buf *out, const struct rv_metrics *m, const struct rv_metrics_view *view)
{
    for (size_t r = 0; r < sizeof(number_rows) / sizeof(number_rows[0]); r++) {
        const struct number_row *row = &number_rows[r];

        add_head(out, row->name, row->type, row->help);
        for (size_t i = 0; i < m->n_models; i++) {
            if (!row->needs_engine || view->models[i].is_loaded)
                rv_buf_addf(out, "%s{model_name=\"%s\"} %.15g\n", row->name, view->models[i].name,
                            row->value(&m->models[i], &view->models[i].stats));
        }
    }
}

static void add_requests(struct rv_buf *out, const struct rv_metrics *m, const struct rv_metrics_view *view)
{
    add_head(out, "ruvllm_http_requests_total", "counter", "Answered requests by route and status.");
    for (size_t r = 0; r <= m->n_routes; r++) {
        for (size_t i = 0; i < RV_METRICS_N_STATUSES; i++) {
            if (m->requests[r][i])
                rv_buf_addf(out, "ruvllm_http_requests_total{route=\"%s\",method=\"%s\",status=\"%d\"} %" PRIu64 "\n",
                            r < m->n_routes ? view->route_name(r) : "none",
                            r < m->n_routes ? view->route_method(r) : "any", statuses[i], m->requests[r][i]);
        }
    }
}

static void add_number(struct rv_buf *out, const char *name, const char *type, const char *help, double value)
{
    add_head(out, name, type, help);
    rv_buf_addf(out, "%s %.15g\n", name, value);
}

static void add_server(struct rv_buf *out, const struct rv_metrics *m, const struct rv_metrics_view *view)
{
    add_number(out, "ruvllm_connections", "gauge", "Open connections.", view->n_connections);
    add_number(out, "ruvllm_calls", "gauge", "Requests under way.", view->n_calls);
    add_number(out, "ruvllm_draining", "gauge", "1 while the server ends.", view->is_draining);
    add_number(out, "ruvllm_http_refused_total", "counter", "Requests refused for their form, before a route.",
               (double)m->n_refused_early);
    add_number(out, "ruvllm_witness_dropped_total", "counter", "Entries of the witness log that were lost.",
               (double)view->witness_dropped);
    add_head(out, "ruvllm_model_loaded", "gauge", "1 while the model is in memory.");
    for (size_t i = 0; i < m->n_models; i++)
        rv_buf_addf(out, "ruvllm_model_loaded{model_name=\"%s\"} %d\n", view->models[i].name,
                    view->models[i].is_loaded);
    /* Routers take the line with the newest value for the truth. Any number of adapters runs in one batch. */
    add_head(out, "vllm:lora_requests_info", "gauge",
             "Adapters of answers that have begun and of those that wait; the value is the time.");
    rv_buf_addf(out,
                "vllm:lora_requests_info{max_lora=\"%d\",running_lora_adapters=\"%s\",waiting_lora_adapters=\"%s\"} "
                "%" PRId64 "\n",
                ruvllm_engine_params_default().max_adapters, view->running_adapters ? view->running_adapters : "",
                view->waiting_adapters ? view->waiting_adapters : "", view->now_s);
}

void rv_metrics_write(const struct rv_metrics *metrics, const struct rv_metrics_view *view, struct rv_buf *out)
{
    add_requests(out, metrics, view);
    add_histograms(out, metrics, view);
    add_numbers(out, metrics, view);
    add_server(out, metrics, view);
}
