/* The line of a transfer: bytes, speed and the time left, or what is being waited for. */
#include "transfer.h"

#include "interrupt.h"
#include "output.h"

#include <signal.h>

const struct rv_option rv_transfer_options[RV_TRANSFER_N_OPTIONS] = {
    {.name = "revision",
     .value = "NAME",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct rv_transfer_options, revision),
     .help = "Branch, tag or commit (default main)"},
    {.name = "retries",
     .value = "N",
     .type = RV_OPTION_INT,
     .max = 1000,
     .offset = offsetof(struct rv_transfer_options, retries),
     .help = "How often to try again in a row when nothing comes (default 5)"},
    {.name = "stall-timeout",
     .value = "SECONDS",
     .type = RV_OPTION_INT,
     .min = 1,
     .max = 86400,
     .offset = offsetof(struct rv_transfer_options, stall_seconds),
     .help = "Give up a connection on which nothing moves for that long, and try again (default 60)"},
    {.name = "quiet",
     .short_name = 'q',
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct rv_transfer_options, quiet),
     .help = "No progress and no advice on standard error"},
};

void rv_transfer_options_init(struct rv_transfer_options *options)
{
    *options = (struct rv_transfer_options){.retries = 5, .stall_seconds = 60};
}

static void time_left(double seconds, char out[32])
{
    long s = (long)(seconds + 0.5);

    if (seconds < 0 || seconds > 360000)
        snprintf(out, 32, "unknown time left");
    else if (s >= 3600)
        snprintf(out, 32, "%ld h %02ld min left", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, 32, "%ld min %02ld s left", s / 60, s % 60);
    else
        snprintf(out, 32, "%ld s left", s);
}

static bool on_progress(void *user, const struct ruvllm_hub_progress *progress)
{
    struct rv_transfer *transfer = user;
    char done[24], total[24], speed[24], left[32], note[160];

    transfer->done = progress->done;
    if (transfer->is_quiet)
        return !rv_interrupt_seen();
    time_left(progress->eta_seconds, left);
    if (progress->wait_ms)
        snprintf(note, sizeof(note), "no answer; trying again in %.1f s", (double)progress->wait_ms / 1000);
    else if (progress->total == 0)
        snprintf(note, sizeof(note), "asking the hub");
    else
        snprintf(note, sizeof(note), "%s of %s, %s/s, %s", rv_output_bytes(progress->done, done),
                 rv_output_bytes(progress->total, total), rv_output_bytes((uint64_t)progress->bytes_per_second, speed),
                 left);
    rv_progress_show(&transfer->line, progress->total ? (double)progress->done / (double)progress->total : 0, note);
    return !rv_interrupt_seen();
}

struct ruvllm_hub_params rv_transfer_begin(struct rv_transfer *transfer, const struct rv_transfer_options *options,
                                           const char *label)
{
    struct ruvllm_hub_params params = ruvllm_hub_params_default();

    *transfer = (struct rv_transfer){.is_quiet = options->quiet};
    rv_progress_init(&transfer->line, label);
    rv_interrupt_catch(RV_INTERRUPT_ONCE);
    /* A hub that hangs up is an error to report, not the end of the program. */
    signal(SIGPIPE, SIG_IGN);
    params.revision = options->revision;
    params.max_retries = options->retries;
    params.stall_seconds = options->stall_seconds;
    params.on_progress = on_progress;
    params.progress_user = transfer;
    return params;
}

void rv_transfer_end(struct rv_transfer *transfer)
{
    rv_progress_clear(&transfer->line);
}
