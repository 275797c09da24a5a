/* ruvllm serve: the OpenAI-compatible server. */
#include "commands.h"
#include "model_options.h"
#include "output.h"
#include "serve_auto.h"

#include "base/alloc.h"
#include "server/serve.h"

#include <limits.h>
#include <string.h>

enum { MAX_LISTS = 16, MAX_MODELS = 64, NAME = 129, MAX_ADAPTERS = 4 };

/* "PATH" or "PATH=0.5". */
struct adapter_list {
    struct rv_serve_adapter items[MAX_ADAPTERS];
    char paths[MAX_ADAPTERS][PATH_MAX];
    size_t n;
};

static const uint64_t default_spill_bytes = (uint64_t)4 << 30;

struct list {
    const char *items[MAX_LISTS];
    size_t n;
};

struct serve_options {
    struct rv_model_options model;
    struct list listen;
    struct list origins;
    struct adapter_list with;
    const char *models_dir;
    const char *adapters;
    const char *adapter_cache;
    const char *tls_cert;
    const char *tls_key;
    const char *store;
    const char *spill_dir;
    uint64_t spill_bytes;
    uint64_t kv_bytes;
    uint64_t memory_budget;
    int32_t max_sequences;
    int32_t max_queue;
    int32_t idle_unload;
    int32_t witness_days;
    int32_t drain;
    int32_t log_level;
    int32_t kv_cold;
    int32_t learn_rank;
    int32_t consolidation; // -1: the server's own, as the next
    int32_t votes_per_minute;
    bool learns;
    bool speculates;
    const char *draft;
    bool is_auto;
};

static ruvllm_status parse_list(void *target, const char *text, struct ruvllm_error *err)
{
    struct list *list = target;

    if (list->n == MAX_LISTS)
        return rv_fail(err, RUVLLM_INVALID, "at most %d of them", MAX_LISTS);
    list->items[list->n++] = text;
    return RUVLLM_OK;
}

static ruvllm_status parse_adapter(void *target, const char *text, struct ruvllm_error *err)
{
    struct adapter_list *list = target;
    const char *equals = strrchr(text, '=');
    double weight = 1;
    size_t len = strlen(text);

    if (list->n == MAX_ADAPTERS)
        return rv_fail(err, RUVLLM_INVALID, "at most %d of them", MAX_ADAPTERS);
    /* What follows the last '=' is a weight where it is a number, else part of the path. */
    if (equals && rv_options_double(equals + 1, -8, 8, &weight))
        len = (size_t)(equals - text);
    if (len == 0 || len >= PATH_MAX)
        return rv_fail(err, RUVLLM_INVALID, "a path, or a path and a weight such as my.gguf=0.5");
    memcpy(list->paths[list->n], text, len);
    list->items[list->n] = (struct rv_serve_adapter){.path = list->paths[list->n], .weight = (float)weight};
    list->n++;
    return RUVLLM_OK;
}

/* "512M", "4G" or plain bytes. */
static ruvllm_status parse_bytes(void *target, const char *text, struct ruvllm_error *err)
{
    static const char units[] = "KMGT";
    size_t len = strlen(text);
    const char *unit = len > 1 ? strchr(units, text[len - 1]) : NULL;
    char digits[24];
    int64_t n;

    snprintf(digits, sizeof(digits), "%.*s", (int)(unit ? len - 1 : len), text);
    if (len >= sizeof(digits) || !rv_options_int(digits, 0, (int64_t)1 << 40, &n))
        return rv_fail(err, RUVLLM_INVALID, "a size such as 512M or 4G");
    *(uint64_t *)target = (uint64_t)n << (unit ? 10 * (unit - units + 1) : 0);
    return RUVLLM_OK;
}

static const char *const levels[] = {"debug", "info", "warn", "error", "off", NULL};
static const char *const colds[] = {"q4", "q8", "f16", NULL};
static const char *const consolidations[] = {"ewc_merge", "average", "quality_weighted", "best_only", "ensemble", NULL};

