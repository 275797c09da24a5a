/*
 * RuvLLM: models to have. Fetching them from a hub, the folder they are kept in, giving them back, and making them
 * smaller. Nothing here computes with a model; ruvllm.h does.
 *
 * A model is named as the hub names it, with what is wanted of it behind a colon:
 *
 *     owner/name              the best quantisation offered: Q4_K_M, Q4_K_S, Q5_K_M, Q8_0, else the first file
 *     owner/name:Q8_0         the file with that quantisation in its name, whatever the case
 *     owner/name:file.gguf    this file
 *
 * Owner, name and file consist of letters, digits, '.', '_' and '-', at most 96 of them, and begin with no dot. What
 * the hub says is treated the same way: a file it offers under any other name is not fetched.
 */
#ifndef RUVLLM_HUB_H
#define RUVLLM_HUB_H

#include "ruvllm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the hub ------------------------------------------------------------------------------- */

struct ruvllm_hub_progress {
    size_t struct_size;
    const char *file;        // its name, without folders
    uint64_t done;           // bytes that are there, those of an earlier attempt counted
    uint64_t total;          // of the whole file
    double bytes_per_second; // of this attempt; 0 while unknown
    double eta_seconds;      // -1 while unknown
    int32_t attempt;         // 1, and one more for each time the transfer was taken up again
    int64_t wait_ms;         // not 0: nothing moves for that long, because the hub asked for it or did not answer
};

/* Called several times a second from the calling thread. False stops with RUVLLM_CANCELLED; what came is kept. */
typedef bool (*ruvllm_hub_progress_fn)(void *user, const struct ruvllm_hub_progress *progress);

struct ruvllm_hub_params {
    size_t struct_size;
    const char *endpoint;   // NULL: HF_ENDPOINT from the environment, else https://huggingface.co
    const char *token;      // NULL: HF_TOKEN; "": none. Sent to the endpoint's own host and to no other
    const char *revision;   // branch, tag or commit; NULL: "main"
    const char *models_dir; // NULL: ruvllm_models_dir()
    uint64_t max_bytes;     // a larger file is refused before anything is fetched; 0: no limit but the disk's
    int32_t max_retries;    // 5; times a transfer that moves nothing is tried again
    int32_t stall_seconds;  // 60; a connection that moves less than a byte a second for that long is given up
    bool offline;           // ask nobody; HF_HUB_OFFLINE=1 in the environment does the same
    bool is_private;        // push: a repository that has to be created is private
    ruvllm_hub_progress_fn on_progress; // may be NULL
    void *progress_user;
};

RUVLLM_API struct ruvllm_hub_params ruvllm_hub_params_default(void);

/*
 * Fetches a model. *path is the file's, freed with ruvllm_free(); a file that is there already, the same as the hub has
 * now, is not fetched again. An interrupted transfer leaves FILE.partial and goes on from there the next time. The file
 * appears under its name only when its size and SHA-256 are the ones the hub states and it is a GGUF file this library
 * can read. Two calls for the same file: the second is RUVLLM_BUSY.
 */
RUVLLM_API ruvllm_status ruvllm_hub_pull(const char *model, const struct ruvllm_hub_params *params, char **path,
                                         struct ruvllm_error *err);

/*
 * Uploads the GGUF file at `path`, a model or an adapter, to the repository "owner/name", which is created when it does
 * not exist, as one commit with a model card unless the repository has one. *url is the file's address for people,
 * freed with ruvllm_free(). Needs a token with the right to write.
 */
RUVLLM_API ruvllm_status ruvllm_hub_push(const char *path, const char *repository,
                                         const struct ruvllm_hub_params *params, char **url, struct ruvllm_error *err);

/* ---- the folder of models ------------------------------------------------------------------ */

/*
 * RUVLLM_MODELS, else $RUVLLM_CACHE_DIR/models, else $XDG_DATA_HOME/ruvllm/models, else ~/.local/share/ruvllm/models.
 * *path is freed with ruvllm_free(). The calls below take NULL for it.
 */
RUVLLM_API ruvllm_status ruvllm_models_dir(char **path, struct ruvllm_error *err);

/* What is in a folder of models, at the time of the call. */
typedef struct ruvllm_models ruvllm_models;

