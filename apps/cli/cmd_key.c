/* ruvllm key: who may use the server. */
#include "commands.h"
#include "output.h"
#include "store_options.h"
#include "suggest.h"

#include <string.h>
#include <time.h>

struct key_options {
    struct rv_store_options store;
    struct ruvllm_key_params params;
    int64_t lifetime; // seconds; 0: for ever
    bool json;
};

static const struct rv_option own_options[] = {
    {.name = "tenant",
     .value = "NAME",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct key_options, params.tenant),
     .help = "create: whose key it is; what tenants have is kept apart. list: only theirs"},
    {.name = "name",
     .value = "TEXT",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct key_options, params.name),
     .help = "create: a note for people, such as where the key is used"},
    {.name = "rpm",
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 0,
     .max = 1000000000,
     .offset = offsetof(struct key_options, params.requests_per_minute),
     .help = "create: requests a minute; 0 is no limit (default 0)"},
    {.name = "share",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .min = 0.001,
     .max = 1000,
     .offset = offsetof(struct key_options, params.share),
     .help = "create: weight among tenants that wait at the same time (default 1)"},
    {.name = "admin",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct key_options, params.is_admin),
     .help = "create: may also do what concerns the whole server"},
    {.name = "expires",
     .value = "SPAN",
     .type = RV_OPTION_PARSED,
     .parse = rv_store_options_span,
     .offset = offsetof(struct key_options, lifetime),
     .help = "create: how long the key is good, such as 12h, 30d or 8w (default: until it is revoked)"},
};

static const struct rv_option output_options[] = {
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct key_options, json),
     .help = "Print a JSON object"},
};

static const struct rv_option_group groups[] = {
    {"Key", own_options, RV_OPTION_COUNT(own_options), 0},
    {"Output", output_options, RV_OPTION_COUNT(output_options), 0},
    RV_STORE_GROUP(offsetof(struct key_options, store)),
};

static int usage_error(const char *message)
{
    rv_output_error("see 'ruvllm key --help'", "%s", message);
    return RV_EXIT_USAGE;
}

static const char *state_of(const struct ruvllm_key_info *key)
{
    if (key->revoked)
        return "revoked";
    return key->expires && key->expires <= (int64_t)time(NULL) ? "expired" : "valid";
}

static void key_json(yyjson_mut_doc *doc, yyjson_mut_val *o, const struct ruvllm_key_info *key)
{
    rv_output_json_add(doc, o, "id", rv_output_json_text(doc, key->id, strlen(key->id)));
    rv_output_json_add(doc, o, "tenant", rv_output_json_text(doc, key->tenant, strlen(key->tenant)));
    rv_output_json_add(doc, o, "name", rv_output_json_text(doc, key->name, strlen(key->name)));
    yyjson_mut_obj_add_str(doc, o, "state", state_of(key));
    yyjson_mut_obj_add_int(doc, o, "requests_per_minute", key->requests_per_minute);
    rv_output_json_add(doc, o, "share", rv_output_json_real(doc, (double)key->share, 3));
    yyjson_mut_obj_add_bool(doc, o, "is_admin", key->is_admin);
    yyjson_mut_obj_add_int(doc, o, "created", key->created);
    yyjson_mut_obj_add_int(doc, o, "last_used", key->last_used);
    yyjson_mut_obj_add_int(doc, o, "expires", key->expires);
    yyjson_mut_obj_add_int(doc, o, "revoked", key->revoked);
}

/* ---- create -------------------------------------------------------------------------------- */

/* The key alone on standard output, so that a script can take it; what a person should know beside it. */
static int print_created(const char *key, const struct ruvllm_key_info *info)
{
    puts(key);
    fflush(stdout);
    fprintf(stderr, "%sKey %s of tenant %s. It is not kept and cannot be shown again: put it where it is used.%s\n",
            rv_output_style(stderr, RV_STYLE_DIM), info->id, info->tenant, rv_output_style(stderr, RV_STYLE_RESET));
    return RV_EXIT_OK;
}