static const struct rv_option network_options[] = {
    {.name = "listen",
     .short_name = 'l',
     .value = "ADDRESS",
     .type = RV_OPTION_PARSED,
     .parse = parse_list,
     .offset = offsetof(struct serve_options, listen),
     .help = "Where to listen: 127.0.0.1:8080, [::1]:8080, 0.0.0.0:80 or unix:/path; may be given several times; other "
             "machines are served only when there are keys (default 127.0.0.1:8080)"},
    {.name = "tls-cert",
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct serve_options, tls_cert),
     .help = "Serve HTTPS with this certificate chain (PEM)"},
    {.name = "tls-key",
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct serve_options, tls_key),
     .help = "Its private key (PEM)"},
    {.name = "cors-origin",
     .value = "ORIGIN",
     .type = RV_OPTION_PARSED,
     .parse = parse_list,
     .offset = offsetof(struct serve_options, origins),
     .help = "Let web pages of this origin, such as https://example.org, ask; may be given several times"},
    {.name = "drain",
     .value = "S",
     .type = RV_OPTION_INT,
     .max = 3600,
     .offset = offsetof(struct serve_options, drain),
     .help = "Seconds that answers under way have to finish when the server is told to end (default 30)"},
};

static const struct rv_option serving_options[] = {
    {.name = "models-dir",
     .value = "DIR",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct serve_options, models_dir),
     .help = "Offer every .gguf file of a folder, each by its name and loaded when it is first asked for"},
    {.name = "adapters",
     .value = "DIR",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct serve_options, adapters),
     .help = "Load every adapter of a folder with each model it fits, shared by all tenants, each by its name; it is "
             "also where /v1/adapters may load from"},
    {.name = "adapter",
     .value = "PATH[=X]",
     .type = RV_OPTION_PARSED,
     .parse = parse_adapter,
     .offset = offsetof(struct serve_options, with),
     .help =
         "Answer with this adapter, its changes times X, when a request names none; it must fit every model; may be "
         "given several times"},
    {.name = "adapter-cache",
     .value = "DIR",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct serve_options, adapter_cache),
     .help = "Keep adapters that memory has no room for in this folder, which no other server may use; it is emptied "
             "at start (default: all of them in memory, as many as fit)"},
    {.name = "learn",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct serve_options, learns),
     .help = "Learn from feedback (/v1/feedback): a tenant's votes change its next answers; a model that is opened for "
             "the first time writes some text of its own before, which takes seconds to minutes"},
    {.name = "learn-rank",
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 1,
     .max = 8,
     .offset = offsetof(struct serve_options, learn_rank),
     .help = "How many directions a tenant's feedback may change, 1 to 8 (default: as with this store "
             "before, or else 2); with --learn"},
    {.name = "consolidation",
     .value = "KIND",
     .type = RV_OPTION_CHOICE,
     .choices = consolidations,
     .offset = offsetof(struct serve_options, consolidation),
     .help = "How what was learned and what going over it again has found become one: ewc_merge, average, "
             "quality_weighted, best_only or ensemble (default ewc_merge); with --learn"},
    {.name = "speculate",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct serve_options, speculates),
     .help =
         "Guess tokens ahead from what a conversation has had before, as far as it pays: the answer stays the same, "
         "and texts that repeat their prompt come faster"},
    {.name = "draft",
     .value = "MODEL",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct serve_options, draft),
     .help = "Have this small model guess ahead instead; it must have the vocabulary of every model that is served"},
    {.name = "votes-per-minute",
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 0,
     .max = 1000000,
     .offset = offsetof(struct serve_options, votes_per_minute),
     .help = "How many votes a key may give in a minute; 0 is no limit (default 600); with --learn"},
    {.name = "kv-bytes",
     .value = "SIZE",
     .type = RV_OPTION_PARSED,
     .parse = parse_bytes,
     .offset = offsetof(struct serve_options, kv_bytes),
     .help = "Memory for keys and values of all conversations, such as 2G (default eight full contexts)"},
    {.name = "kv-cold",
     .value = "KIND",
     .type = RV_OPTION_CHOICE,
     .choices = colds,
     .offset = offsetof(struct serve_options, kv_cold),
     .help = "Precision of a conversation's oldest part: q4, q8, or f16 to keep everything (default q4)"},
    {.name = "spill-dir",
     .value = "DIR",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct serve_options, spill_dir),
     .help = "Folder for keys and values of answers that have to give way to others, in a file without a name, one a "
             "loaded model (default none: they are computed again)"},
    {.name = "spill-bytes",
     .value = "SIZE",
     .type = RV_OPTION_PARSED,
     .parse = parse_bytes,
     .offset = offsetof(struct serve_options, spill_bytes),
     .help = "The largest size of such a file (default 4G)"},
    {.name = "max-sequences",
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 1,
     .max = 4096,
     .offset = offsetof(struct serve_options, max_sequences),
     .help = "Answers computed at once (default 64)"},
    {.name = "max-queue",
     .value = "N",
     .type = RV_OPTION_INT,
     .max = 65536,
     .offset = offsetof(struct serve_options, max_queue),
     .help = "Answers that may wait beyond those; more are refused with 429 (default 256)"},
    {.name = "memory-budget",
     .value = "SIZE",
     .type = RV_OPTION_PARSED,
     .parse = parse_bytes,
     .offset = offsetof(struct serve_options, memory_budget),
     .help = "Weights, keys and values of all loaded models together; models nobody uses make room (default no limit)"},
    {.name = "idle-unload",
     .value = "S",
     .type = RV_OPTION_INT,
     .max = 1e9,
     .offset = offsetof(struct serve_options, idle_unload),
     .help = "Unload a model that nobody used for so many seconds (default 0: never)"},
    {.name = "auto",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct serve_options, is_auto),
     .help = "Choose memory and precision of keys and values from the machine and the model, and show the choice"},
};

