/*
 * Where a model computes: one device of ggml's registry, the CPU beside it for what the device cannot do, and a
 * thread pool that lives as long as the device handle, so that a step starts no threads.
 */
#ifndef RV_MODEL_DEVICE_H
#define RV_MODEL_DEVICE_H

#include "base/error.h"

#include <ggml-backend.h>

struct rv_device;

/*
 * `name` is NULL or "auto" for the best device installed (the first GPU, else the CPU), "cpu", or a name or
 * kind ("metal", "cuda:0") of the registry; an unknown one is NOT_FOUND, listing what there is.
 * n_threads 0 means one per physical core this process may run on.
 */
RV_CHECKED ruvllm_status rv_device_open(struct rv_device **out, const char *name, int32_t n_threads,
                                        struct ruvllm_error *err);
void rv_device_close(struct rv_device *device);
/*
 * Computes with another's threads from now on, instead of threads of its own: for two models that take turns. Those of
 * one would wait busily for more while the other computes. The lender outlives it.
 */
RV_CHECKED ruvllm_status rv_device_borrow_threads(struct rv_device *device, const struct rv_device *lender,
                                                  struct ruvllm_error *err);

bool rv_device_is_cpu(const struct rv_device *device);
const char *rv_device_name(const struct rv_device *device);
int32_t rv_device_n_threads(const struct rv_device *device);
/* The CPU's threads, for one computation at a time. */
ggml_threadpool_t rv_device_threadpool(const struct rv_device *device);
/* Backends in order of preference; the CPU is last. */
size_t rv_device_n_backends(const struct rv_device *device);
ggml_backend_t rv_device_backend(const struct rv_device *device, size_t index);

/* How a weight may be kept, best first. `repack` allows layouts the CPU can only multiply with. */
enum { RV_DEVICE_MAX_BUFTS = 8 };
size_t rv_device_weight_bufts(const struct rv_device *device, bool repack,
                              ggml_backend_buffer_type_t out[RV_DEVICE_MAX_BUFTS]);
/* The device that owns a buffer type of the list above. */
ggml_backend_dev_t rv_device_of_buft(const struct rv_device *device, ggml_backend_buffer_type_t buft);

/* The registry, for people: see ruvllm_device_at. */
size_t rv_device_count(void);
RV_CHECKED ruvllm_status rv_device_describe(size_t index, struct ruvllm_device_info *out, struct ruvllm_error *err);

#endif