/* A model in the folder. The strings live as long as the list. */
struct ruvllm_models_entry {
    size_t struct_size;
    const char *repository;   // "owner/name"
    const char *file;         // "name.Q4_K_M.gguf"
    const char *quantization; // as the file's name tells it, such as "Q4_K_M"; "" when it does not
    const char *path;
    const char *source;   // address it came from; "" when nobody wrote it down
    const char *revision; // commit or branch; ""
    const char *sha256;   // hex; ""
    uint64_t n_bytes;     // of the file, or of what is there of it
    int64_t time;         // seconds since 1970: fetched, or last changed
    bool is_partial;      // a transfer that was interrupted
};

/* A folder that does not exist is an empty list. Sorted by repository and file. Symbolic links are not followed. */
RUVLLM_API ruvllm_status ruvllm_models_list(const char *models_dir, ruvllm_models **out, struct ruvllm_error *err);
RUVLLM_API size_t ruvllm_models_count(const ruvllm_models *models);
RUVLLM_API ruvllm_status ruvllm_models_at(const ruvllm_models *models, size_t index, struct ruvllm_models_entry *out,
                                          struct ruvllm_error *err);
RUVLLM_API void ruvllm_models_free(ruvllm_models *models);

/*
 * The path of a model that was fetched, by its name as above; the owner may be left out where only one has a model of
 * that name. NOT_FOUND says how to fetch it; a name that fits several is INVALID and names two. Freed with
 * ruvllm_free().
 */
RUVLLM_API ruvllm_status ruvllm_models_find(const char *models_dir, const char *model, char **path,
                                            struct ruvllm_error *err);

/*
 * Removes the model's file, what is known about it and what is left of interrupted transfers, and folders that are
 * empty then. "owner/name" alone means all files of it. Nothing outside the folder is touched. *n_bytes is what was
 * freed; may be NULL.
 */
RUVLLM_API ruvllm_status ruvllm_models_remove(const char *models_dir, const char *model, uint64_t *n_bytes,
                                              struct ruvllm_error *err);

/* ---- quantising ---------------------------------------------------------------------------- */

/* One tensor that was written. The strings live for the call. */
struct ruvllm_quantize_tensor {
    size_t struct_size;
    const char *name;
    const char *from;   // types
    const char *to;     // what it has now
    const char *wanted; // what the rules wanted; differs from `to` where rows are no whole blocks of it
    uint64_t bytes_before;
    uint64_t bytes_after;
};

typedef void (*ruvllm_quantize_tensor_fn)(void *user, const struct ruvllm_quantize_tensor *tensor);

struct ruvllm_quantize_params {
    size_t struct_size;
    int32_t n_threads;                   // 0: one per processor this process may use; at most 64
    bool is_pure;                        // one type for all matrices, no mix
    bool allow_requantize;               // the input may be quantised already, at a loss
    bool overwrite;                      // the output may exist; it is replaced only by a whole new file
    ruvllm_progress_fn on_progress;      // false stops with RUVLLM_CANCELLED; may be NULL
    ruvllm_quantize_tensor_fn on_tensor; // after each tensor; may be NULL
    void *user;                          // of both
};

struct ruvllm_quantize_report {
    size_t struct_size;
    uint64_t bytes_in;
    uint64_t bytes_out;
    size_t n_tensors;
    size_t n_converted; // tensors whose type changed
    size_t n_fallback;  // of those, the ones whose rows are no whole blocks of the wanted type
};

RUVLLM_API struct ruvllm_quantize_params ruvllm_quantize_params_default(void);
/* Names ruvllm_quantize takes, best quality first; NULL beyond the last. */
RUVLLM_API const char *ruvllm_quantize_type_at(size_t index);

/*
 * Writes the model at `in` to `out` with its matrices in another type: a name such as "Q8_0" or "Q4_K_M", in any case.
 * `report` may be NULL. On failure nothing is left and `out` is as it was.
 */
RUVLLM_API ruvllm_status ruvllm_quantize(const char *in, const char *out, const char *type,
                                         const struct ruvllm_quantize_params *params,
                                         struct ruvllm_quantize_report *report, struct ruvllm_error *err);

#ifdef __cplusplus
}
#endif
#endif
