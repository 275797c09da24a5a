/*
 * The small JSON file beside a model (FILE.json) that says where it came from, and the one beside an interrupted
 * transfer (FILE.partial.json) that says what it is a part of.
 */
#ifndef RV_ENGINE_HUB_MANIFEST_H
#define RV_ENGINE_HUB_MANIFEST_H

#include "base/sha256.h"
#include "engine/hub_name.h"

struct rv_hub_manifest {
    char source[512];                   // address of the file
    char revision[RV_HUB_NAME_MAX + 1]; // commit where the hub told it, else what was asked for
    char sha256[RV_SHA256_HEX_LEN + 1];
    char etag[160]; // of an interrupted transfer: the version its bytes are of; ""
    uint64_t n_bytes;
    int64_t time; // seconds since 1970
};

enum { RV_HUB_MANIFEST_NAME = RV_HUB_NAME_MAX + 32 }; // room for the file's name with what goes behind it

/* False when there is none, or it is not one of ours: then nothing is known, which is no failure. */
bool rv_hub_manifest_load(struct rv_hub_manifest *out, int folder, const char *name);
RV_CHECKED ruvllm_status rv_hub_manifest_save(const struct rv_hub_manifest *manifest, int folder, const char *name,
                                              struct ruvllm_error *err);
/* 64 hex digits, lower case. */
bool rv_hub_manifest_is_sha256(const char *text);

#endif