static const struct rv_option keeping_options[] = {
    {.name = "store",
     .value = "PATH",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct serve_options, store),
     .help = "File with keys, sessions and the witness log, or none (default the user's own)"},
    {.name = "witness-days",
     .value = "N",
     .type = RV_OPTION_INT,
     .max = 36500,
     .offset = offsetof(struct serve_options, witness_days),
     .help = "Delete what is older from the witness log, at the start and once a day (default 0: keep all)"},
    {.name = "log-level",
     .value = "LEVEL",
     .type = RV_OPTION_CHOICE,
     .choices = levels,
     .offset = offsetof(struct serve_options, log_level),
     .help = "What goes to standard error: debug, info (one JSON line a request), warn, error or off (default info)"},
};

static const struct rv_option_group groups[] = {
    {"Network", network_options, RV_OPTION_COUNT(network_options), 0},
    {"Serving", serving_options, RV_OPTION_COUNT(serving_options), 0},
    {"Keeping", keeping_options, RV_OPTION_COUNT(keeping_options), 0},
    RV_MODEL_GROUP_COMPUTE(offsetof(struct serve_options, model)),
    RV_MODEL_GROUP_THREADS(offsetof(struct serve_options, model)),
    RV_MODEL_GROUP_ROPE(offsetof(struct serve_options, model)),
};

/* Models as they were named: MODEL or NAME=MODEL, where MODEL is a path or the name of a fetched model. */
struct model_names {
    struct rv_serve_model models[MAX_MODELS];
    char names[MAX_MODELS][NAME];
    char paths[MAX_MODELS][PATH_MAX]; // of fetched ones
};

