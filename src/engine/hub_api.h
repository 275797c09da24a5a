/* What a hub says about a repository, and the addresses of its parts. */
#ifndef RV_ENGINE_HUB_API_H
#define RV_ENGINE_HUB_API_H

#include "base/sha256.h"
#include "engine/hub_name.h"
#include "engine/hub_retry.h"

/* A GGUF file of a repository. */
struct rv_hub_api_file {
    char *path; // in the repository; every component is safe
    uint64_t n_bytes;
    char sha256[RV_SHA256_HEX_LEN + 1]; // "" when the hub states none
};

struct rv_hub_api_tree {
    struct rv_hub_api_file *files; // in the order of their names
    size_t n;
    size_t n_unsafe;                // files that were left out for their names
    char unsafe[RV_HUB_NAME_LABEL]; // the first of them, for a message
    bool has_card;                  // there is a README.md
};

/* Asks for all files at `revision`. NOT_FOUND and INVALID as the hub answers; FORMAT when it makes no sense. */
RV_CHECKED ruvllm_status rv_hub_api_tree_init(struct rv_hub_api_tree *out, struct rv_hub_http *http,
                                              const struct rv_hub_name *name, const char *revision,
                                              struct rv_hub_retry *retry, struct ruvllm_error *err);
void rv_hub_api_tree_release(struct rv_hub_api_tree *tree);
/* The file a name means; see rv_hub_name_choose. A file without a SHA-256 cannot be checked and is UNSUPPORTED. */
RV_CHECKED ruvllm_status rv_hub_api_tree_choose(const struct rv_hub_api_tree *tree, const char *wanted, size_t *index,
                                                struct ruvllm_error *err);

/* Address of a file's bytes. *out is the caller's (rv_free). */
RV_CHECKED ruvllm_status rv_hub_api_file_url(const struct rv_hub_http *http, const struct rv_hub_name *name,
                                             const char *revision, const char *path, char **out,
                                             struct ruvllm_error *err);

/* A POST of JSON (or lines of it) that succeeds or fails; `reply` has the answer. Tried again like a GET. */
RV_CHECKED ruvllm_status rv_hub_api_post(struct rv_hub_http *http, const char *url, const char *content_type,
                                         const char *body, size_t len, const char *what, struct rv_hub_retry *retry,
                                         struct rv_hub_http_reply *reply, struct ruvllm_error *err);

#endif
