/*
 * Names of models as people and hubs write them: "owner/name:wanted". Everything that becomes part of a path or an
 * address passes here first, whether a user typed it or a hub sent it.
 */
#ifndef RV_ENGINE_HUB_NAME_H
#define RV_ENGINE_HUB_NAME_H

#include "base/error.h"

enum {
    RV_HUB_NAME_MAX = 96,   // characters of an owner, a name, a file
    RV_HUB_NAME_LABEL = 72, // room for a name in a message
    RV_HUB_NAME_QUANT = 16, // room for a quantisation
};

struct rv_hub_name {
    char owner[RV_HUB_NAME_MAX + 1]; // "" when it was left out
    char name[RV_HUB_NAME_MAX + 1];
    char wanted[RV_HUB_NAME_MAX + 1]; // a file name or a quantisation; "": the best there is
};

/* One component: letters, digits, '.', '_', '-'; 1 to 96 of them; no dot in front, no two dots together. */
bool rv_hub_name_is_safe(const char *text, size_t len);
/* The same for components with '/' between them; the last one is *base. */
bool rv_hub_name_is_safe_path(const char *path, const char **base);
/* A branch, tag or commit: components with '/' between them, 96 characters in all. */
bool rv_hub_name_is_safe_revision(const char *revision);

/* INVALID, with the form that is wanted, for anything else. `needs_owner`: "name" alone is not enough. */
RV_CHECKED ruvllm_status rv_hub_name_parse(struct rv_hub_name *out, const char *text, bool needs_owner,
                                           struct ruvllm_error *err);
/* "owner/name". */
void rv_hub_name_repository(const struct rv_hub_name *name, char out[2 * RV_HUB_NAME_MAX + 2]);

/* The quantisation a file's name tells ("Q4_K_M", in upper case); "" when it tells none. */
void rv_hub_name_quantization(const char *file, char out[RV_HUB_NAME_QUANT]);
/* A part of a model that is split over several files: "-00001-of-00003.gguf". */
bool rv_hub_name_is_split(const char *file);
bool rv_hub_name_is_gguf(const char *file);

/*
 * Which of the files `wanted` means: the one of that name, else the one with that quantisation in its name; "" takes
 * the first of Q4_K_M, Q4_K_S, Q5_K_M, Q8_0 there is, else the first file. NOT_FOUND names files there are, INVALID two
 * that both fit, UNSUPPORTED a split model.
 */
RV_CHECKED ruvllm_status rv_hub_name_choose(const char *const *files, size_t n, const char *wanted, size_t *index,
                                            struct ruvllm_error *err);

/* Foreign text made fit for a message: at most 64 characters, anything but printable ASCII as '?'. Returns `out`. */
const char *rv_hub_name_label(const char *text, char out[RV_HUB_NAME_LABEL]);

#endif
