/* Opening a store from the command line. */
#include "store_options.h"

#include "output.h"

#include <string.h>
#include <time.h>

const struct rv_option rv_store_option_table[1] = {
    {.name = "store",
     .value = "PATH",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct rv_store_options, path),
     .help = "The store's file (default $XDG_STATE_HOME/ruvllm/ruvllm.db or ~/.local/state/ruvllm/ruvllm.db), or the "
             "URL of a PostgreSQL database"},
};

static const char *advice(ruvllm_status status)
{
    switch (status) {
    case RUVLLM_NOT_FOUND:
        return "'ruvllm key create --tenant NAME' makes a store; '--store PATH' names another one";
    case RUVLLM_FORMAT:
    case RUVLLM_UNSUPPORTED:
    case RUVLLM_INVALID:
        return "'--store PATH' names another file; this one was not changed";
    case RUVLLM_IO:
        return "look at the rights of the file and its folder, and at the room on the disk";
    default:
        return NULL;
    }
}

static int failure(const struct ruvllm_error *err, const char *path)
{
    bool is_server = path && strstr(path, "://");

    return rv_output_failure(err, is_server && err->status == RUVLLM_IO
                                      ? "is the server running, and may this user connect to that database?"
                                      : advice(err->status));
}

bool rv_store_options_open(const struct rv_store_options *options, bool must_exist, ruvllm_store **out, int *exit_code)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    struct ruvllm_error err = {0};
    char *path = NULL;

    params.must_exist = must_exist;
    if ((!options->path && ruvllm_store_default_path(&path, &err)) ||
        ruvllm_store_open(out, options->path ? options->path : path, &params, &err))
        *exit_code = failure(&err, options->path);
    else
        *exit_code = RV_EXIT_OK;
    ruvllm_free(path);
    return *exit_code == RV_EXIT_OK;
}

ruvllm_status rv_store_options_span(void *target, const char *text, struct ruvllm_error *err)
{
    static const char units[] = "mhdw";
    static const int64_t seconds[] = {60, 3600, 86400, 604800};
    size_t len = strlen(text);
    const char *unit = len ? strchr(units, text[len - 1]) : NULL;
    char digits[8];
    int64_t n;

    if (!unit || !*unit || len > sizeof(digits))
        return rv_fail(err, RUVLLM_INVALID, "a span of time such as 90m, 12h, 30d or 8w");
    memcpy(digits, text, len - 1);
    digits[len - 1] = '\0';
    if (!rv_options_int(digits, 1, 999999, &n) || n * seconds[unit - units] > (int64_t)36500 * 86400)
        return rv_fail(err, RUVLLM_INVALID, "a span of time such as 90m, 12h, 30d or 8w, up to 36500d");
    *(int64_t *)target = n * seconds[unit - units];
    return RUVLLM_OK;
}

const char *rv_store_options_date(int64_t unix_seconds, char out[32])
{
    time_t when = (time_t)unix_seconds;
    struct tm parts;

    if (!unix_seconds || !gmtime_r(&when, &parts) || !strftime(out, 32, "%Y-%m-%d %H:%M", &parts))
        memcpy(out, "-", 2);
    return out;
}

void rv_store_options_cell(const char *text, size_t width)
{
    size_t shown = 0;

    for (const char *c = text; *c; c++)
        shown += ((unsigned char)*c & 0xC0) != 0x80; // characters, not bytes
    rv_output_field(stdout, text, strlen(text));
    do
        putchar(' ');
    while (++shown <= width);
}
