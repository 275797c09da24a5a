/* The page a repository shows about a model that was uploaded: README.md, from what the file itself says. */
#ifndef RV_ENGINE_HUB_CARD_H
#define RV_ENGINE_HUB_CARD_H

#include "base/buf.h"

struct rv_gguf_file;

struct rv_hub_card {
    const struct rv_gguf_file *model;
    const char *repository; // "owner/name"
    const char *file;
    const char *sha256;
    uint64_t n_bytes;
};

/* Appends the page; what the model says about itself is shown as plain text, whatever it contains. */
void rv_hub_card_write(const struct rv_hub_card *card, struct rv_buf *out);

#endif
