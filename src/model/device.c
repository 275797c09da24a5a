/*
 * Devices by ggml's registry. Functions that only some backends have (thread pools, extra buffer types) are asked for
 * by name, as ggml intends, so a ggml whose backends are plug-ins works as well as one linked whole.
 */
#define _GNU_SOURCE // sched_getaffinity
#include "model/device.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/time_slice.h"
#include "model/ggml_log.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef ggml_threadpool_t (*threadpool_new_fn)(struct ggml_threadpool_params *params);
typedef void (*threadpool_free_fn)(ggml_threadpool_t pool);
typedef void (*set_threadpool_fn)(ggml_backend_t backend, ggml_threadpool_t pool);

struct rv_device {
    ggml_backend_dev_t dev;
    ggml_backend_dev_t cpu;
    ggml_backend_t backends[2];
    size_t n_backends;
    int32_t n_threads;
    ggml_threadpool_t pool;
    threadpool_free_fn pool_free; // NULL: the pool is another's
};

/* Two hardware threads of one core share its vector units, so a second one only adds waiting. */
static int32_t count_cores(void)
{
    cpu_set_t allowed;
    int32_t n = 0;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return 1;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char path[96];
        FILE *file;
        char digits[16] = "";
        unsigned first = cpu;

        if (!CPU_ISSET(cpu, &allowed))
            continue;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
        file = fopen(path, "r");
        if (file) {
            if (fgets(digits, sizeof(digits), file) && isdigit((unsigned char)digits[0]))
                first = (unsigned)strtoul(digits, NULL, 10);
            fclose(file);
        }
        /* A core is counted at its first thread, or at this one when the first is not ours. */
        if (first == cpu || first >= CPU_SETSIZE || !CPU_ISSET(first, &allowed))
            n++;
    }
    return n > 0 ? n : 1;
}

/* "cuda:0" and "CUDA0" are the same device. */
static bool same_name(const char *wanted, const char *name)
{
    while (*wanted && *name) {
        if (*wanted == ':') {
            wanted++;
            continue;
        }
        if (tolower((unsigned char)*wanted++) != tolower((unsigned char)*name++))
            return false;
    }
    return !*wanted && !*name;
}

static ggml_backend_dev_t find_device(const char *name)
{
    if (!name || !*name || strcasecmp(name, "auto") == 0) {
        ggml_backend_dev_t gpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU);
        return gpu ? gpu : ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    }
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t dev = ggml_backend_dev_get(i);
        if (same_name(name, ggml_backend_dev_name(dev)) ||
            same_name(name, ggml_backend_reg_name(ggml_backend_dev_backend_reg(dev))))
            return dev;
    }
    return NULL;
}

static ruvllm_status fail_unknown(const char *name, struct ruvllm_error *err)
{
    char list[160] = "";
    size_t used = 0;

    for (size_t i = 0; i < ggml_backend_dev_count() && used < sizeof(list); i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "",
                                 ggml_backend_dev_name(ggml_backend_dev_get(i)));
    return rv_fail_kind(err, RUVLLM_NOT_FOUND, RUVLLM_ERROR_CONFIG, "there is no device '%s'; this machine has: %s",
                        name, list);
}

/* A function of a backend by name into the function pointer at `out`; NULL there when it has none. */
static void get_function(ggml_backend_reg_t reg, const char *name, void *out)
{
    void *address = ggml_backend_reg_get_proc_address(reg, name);

    memcpy(out, &address, sizeof(address)); // ISO C has no cast from void * to a function; POSIX promises the bytes
}

/* The CPU backend computes with the pool from now on; false when it cannot. The CPU is the last backend. */
static bool use_pool(struct rv_device *d, ggml_threadpool_t pool, int32_t n_threads)
{
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(d->cpu);
    ggml_backend_t cpu = d->backends[d->n_backends - 1];
    ggml_backend_set_n_threads_t set_n;
    set_threadpool_fn set_pool;

    get_function(reg, "ggml_backend_set_n_threads", &set_n);
    get_function(reg, "ggml_backend_cpu_set_threadpool", &set_pool);
    if (!set_n || !set_pool)
        return false;
    set_n(cpu, n_threads);
    set_pool(cpu, pool);
    d->n_threads = n_threads;
    d->pool = pool;
    return true;
}

static ruvllm_status fail_no_pool(struct ruvllm_error *err)
{
    return rv_fail(err, RUVLLM_BACKEND, "ggml's CPU backend has no thread pool; version 0.25 or newer is needed");
}

/* Gives the CPU backend threads that wait between steps instead of being started for each. */
static ruvllm_status start_threads(struct rv_device *d, struct ruvllm_error *err)
{
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(d->cpu);
    threadpool_new_fn pool_new;
    ggml_threadpool_t pool;
    struct ggml_threadpool_params params;
    int64_t slice;

    get_function(reg, "ggml_threadpool_new", &pool_new);
    get_function(reg, "ggml_threadpool_free", &d->pool_free);
    if (!pool_new || !d->pool_free)
        return fail_no_pool(err);
    params = ggml_threadpool_params_default(d->n_threads);
    slice = rv_time_slice_set(RV_TIME_SLICE_COMPUTING); // the threads inherit it; what they keep waiting is not ours
    pool = pool_new(&params);
    (void)rv_time_slice_set(slice);
    if (!pool)
        return rv_fail(err, RUVLLM_BACKEND, "cannot start %d threads", d->n_threads);
    if (use_pool(d, pool, d->n_threads))
        return RUVLLM_OK;
    d->pool_free(pool);
    return fail_no_pool(err);
}

