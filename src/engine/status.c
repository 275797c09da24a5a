/* Names of the public enumerations. */
#include "ruvllm.h"
#include "ruvllm_version.h"

#include "base/alloc.h"
#include "base/log.h"

const char *ruvllm_version(void)
{
    return RUVLLM_VERSION_STRING;
}

const char *ruvllm_status_name(ruvllm_status status)
{
    switch (status) {
    case RUVLLM_OK:
        return "ok";
    case RUVLLM_INVALID:
        return "invalid";
    case RUVLLM_NOT_FOUND:
        return "not found";
    case RUVLLM_TOO_LARGE:
        return "too large";
    case RUVLLM_BUSY:
        return "busy";
    case RUVLLM_CANCELLED:
        return "cancelled";
    case RUVLLM_NO_MEMORY:
        return "out of memory";
    case RUVLLM_UNSUPPORTED:
        return "unsupported";
    case RUVLLM_IO:
        return "input/output";
    case RUVLLM_FORMAT:
        return "format";
    case RUVLLM_BACKEND:
        return "backend";
    case RUVLLM_INTERNAL:
        return "internal";
    case RUVLLM_CONFLICT:
        return "conflict";
    case RUVLLM_NO_SPACE:
        return "no space";
    }
    return "unknown";
}

const char *ruvllm_error_kind_prefix(ruvllm_error_kind kind)
{
    static const char *const prefixes[] = {
        [RUVLLM_ERROR_STORAGE] = "Storage error",
        [RUVLLM_ERROR_SESSION] = "Session error",
        [RUVLLM_ERROR_KV_CACHE] = "KV cache error",
        [RUVLLM_ERROR_PAGED_ATTENTION] = "Paged attention error",
        [RUVLLM_ERROR_ADAPTER] = "Adapter error",
        [RUVLLM_ERROR_SONA] = "SONA error",
        [RUVLLM_ERROR_CONFIG] = "Configuration error",
        [RUVLLM_ERROR_OUT_OF_MEMORY] = "Out of memory",
        [RUVLLM_ERROR_INVALID_OPERATION] = "Invalid operation",
        [RUVLLM_ERROR_NOT_FOUND] = "Not found",
        [RUVLLM_ERROR_BACKEND] = "Backend error",
        [RUVLLM_ERROR_MODEL] = "Model error",
        [RUVLLM_ERROR_TOKENIZATION] = "Tokenization error",
        [RUVLLM_ERROR_GENERATION] = "Generation error",
        [RUVLLM_ERROR_IO] = "IO error",
    };

    if ((unsigned)kind >= sizeof(prefixes) / sizeof(prefixes[0]))
        return "Unknown error";
    return prefixes[kind];
}

void ruvllm_free(void *ptr)
{
    rv_free(ptr);
}

void ruvllm_log_set(ruvllm_log_level level, ruvllm_log_fn fn, void *user)
{
    rv_log_set(level, fn, user);
}

double ruvllm_precision_bits(ruvllm_precision precision)
{
    switch (precision) {
    case RUVLLM_PRECISION_FP32:
        return 32;
    case RUVLLM_PRECISION_FP16:
    case RUVLLM_PRECISION_BF16:
        return 16;
    case RUVLLM_PRECISION_Q8:
        return 8.5;
    case RUVLLM_PRECISION_Q4:
    case RUVLLM_PRECISION_Q4K:
        return 4.5;
    }
    return 0;
}

ruvllm_model_size ruvllm_model_size_of(uint64_t n_params)
{
    if (n_params < UINT64_C(1000000000))
        return RUVLLM_SIZE_TINY;
    if (n_params < UINT64_C(3000000000))
        return RUVLLM_SIZE_SMALL;
    if (n_params <= UINT64_C(13000000000))
        return RUVLLM_SIZE_MEDIUM;
    return RUVLLM_SIZE_LARGE;
}

const char *ruvllm_model_size_name(ruvllm_model_size size)
{
    static const char *const names[] = {"tiny", "small", "medium", "large"};

    return (unsigned)size < 4 ? names[size] : "unknown";
}

const char *ruvllm_stop_reason_name(ruvllm_stop_reason reason)
{
    static const char *const names[] = {"eos", "length", "context", "stop", "callback"};

    return (unsigned)reason < 5 ? names[reason] : "unknown";
}