/* A fetched model is served under the name it was asked for by. */
static int resolve(struct model_names *out, size_t i)
{
    struct rv_serve_model *model = &out->models[i];
    int code = RV_EXIT_OK;
    const char *path = rv_model_options_resolve(model->path, out->paths[i], &code);

    if (!path)
        return code;
    if (path != model->path && !model->name)
        model->name = model->path;
    model->path = path;
    return RV_EXIT_OK;
}

static int read_models(struct rv_arguments *args, struct model_names *out, size_t *n)
{
    const char *text;
    int code = RV_EXIT_OK;

    for (*n = 0; !code && (text = rv_options_shift(args)); (*n)++) {
        const char *equals = strchr(text, '=');
        const char *slash = strchr(text, '/');
        struct rv_serve_model *model = &out->models[*n];

        if (*n == MAX_MODELS) {
            rv_output_error("put them into a folder and use --models-dir", "more than %d models", MAX_MODELS);
            return RV_EXIT_USAGE;
        }
        /* An '=' behind a '/' is part of a path. */
        if (equals && (!slash || equals < slash || strchr(equals, '/') == equals + 1)) {
            snprintf(out->names[*n], NAME, "%.*s", (int)(equals - text), text);
            *model = (struct rv_serve_model){.name = out->names[*n], .path = equals + 1};
        } else {
            *model = (struct rv_serve_model){.path = text};
        }
        code = resolve(out, *n);
    }
    return code;
}

static int check_usage(const struct serve_options *options, size_t n_models)
{
    if (n_models == 0 && !options->models_dir) {
        rv_output_error("ruvllm serve model.gguf", "a model to serve is missing");
        return RV_EXIT_USAGE;
    }
    if (!options->tls_cert != !options->tls_key) {
        rv_output_error("give both, or let a proxy do TLS", "--tls-cert and --tls-key go together");
        return RV_EXIT_USAGE;
    }
    if (options->spill_bytes && !options->spill_dir) {
        rv_output_error("add --spill-dir DIR", "--spill-bytes has a meaning only with --spill-dir");
        return RV_EXIT_USAGE;
    }
    if (options->learn_rank && !options->learns) {
        rv_output_error("add --learn", "--learn-rank has a meaning only with --learn");
        return RV_EXIT_USAGE;
    }
    if (options->consolidation >= 0 && !options->learns) {
        rv_output_error("add --learn", "--consolidation has a meaning only with --learn");
        return RV_EXIT_USAGE;
    }
    if (options->votes_per_minute >= 0 && !options->learns) {
        rv_output_error("add --learn", "--votes-per-minute has a meaning only with --learn");
        return RV_EXIT_USAGE;
    }
    if (options->is_auto && n_models == 0) {
        rv_output_error("ruvllm serve model.gguf --models-dir DIR --auto",
                        "--auto looks at the first model: name one before the folder");
        return RV_EXIT_USAGE;
    }
    return RV_EXIT_OK;
}

static void fill(struct rv_serve_config *config, const struct serve_options *options, struct ruvllm_kv_policy *kv)
{
    static const ruvllm_precision cold[] = {RUVLLM_PRECISION_Q4, RUVLLM_PRECISION_Q8, RUVLLM_PRECISION_FP16};

    *kv = ruvllm_kv_policy_default();
    if (options->kv_cold >= 0)
        kv->cold = cold[options->kv_cold];
    config->model = options->model.params;
    config->engine.kv = kv;
    config->engine.kv_bytes = options->kv_bytes;
    config->engine.spill_dir = options->spill_dir;
    config->engine.spill_bytes = options->spill_bytes ? options->spill_bytes : default_spill_bytes;
    config->engine.speculate = options->speculates;
    config->engine.draft_model = options->draft;
    config->engine.max_sequences = options->max_sequences;
    config->engine.max_queue = options->max_queue;
    config->models_dir = options->models_dir;
    config->adapters_dir = options->adapters;
    config->adapter_cache = options->adapter_cache;
    config->adapters = options->with.items;
    config->n_adapters = options->with.n;
    config->addresses = options->listen.items;
    config->n_addresses = options->listen.n;
    config->cors_origins = options->origins.items;
    config->n_cors_origins = options->origins.n;
    config->tls_cert = options->tls_cert;
    config->tls_key = options->tls_key;
    config->store = options->store;
    config->learns = options->learns;
    if (options->votes_per_minute >= 0)
        config->votes_per_minute = options->votes_per_minute;
    if (options->learn_rank)
        config->learn_rank = options->learn_rank;
    if (options->consolidation >= 0)
        config->consolidation = (ruvllm_consolidation)options->consolidation; // in the order of the choices
    config->memory_budget = options->memory_budget;
    config->idle_unload_s = options->idle_unload;
    config->witness_days = options->witness_days;
    config->drain_s = options->drain;
    config->log_level = (ruvllm_log_level)options->log_level;
    config->is_auto = options->is_auto;
}

