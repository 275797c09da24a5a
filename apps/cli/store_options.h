/* Where the store is, for the commands that read or change it; and spans of time as people write them. */
#ifndef RV_CLI_STORE_OPTIONS_H
#define RV_CLI_STORE_OPTIONS_H

#include "options.h"

#include "ruvllm_store.h"

struct rv_store_options {
    const char *path; // NULL: the default one
};

extern const struct rv_option rv_store_option_table[1];

#define RV_STORE_GROUP(at)                                                                                             \
    {                                                                                                                  \
        "Store", rv_store_option_table, RV_OPTION_COUNT(rv_store_option_table), at                                     \
    }

/* Opens the store. False: it said why not, and *exit_code is what the command ends with. */
RV_CHECKED bool rv_store_options_open(const struct rv_store_options *options, bool must_exist, ruvllm_store **out,
                                      int *exit_code);

/* "90m", "12h", "30d", "8w" as seconds, into an int64_t: for RV_OPTION_PARSED. */
RV_CHECKED ruvllm_status rv_store_options_span(void *target, const char *text, struct ruvllm_error *err);
/* "2026-11-15 09:30", in UTC; "-" for 0. */
const char *rv_store_options_date(int64_t unix_seconds, char out[32]);
/* The columns of a table: the text, made visible, and blanks up to `width`. */
void rv_store_options_cell(const char *text, size_t width);

#endif
