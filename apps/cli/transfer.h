/* What the commands that talk with a hub share: their options, and the line that shows how far a transfer is. */
#ifndef RV_CLI_TRANSFER_H
#define RV_CLI_TRANSFER_H

#include "options.h"
#include "progress.h"

#include "ruvllm_hub.h"

struct rv_transfer_options {
    const char *revision;
    int32_t retries;
    int32_t stall_seconds;
    bool quiet;
};

extern const struct rv_option rv_transfer_options[]; // --revision, --retries, --stall-timeout, --quiet

enum { RV_TRANSFER_N_OPTIONS = 4 };

#define RV_TRANSFER_GROUP(offset)                                                                                      \
    {                                                                                                                  \
        "Transfer", rv_transfer_options, RV_TRANSFER_N_OPTIONS, offset                                                 \
    }

struct rv_transfer {
    struct rv_progress line;
    uint64_t done; // bytes that were there when it was last heard of
    bool is_quiet;
};

void rv_transfer_options_init(struct rv_transfer_options *options);
/* Takes over Ctrl-C and fills the params from the options, with a progress line in `transfer`. `label` is borrowed. */
struct ruvllm_hub_params rv_transfer_begin(struct rv_transfer *transfer, const struct rv_transfer_options *options,
                                           const char *label);
/* Wipes the line. */
void rv_transfer_end(struct rv_transfer *transfer);

#endif
