/*
 * Adapters: low-rank changes of a model that requests name. Any mix of them runs in one batch.
 *
 * A set of adapters belongs to an engine. An adapter has an id and generations 1, 2, 3, ..., each immutable and known
 * by the hash of its content. A request that names an adapter gets the newest generation there is when it is submitted
 * and keeps it to its end; responses carry the number. A generation that changes only the head's input leaves every
 * cached key and value valid; one that changes layers never meets those of another.
 */
#ifndef RUVLLM_ADAPTER_H
#define RUVLLM_ADAPTER_H

#include "ruvllm.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ruvllm_adapter_info {
    size_t struct_size;
    char id[128];
    int64_t generation;
    char hash[65];     // SHA-256 of the content, in hex
    int32_t max_rank;  // of its pairs
    int32_t n_pairs;   // matrices of layers that it changes
    bool changes_head; // the head's input
    bool changes_layers;
    bool is_resident; // in memory now
    uint64_t n_bytes; // in memory, when it is there
    uint64_t file_bytes;
    int32_t n_users; // requests that hold it now
    double norm;     // Frobenius norm of all its changes
};

/*
 * Files. A GGUF LoRA file, a PEFT folder (adapter_config.json, adapter_model.safetensors) or one of ours at `path` is
 * checked against the model and becomes the next generation of `id`. `expected` is the newest generation the caller
 * knows of (0: there is none): when it is another one, nothing is done and the result is RUVLLM_CONFLICT. -1: whatever
 * it is. *generation is the new one; content that is there already is not stored twice. An id is 1 to 127 letters
 * (A-Z, a-z), digits, '.', '_', '-' or '/'.
 *
 * The engine keeps its adapters as its parameters say (adapter_dir, max_adapters, adapter_bytes, keep_generations). Its
 * folder is for what memory does not hold, not for ever: an engine that is opened begins without adapters. Without a
 * folder, an adapter that finds no room is RUVLLM_TOO_LARGE; with one, RUVLLM_BUSY while nothing can be written there.
 * Engines of models that run through libllama, or on a device other than the CPU, have no adapters: RUVLLM_UNSUPPORTED.
 */
RUVLLM_API ruvllm_status ruvllm_engine_adapter_load(ruvllm_engine *engine, const char *id, const char *path,
                                                    int64_t expected, int64_t *generation, struct ruvllm_error *err);
/* New requests no longer find it; those that run keep it. A generation of 0 means all of them. */
RUVLLM_API ruvllm_status ruvllm_engine_adapter_unload(ruvllm_engine *engine, const char *id, int64_t generation,
                                                      struct ruvllm_error *err);
/* Every generation of every adapter whose id begins with `prefix` (NULL: all); *infos is freed with ruvllm_free(). */
RUVLLM_API ruvllm_status ruvllm_engine_adapter_list(ruvllm_engine *engine, const char *prefix,
                                                    struct ruvllm_adapter_info **infos, size_t *n,
                                                    struct ruvllm_error *err);
/* Frobenius norm of the difference of two generations, over all matrices. */
RUVLLM_API ruvllm_status ruvllm_engine_adapter_diff(ruvllm_engine *engine, const char *id, int64_t a, int64_t b,
                                                    double *norm, struct ruvllm_error *err);

typedef enum ruvllm_adapter_format {
    RUVLLM_ADAPTER_GGUF, // as llama.cpp reads it: a change of the head's input is written as one of output.weight
    RUVLLM_ADAPTER_PEFT, // a folder
    RUVLLM_ADAPTER_OWN   // ours: GGUF that keeps everything, the head's input and the source's tensors among it
} ruvllm_adapter_format;

/* What was loaded, as it was, where the engine has a folder; else what is in memory, in 16 bits. A generation of 0 is
 * the newest. */
RUVLLM_API ruvllm_status ruvllm_engine_adapter_export(ruvllm_engine *engine, const char *id, int64_t generation,
                                                      const char *path, ruvllm_adapter_format format,
                                                      struct ruvllm_error *err);

/* ---- one model, one caller ----------------------------------------------------------------------- */

/*
 * From now on the model computes with the adapter at `path`, its changes multiplied with `weight`; a NULL path takes it
 * off. What the call before has left in the cache is used again when no layer's change is another. For a model that an
 * engine serves, adapters are the requests' business: RUVLLM_INVALID.
 */
RUVLLM_API ruvllm_status ruvllm_model_set_adapter(ruvllm_model *model, const char *path, float weight,
                                                  struct ruvllm_error *err);

/* ---- without an engine: files to files --------------------------------------------------------- */

/*
 * Reads an adapter of any known format for the model at `model_path` and writes it in another. RUVLLM_INVALID when
 * `out_path` exists. A PEFT folder that was converted to our own format comes back bit by bit.
 */
RUVLLM_API ruvllm_status ruvllm_adapter_convert(const char *model_path, const char *path, const char *out_path,
                                                ruvllm_adapter_format format, struct ruvllm_error *err);
/* Checks it as loading would. `id` stays empty, generation and users 0; n_bytes is what it would take in memory. */
RUVLLM_API ruvllm_status ruvllm_adapter_describe(const char *model_path, const char *path,
                                                 struct ruvllm_adapter_info *info, struct ruvllm_error *err);

typedef enum ruvllm_merge_method {
    RUVLLM_MERGE_SUM,     // weights as they are given
    RUVLLM_MERGE_AVERAGE, // weights that come to 1
    RUVLLM_MERGE_SLERP,   // two: along the arc between their directions, at weight[1]
    RUVLLM_MERGE_TIES,    // trim to `density`, elect signs, average who agrees
    RUVLLM_MERGE_DARE     // drop at random down to `density`, scale up, sum
} ruvllm_merge_method;

struct ruvllm_merge_params {
    size_t struct_size;
    ruvllm_merge_method method;
    const float *weights; // one for each adapter; NULL: all equal. Qualities make a quality-weighted average
    float density;        // TIES and DARE: the share that is kept; 0.2
    int32_t rank;  // of the result, at most 256. 0: as much as is exact where an adapter may have that much, else, and
                   // for TIES and DARE, the largest of the inputs
    uint64_t seed; // DARE
};

RUVLLM_API struct ruvllm_merge_params ruvllm_merge_params_default(void);

/*
 * Merged as changes of the matrices, not of A and B apart, and written in our own format; RUVLLM_INVALID when
 * `out_path` exists. `params` may be NULL: an average. *error is the relative Frobenius error of the final rank.
 */
RUVLLM_API ruvllm_status ruvllm_adapter_merge(const char *model_path, const char *const *paths, size_t n_paths,
                                              const struct ruvllm_merge_params *params, const char *out_path,
                                              double *error, struct ruvllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