static int print_created_json(const char *key, const struct ruvllm_key_info *info)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);

    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_strcpy(doc, root, "key", key);
    key_json(doc, root, info);
    return rv_output_json(doc, false);
}

static int create(struct key_options *options)
{
    struct ruvllm_key_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err = {0};
    char key[RUVLLM_KEY_SIZE];
    ruvllm_store *store;
    int code;

    if (!options->params.tenant)
        return usage_error("no tenant given: 'ruvllm key create --tenant NAME'");
    if (options->lifetime)
        options->params.expires = (int64_t)time(NULL) + options->lifetime;
    if (!rv_store_options_open(&options->store, false, &store, &code))
        return code;
    if (ruvllm_keys_create(store, &options->params, key, &info, &err))
        code = rv_output_failure(&err, "see 'ruvllm key --help'");
    else
        code = options->json ? print_created_json(key, &info) : print_created(key, &info);
    ruvllm_store_close(store);
    return code;
}

/* ---- list ---------------------------------------------------------------------------------- */

static bool print_row(void *user, const struct ruvllm_key_info *key)
{
    size_t *n = user;
    char date[32];

    if ((*n)++ == 0)
        printf("%s%-8s  %-7s  %-16s  %-20s  %-10s  %-7s  %-5s  %-16s  %-16s  %s%s\n",
               rv_output_style(stdout, RV_STYLE_BOLD), "ID", "STATE", "TENANT", "NAME", "RPM", "SHARE", "ADMIN",
               "CREATED", "LAST USED", "EXPIRES (UTC)", rv_output_style(stdout, RV_STYLE_RESET));
    rv_store_options_cell(key->id, 9);
    printf("%-7s  ", state_of(key));
    rv_store_options_cell(key->tenant, 17);
    rv_store_options_cell(key->name, 21);
    if (key->requests_per_minute)
        printf("%-10d", key->requests_per_minute);
    else
        printf("%-10s", "-");
    printf("  %-7g  %-5s  ", (double)key->share, key->is_admin ? "yes" : "no");
    printf("%-16s  ", rv_store_options_date(key->created, date));
    printf("%-16s  ", rv_store_options_date(key->last_used, date));
    puts(rv_store_options_date(key->expires, date));
    return true;
}

struct json_list {
    yyjson_mut_doc *doc;
    yyjson_mut_val *keys;
};

static bool add_json(void *user, const struct ruvllm_key_info *key)
{
    struct json_list *list = user;

    key_json(list->doc, yyjson_mut_arr_add_obj(list->doc, list->keys), key);
    return true;
}

static ruvllm_status list_json(ruvllm_store *store, const char *tenant, int *code, struct ruvllm_error *err)
{
    struct json_list list = {.doc = yyjson_mut_doc_new(NULL)};
    yyjson_mut_val *root = yyjson_mut_obj(list.doc);
    ruvllm_status rc;

    yyjson_mut_doc_set_root(list.doc, root);
    list.keys = yyjson_mut_obj_add_arr(list.doc, root, "keys");
    rc = ruvllm_keys_list(store, tenant, add_json, &list, err);
    if (rc)
        yyjson_mut_doc_free(list.doc);
    else
        *code = rv_output_json(list.doc, false);
    return rc;
}

static int list(const struct key_options *options)
{
    const char *tenant = options->params.tenant;
    struct ruvllm_error err = {0};
    ruvllm_store *store;
    ruvllm_status rc;
    size_t n = 0;
    int code;

    if (!rv_store_options_open(&options->store, true, &store, &code))
        return code;
    rc = options->json ? list_json(store, tenant, &code, &err) : ruvllm_keys_list(store, tenant, print_row, &n, &err);
    ruvllm_store_close(store);
    if (rc)
        return rv_output_failure(&err, NULL);
    if (!options->json && n == 0)
        puts("no keys; 'ruvllm key create --tenant NAME' makes one");
    return code;
}

