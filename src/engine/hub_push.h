/* Uploading one file as one commit: the repository, the large file, then the commit that names it. */
#ifndef RV_ENGINE_HUB_PUSH_H
#define RV_ENGINE_HUB_PUSH_H

#include "engine/hub_http.h"
#include "engine/hub_name.h"

#include "ruvllm_hub.h"

struct rv_hub_push {
    struct rv_hub_http *http;
    const char *path;
    struct rv_hub_name name;
    const char *revision; // the branch
    bool is_private;      // if the repository has to be created
    int32_t max_retries;
    ruvllm_hub_progress_fn on_progress; // may be NULL
    void *progress_user;
};

/* On failure the repository may have been created, and the bytes may lie there without a commit that names them. */
RV_CHECKED ruvllm_status rv_hub_push_run(const struct rv_hub_push *push, char **url, struct ruvllm_error *err);

#endif
