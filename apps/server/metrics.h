/*
 * What the server counts, and its page for Prometheus (text format 0.0.4). Only the I/O thread calls. Figures of a
 * model have the label model_name; those that vLLM has too are repeated under its names, so that routers and dashboards
 * made for it work.
 */
#ifndef RV_SERVER_METRICS_H
#define RV_SERVER_METRICS_H

#include "base/buf.h"

enum { RV_METRICS_N_BUCKETS = 18, RV_METRICS_N_STATUSES = 26 };

/* Seconds. The last bucket is +Inf. Counts are per bucket, not yet summed up. */
struct rv_metrics_histogram {
    uint64_t counts[RV_METRICS_N_BUCKETS];
    uint64_t n;
    double sum;
};

struct rv_metrics_model {
    struct rv_metrics_histogram first_token; // from the request's arrival
    struct rv_metrics_histogram inter_token;
    struct rv_metrics_histogram queue;
    struct rv_metrics_histogram total;
    struct rv_metrics_histogram feedback_compute;
    struct rv_metrics_histogram feedback_commit;
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t generated_tokens;
    uint64_t n_stop; // by finish reason
    uint64_t n_length;
    uint64_t n_cancelled;
};

struct rv_metrics {
    struct rv_metrics_model *models;
    size_t n_models;
    uint64_t (*requests)[RV_METRICS_N_STATUSES]; // by route; the last row is of no route
    size_t n_routes;
    uint64_t n_refused_early; // by the HTTP layer, before a route
};

/* What the page shows beside the counters: taken by the caller at the time it is asked for. */
struct rv_metrics_model_view {
    const char *name;
    bool is_loaded;
    struct ruvllm_engine_stats stats; // when loaded
};

struct rv_metrics_view {
    const char *(*route_name)(size_t i_route);
    const char *(*route_method)(size_t i_route);
    const struct rv_metrics_model_view *models; // n_models of the metrics
    int32_t n_connections;
    int32_t n_calls;
    bool is_draining;
    uint64_t witness_dropped;
    const char *running_adapters; // ids with commas between them; NULL: none
    const char *waiting_adapters;
    int64_t now_s; // Unix time
};

RV_CHECKED ruvllm_status rv_metrics_init(struct rv_metrics *metrics, size_t n_models, size_t n_routes,
                                         struct ruvllm_error *err);
void rv_metrics_release(struct rv_metrics *metrics);

/* One answered request; i_route n_routes is "none". */
void rv_metrics_request(struct rv_metrics *metrics, size_t i_route, int status);
/* `n` observations of `seconds` each. */
void rv_metrics_observe(struct rv_metrics_histogram *histogram, double seconds, uint64_t n);
/* How long a request of the model took on average; 0 when there was none. */
double rv_metrics_mean_seconds(const struct rv_metrics *metrics, size_t i_model);
void rv_metrics_write(const struct rv_metrics *metrics, const struct rv_metrics_view *view, struct rv_buf *out);

#endif