ruvllm_status rv_device_borrow_threads(struct rv_device *device, const struct rv_device *lender,
                                       struct ruvllm_error *err)
{
    ggml_threadpool_t own = device->pool;

    if (!use_pool(device, lender->pool, lender->n_threads))
        return fail_no_pool(err);
    device->pool_free(own);
    device->pool_free = NULL;
    return RUVLLM_OK;
}

static ruvllm_status open_backends(struct rv_device *d, struct ruvllm_error *err)
{
    if (d->dev != d->cpu) {
        ggml_backend_t backend = ggml_backend_dev_init(d->dev, NULL);
        if (!backend)
            return rv_fail(err, RUVLLM_BACKEND, "cannot open device '%s'", ggml_backend_dev_name(d->dev));
        d->backends[d->n_backends++] = backend;
    }
    d->backends[d->n_backends] = ggml_backend_dev_init(d->cpu, NULL);
    if (!d->backends[d->n_backends])
        return rv_fail(err, RUVLLM_BACKEND, "cannot open the CPU device");
    d->n_backends++;
    return start_threads(d, err);
}

ruvllm_status rv_device_open(struct rv_device **out, const char *name, int32_t n_threads, struct ruvllm_error *err)
{
    struct rv_device *d = rv_calloc(1, sizeof(*d));
    ruvllm_status rc;

    *out = NULL;
    if (!d)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a device");
    rv_ggml_log_install();
    ggml_backend_load_all(); // a no-op where the backends are linked in
    d->n_threads = n_threads > 0 ? n_threads : count_cores();
    d->cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    d->dev = find_device(name);
    if (!d->cpu)
        rc = rv_fail(err, RUVLLM_BACKEND, "ggml was installed without its CPU backend");
    else if (!d->dev)
        rc = fail_unknown(name, err);
    else
        rc = open_backends(d, err);
    if (rc) {
        rv_device_close(d);
        return rc;
    }
    *out = d;
    return RUVLLM_OK;
}

void rv_device_close(struct rv_device *device)
{
    if (!device)
        return;
    for (size_t i = 0; i < device->n_backends; i++)
        ggml_backend_free(device->backends[i]);
    if (device->pool && device->pool_free)
        device->pool_free(device->pool);
    rv_free(device);
}

bool rv_device_is_cpu(const struct rv_device *device)
{
    return device->dev == device->cpu;
}

const char *rv_device_name(const struct rv_device *device)
{
    return ggml_backend_dev_name(device->dev);
}

int32_t rv_device_n_threads(const struct rv_device *device)
{
    return device->n_threads;
}

ggml_threadpool_t rv_device_threadpool(const struct rv_device *device)
{
    return device->pool;
}

size_t rv_device_n_backends(const struct rv_device *device)
{
    return device->n_backends;
}

ggml_backend_t rv_device_backend(const struct rv_device *device, size_t index)
{
    return device->backends[index];
}

size_t rv_device_weight_bufts(const struct rv_device *device, bool repack,
                              ggml_backend_buffer_type_t out[RV_DEVICE_MAX_BUFTS])
{
    ggml_backend_dev_get_extra_bufts_t get_extra;
    ggml_backend_buffer_type_t *extra;
    size_t n = 0;

    get_function(ggml_backend_dev_backend_reg(device->cpu), "ggml_backend_dev_get_extra_bufts", &get_extra);
    if (device->dev != device->cpu) {
        out[n++] = ggml_backend_dev_buffer_type(device->dev);
    } else if (repack && get_extra) {
        for (extra = get_extra(device->cpu); extra && *extra && n < RV_DEVICE_MAX_BUFTS - 1; extra++)
            out[n++] = *extra;
    }
    out[n++] = ggml_backend_dev_buffer_type(device->cpu);
    return n;
}

ggml_backend_dev_t rv_device_of_buft(const struct rv_device *device, ggml_backend_buffer_type_t buft)
{
    bool is_device = device->dev != device->cpu && buft == ggml_backend_dev_buffer_type(device->dev);

    return is_device ? device->dev : device->cpu;
}

size_t rv_device_count(void)
{
    rv_ggml_log_install();
    ggml_backend_load_all();
    return ggml_backend_dev_count();
}

ruvllm_status rv_device_describe(size_t index, struct ruvllm_device_info *out, struct ruvllm_error *err)
{
    static const char *const types[] = {[GGML_BACKEND_DEVICE_TYPE_CPU] = "cpu",
                                        [GGML_BACKEND_DEVICE_TYPE_GPU] = "gpu",
                                        [GGML_BACKEND_DEVICE_TYPE_IGPU] = "igpu",
                                        [GGML_BACKEND_DEVICE_TYPE_ACCEL] = "accel"};
    ggml_backend_dev_t dev;
    size_t type, memory_free, memory_total;

    if (index >= rv_device_count())
        return rv_fail(err, RUVLLM_NOT_FOUND, "there is no device number %zu; this machine has %zu", index,
                       ggml_backend_dev_count());
    dev = ggml_backend_dev_get(index);
    type = (size_t)ggml_backend_dev_type(dev);
    ggml_backend_dev_memory(dev, &memory_free, &memory_total);
    out->name = ggml_backend_dev_name(dev);
    out->description = ggml_backend_dev_description(dev);
    out->type = type < sizeof(types) / sizeof(types[0]) && types[type] ? types[type] : "other";
    out->memory_total = memory_total;
    out->memory_free = memory_free;
    return RUVLLM_OK;
}