/* ---- revoke -------------------------------------------------------------------------------- */

static int revoke(const struct key_options *options, const char *id)
{
    struct ruvllm_error err = {0};
    yyjson_mut_doc *doc;
    yyjson_mut_val *root;
    ruvllm_store *store;
    ruvllm_status rc;
    int code;

    if (!id)
        return usage_error("no key given: 'ruvllm key revoke ID', with an id that 'ruvllm key list' shows");
    if (!rv_store_options_open(&options->store, true, &store, &code))
        return code;
    rc = ruvllm_keys_revoke(store, id, &err);
    ruvllm_store_close(store);
    if (rc)
        return rv_output_failure(&err, "'ruvllm key list' shows the ids");
    if (!options->json) {
        printf("revoked %s\n", id);
        return RV_EXIT_OK;
    }
    doc = yyjson_mut_doc_new(NULL);
    root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_strcpy(doc, root, "revoked", id);
    return rv_output_json(doc, false);
}

/* ---- which of them ------------------------------------------------------------------------- */

static int unknown_action(const char *action)
{
    struct rv_suggestion nearest;

    rv_suggestion_init(&nearest, action, strlen(action));
    rv_suggestion_offer(&nearest, "create");
    rv_suggestion_offer(&nearest, "list");
    rv_suggestion_offer(&nearest, "revoke");
    rv_output_error("see 'ruvllm key --help'", "unknown action '%.64s'; %s%s%s", action,
                    nearest.best[0] ? "did you mean '" : "it is one of create, list, revoke", nearest.best,
                    nearest.best[0] ? "'?" : "");
    return RV_EXIT_USAGE;
}

/* What only create takes would be ignored by the others without a word. */
static bool has_wishes(const struct key_options *options)
{
    const struct ruvllm_key_params *p = &options->params;

    return p->name || p->requests_per_minute || p->share != 1.0f || p->is_admin || options->lifetime;
}

static int run(int argc, char **argv)
{
    struct key_options options = {.params = ruvllm_key_params_default()};
    struct rv_arguments args;
    const char *action, *id = NULL;
    bool is_create, is_revoke;
    int code;

    if (!rv_options_parse(&rv_cmd_key, &options, argc, argv, &args, &code))
        return code;
    action = rv_options_shift(&args);
    if (!action)
        return usage_error("say what to do: 'ruvllm key create', 'ruvllm key list' or 'ruvllm key revoke ID'");
    is_create = strcmp(action, "create") == 0;
    is_revoke = strcmp(action, "revoke") == 0;
    if (!is_create && !is_revoke && strcmp(action, "list") != 0)
        return unknown_action(action);
    if (!is_create && has_wishes(&options))
        return usage_error("--name, --rpm, --share, --admin and --expires are for 'ruvllm key create': make a new key");
    if (is_revoke)
        id = rv_options_shift(&args);
    code = rv_options_finish(&rv_cmd_key, &args);
    if (code)
        return code;
    return is_create ? create(&options) : is_revoke ? revoke(&options, id) : list(&options);
}

const struct rv_command rv_cmd_key = {
    .name = "key",
    .arguments = "create|list|revoke [ID]",
    .summary = "make, list and revoke the keys that open the server",
    .about = "Keys say who asks: each names a tenant, whose sessions, caches and log entries no other tenant sees. "
             "'create' prints a new key, once: only its hash is kept. 'list' shows what keys there are, by their ids. "
             "'revoke' makes a key worthless at once, also for a server that runs.",
    .examples = "ruvllm key create --tenant acme\n"
                "    a key without limits\n"
                "ruvllm key create --tenant acme --name \"build server\" --rpm 60 --expires 30d\n"
                "    60 requests a minute, for a month\n"
                "KEY=$(ruvllm key create --tenant me --admin)\n"
                "    the key alone goes to standard output\n"
                "ruvllm key list --tenant acme\n"
                "ruvllm key revoke AbCdEfGh\n"
                "    the 8 characters after 'rv-'\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