static int serve(struct rv_serve_config *config, struct ruvllm_kv_policy *kv, bool is_kv_open)
{
    char notes[RV_SERVE_AUTO_NOTES] = "";
    struct ruvllm_error err = {0};

    if (config->is_auto) {
        rv_serve_auto_choose(config, config->models[0].path, is_kv_open ? kv : NULL, notes);
        config->auto_notes = notes;
    }
    if (rv_serve(config, &err))
        return rv_output_failure(&err, NULL);
    return RV_EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct serve_options options = {.max_sequences = 64,
                                    .max_queue = 256,
                                    .drain = 30,
                                    .log_level = RUVLLM_LOG_INFO,
                                    .kv_cold = -1,
                                    .consolidation = -1,
                                    .votes_per_minute = -1};
    struct rv_serve_config config = rv_serve_config_default();
    struct ruvllm_kv_policy kv;
    struct model_names *names;
    struct rv_arguments args;
    int code;

    rv_model_options_init(&options.model);
    if (!rv_options_parse(&rv_cmd_serve, &options, argc, argv, &args, &code))
        return code;
    names = rv_calloc(1, sizeof(*names));
    if (!names)
        return RV_EXIT_FAILURE;
    code = read_models(&args, names, &config.n_models);
    if (!code)
        code = check_usage(&options, config.n_models);
    if (!code) {
        options.model.params.rope_scaling = (ruvllm_rope_scaling)options.model.rope_scaling;
        fill(&config, &options, &kv);
        config.models = names->models;
        code = serve(&config, &kv, options.kv_cold < 0);
    }
    rv_free(names);
    return code;
}

const struct rv_command rv_cmd_serve = {
    .name = "serve",
    .arguments = "[NAME=]MODEL...",
    .summary = "answer many users at once: OpenAI's API and a chat page",
    .about = "Serves models over HTTP: /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings and what "
             "else clients of OpenAI's API expect, and a page to chat in. A model is the path of a GGUF file or the "
             "name of one that was fetched, as 'ruvllm list' shows it. The first is loaded at once, others "
             "when they are asked for. Without keys only this machine is served; 'ruvllm key create' makes keys, and "
             "each belongs to a tenant that never sees another's words. SIGTERM and Ctrl-C let answers under way "
             "finish.",
    .examples = "ruvllm serve model.gguf\n"
                "    serve one model at http://127.0.0.1:8080\n"
                "ruvllm serve owner/name:Q4_K_M\n"
                "    one that was fetched with 'ruvllm pull'\n"
                "ruvllm serve small=qwen-0.5b.gguf large=qwen-7b.gguf --idle-unload 600\n"
                "    two models under names of your own; the second is loaded when asked for\n"
                "ruvllm serve model.gguf --models-dir ~/models --memory-budget 12G --auto\n"
                "    a folder of models beside it, within 12 GiB, settings chosen and shown\n"
                "ruvllm serve model.gguf --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem\n"
                "    for other machines too, over TLS; needs a key in the store\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
