/* The public API's door to quantising: arguments and defaults; the model module does the work. */
#include "ruvllm_hub.h"

#include "engine/door.h"
#include "model/quantize.h"
#include "model/quantize_mix.h"

#include <sys/stat.h>
#include <unistd.h>

enum { MAX_THREADS = 64 };

struct ruvllm_quantize_params ruvllm_quantize_params_default(void)
{
    return (struct ruvllm_quantize_params){.struct_size = sizeof(struct ruvllm_quantize_params)};
}

const char *ruvllm_quantize_type_at(size_t index)
{
    const struct rv_quantize_mix *mix = rv_quantize_mix_at(index);

    return mix ? mix->name : NULL;
}

static bool pass_progress(void *user, float fraction)
{
    const struct ruvllm_quantize_params *params = user;

    return !params->on_progress || params->on_progress(params->user, fraction);
}

static void pass_tensor(void *user, const struct rv_quantize_tensor *tensor)
{
    const struct ruvllm_quantize_params *params = user;
    struct ruvllm_quantize_tensor told = {
        .struct_size = sizeof(told),
        .name = tensor->name,
        .from = tensor->from,
        .to = tensor->to,
        .wanted = tensor->wanted,
        .bytes_before = tensor->bytes_before,
        .bytes_after = tensor->bytes_after,
    };

    if (params->on_tensor)
        params->on_tensor(params->user, &told);
}

static int32_t processors(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > MAX_THREADS ? MAX_THREADS : (int32_t)n;
}

static ruvllm_status give_report(struct ruvllm_quantize_report *report, const struct rv_quantize_result *result,
                                 struct ruvllm_error *err)
{
    struct ruvllm_quantize_report ours = {
        .struct_size = sizeof(ours),
        .bytes_in = result->bytes_in,
        .bytes_out = result->bytes_out,
        .n_tensors = result->n_tensors,
        .n_converted = result->n_converted,
        .n_fallback = result->n_fallback,
    };

    return report ? rv_door_give_struct(report, &ours, sizeof(ours), "ruvllm_quantize_report", err) : RUVLLM_OK;
}

ruvllm_status ruvllm_quantize(const char *in, const char *out, const char *type,
                              const struct ruvllm_quantize_params *params, struct ruvllm_quantize_report *report,
                              struct ruvllm_error *err)
{
    struct ruvllm_quantize_params ours = ruvllm_quantize_params_default();
    struct rv_quantize_result result;
    struct rv_quantize_job job;
    struct stat st;
    ruvllm_status rc;

    if (!in || !out || !type)
        return rv_door_fail_null(err, !in ? "in" : !out ? "out" : "type");
    rc = rv_door_take_struct(&ours, sizeof(ours), params, "ruvllm_quantize_params", err);
    if (rc)
        return rc;
    if (ours.n_threads < 0 || ours.n_threads > MAX_THREADS)
        return rv_fail(err, RUVLLM_INVALID, "n_threads must be 0 to %d", MAX_THREADS);
    job = (struct rv_quantize_job){
        .in = in,
        .out = out,
        .n_threads = ours.n_threads ? ours.n_threads : processors(),
        .is_pure = ours.is_pure,
        .allow_requantize = ours.allow_requantize,
        .on_progress = pass_progress,
        .on_tensor = pass_tensor,
        .user = &ours,
    };
    rc = rv_quantize_mix_find(type, &job.mix, err);
    if (rc)
        return rc;
    if (!ours.overwrite && lstat(out, &st) == 0)
        return rv_fail(err, RUVLLM_INVALID, "'%s' exists already; give another name, or leave to overwrite it", out);
    rc = rv_quantize_run(&job, &result, err);
    return rc ? rc : give_report(report, &result, err);
}
