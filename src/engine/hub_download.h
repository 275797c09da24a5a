/*
 * A file fetched so that nothing is lost and nothing is believed: it grows as FILE.partial, goes on from there after
 * any interruption, and gets its name only when size and SHA-256 are right and our reader takes it for a GGUF file.
 */
#ifndef RV_ENGINE_HUB_DOWNLOAD_H
#define RV_ENGINE_HUB_DOWNLOAD_H

#include "engine/hub_http.h"
#include "engine/hub_manifest.h"

#include "ruvllm_hub.h"

struct rv_hub_download {
    struct rv_hub_http *http;
    const char *url;
    int folder;              // open folder the file goes to
    const char *folder_path; // its path
    const char *file;        // name in it, safe
    const char *revision;
    uint64_t n_bytes;
    const char *sha256;
    int32_t max_retries;
    ruvllm_hub_progress_fn on_progress; // may be NULL
    void *progress_user;
};

/* The caller holds the file's lock. On failure FILE.partial stays, unless what it holds proved wrong. */
RV_CHECKED ruvllm_status rv_hub_download_run(const struct rv_hub_download *download, struct ruvllm_error *err);
/* SHA-256 of an open file from its beginning; `on_tick` may be NULL, false from it is CANCELLED. */
RV_CHECKED ruvllm_status rv_hub_download_hash(int fd, struct rv_sha256 *sha, bool (*on_tick)(void *user), void *user,
                                              struct ruvllm_error *err);

#endif
