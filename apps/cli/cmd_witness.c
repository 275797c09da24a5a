/* ruvllm witness: who asked for what, when, and how long it took. */
#include "commands.h"
#include "output.h"
#include "store_options.h"

#include <string.h>
#include <time.h>

struct witness_options {
    struct rv_store_options store;
    struct ruvllm_witness_filter filter;
    int64_t since; // seconds ago; 0: from the beginning
    bool json;
};

static const struct rv_option own_options[] = {
    {.name = "tenant",
     .value = "NAME",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct witness_options, filter.tenant),
     .help = "Only this tenant's requests"},
    {.name = "model",
     .short_name = 'm',
     .value = "NAME",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct witness_options, filter.model),
     .help = "Only requests to this model"},
    {.name = "since",
     .value = "SPAN",
     .type = RV_OPTION_PARSED,
     .parse = rv_store_options_span,
     .offset = offsetof(struct witness_options, since),
     .help = "Only requests of the last time, such as 90m, 12h or 30d"},
    {.name = "limit",
     .short_name = 'n',
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 1,
     .max = 1000,
     .offset = offsetof(struct witness_options, filter.limit),
     .help = "How many, up to 1000 (default 100)"},
};

static const struct rv_option output_options[] = {
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct witness_options, json),
     .help = "Print a JSON object"},
};

static const struct rv_option_group groups[] = {
    {"Which", own_options, RV_OPTION_COUNT(own_options), 0},
    {"Output", output_options, RV_OPTION_COUNT(output_options), 0},
    RV_STORE_GROUP(offsetof(struct witness_options, store)),
};

static bool print_row(void *user, const struct ruvllm_witness *entry)
{
    size_t *n = user;
    char date[32];

    if ((*n)++ == 0)
        printf("%s%-16s  %-16s  %-8s  %-20s  %-24s  %6s  %-10s  %8s  %8s  %8s  %9s  %9s%s\n",
               rv_output_style(stdout, RV_STYLE_BOLD), "TIME (UTC)", "TENANT", "KEY", "MODEL", "ENDPOINT", "STATUS",
               "FINISH", "PROMPT", "CACHED", "ANSWER", "QUEUE ms", "TOTAL ms", rv_output_style(stdout, RV_STYLE_RESET));
    printf("%-16s  ", rv_store_options_date(entry->time_us / 1000000, date));
    rv_store_options_cell(entry->tenant, 17);
    rv_store_options_cell(entry->key_id, 9);
    rv_store_options_cell(entry->model, 21);
    rv_store_options_cell(entry->endpoint, 25);
    printf("%6d  ", entry->status);
    rv_store_options_cell(entry->finish_reason, 11);
    printf("%8d  %8d  %8d  %9.1f  %9.1f\n", entry->prompt_tokens, entry->cached_tokens, entry->generated_tokens,
           (double)entry->queue_us / 1000, (double)entry->total_us / 1000);
    return true;
}

struct json_list {
    yyjson_mut_doc *doc;
    yyjson_mut_val *entries;
};

static void add_text(yyjson_mut_doc *doc, yyjson_mut_val *o, const char *key, const char *text)
{
    rv_output_json_add(doc, o, key, rv_output_json_text(doc, text, strlen(text)));
}

static bool add_json(void *user, const struct ruvllm_witness *entry)
{
    struct json_list *list = user;
    yyjson_mut_val *o = yyjson_mut_arr_add_obj(list->doc, list->entries);

    yyjson_mut_obj_add_int(list->doc, o, "time_us", entry->time_us);
    add_text(list->doc, o, "tenant", entry->tenant);
    add_text(list->doc, o, "key_id", entry->key_id);
    add_text(list->doc, o, "request_id", entry->request_id);
    add_text(list->doc, o, "model", entry->model);
    yyjson_mut_obj_add_int(list->doc, o, "adapter_generation", entry->adapter_generation);
    add_text(list->doc, o, "endpoint", entry->endpoint);
    yyjson_mut_obj_add_int(list->doc, o, "status", entry->status);
    add_text(list->doc, o, "finish_reason", entry->finish_reason);
    yyjson_mut_obj_add_int(list->doc, o, "prompt_tokens", entry->prompt_tokens);
    yyjson_mut_obj_add_int(list->doc, o, "cached_tokens", entry->cached_tokens);
    yyjson_mut_obj_add_int(list->doc, o, "generated_tokens", entry->generated_tokens);
    yyjson_mut_obj_add_int(list->doc, o, "queue_us", entry->queue_us);
    yyjson_mut_obj_add_int(list->doc, o, "prefill_us", entry->prefill_us);
    yyjson_mut_obj_add_int(list->doc, o, "decode_us", entry->decode_us);
    yyjson_mut_obj_add_int(list->doc, o, "total_us", entry->total_us);
    return true;
}

static ruvllm_status list_json(ruvllm_store *store, const struct ruvllm_witness_filter *filter, int *code,
                               struct ruvllm_error *err)
{
    struct json_list list = {.doc = yyjson_mut_doc_new(NULL)};
    yyjson_mut_val *root = yyjson_mut_obj(list.doc);
    ruvllm_status rc;

    yyjson_mut_doc_set_root(list.doc, root);
    list.entries = yyjson_mut_obj_add_arr(list.doc, root, "entries");
    rc = ruvllm_witness_query(store, filter, add_json, &list, err);
    if (rc)
        yyjson_mut_doc_free(list.doc);
    else
        *code = rv_output_json(list.doc, false);
    return rc;
}

static int run(int argc, char **argv)
{
    struct witness_options options = {.filter = ruvllm_witness_filter_default()};
    struct ruvllm_error err = {0};
    struct rv_arguments args;
    ruvllm_store *store;
    ruvllm_status rc;
    size_t n = 0;
    int code;

    if (!rv_options_parse(&rv_cmd_witness, &options, argc, argv, &args, &code))
        return code;
    code = rv_options_finish(&rv_cmd_witness, &args);
    if (code || !rv_store_options_open(&options.store, true, &store, &code))
        return code;
    if (options.since)
        options.filter.since_us = ((int64_t)time(NULL) - options.since) * 1000000;
    if (options.filter.since_us < 0)
        options.filter.since_us = 0;
    rc = options.json ? list_json(store, &options.filter, &code, &err)
                      : ruvllm_witness_query(store, &options.filter, print_row, &n, &err);
    ruvllm_store_close(store);
    if (rc)
        return rv_output_failure(&err, "see 'ruvllm witness --help'");
    if (!options.json && n == 0)
        puts("no entries");
    return code;
}

const struct rv_command rv_cmd_witness = {
    .name = "witness",
    .arguments = "",
    .summary = "the server's log of requests: who, which model, how long",
    .about =
        "Shows what the server was asked for, newest first: time, tenant, key, model, tokens, and how long it took. "
        "Prompts and answers are never in it. A server that runs writes its entries about a second later.",
    .examples = "ruvllm witness\n"
                "ruvllm witness --tenant acme --since 24h\n"
                "    what one tenant asked for in the last day\n"
                "ruvllm witness --json | jq '[.entries[].generated_tokens] | add'\n"
                "    tokens generated in the last 100 requests\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
