/* ruvllm learn: from examples to an adapter. */
#include "commands.h"
#include "interrupt.h"
#include "jsonl_samples.h"
#include "learn_store.h"
#include "model_options.h"
#include "output.h"
#include "progress.h"
#include "text_input.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const schedules[] = {"constant", "cosine", "one-cycle", NULL};
static const char *const formats[] = {"gguf", "peft", "own", NULL}; // in the order of the library's enumeration

struct learn_options {
    struct rv_model_options model;
    struct ruvllm_train_params params;
    const char *out;
    const char *anchors;
    const char *checkpoint;
    struct rv_store_options store;
    const char *tenant;
    float max_forgetting;
    int32_t n_variants;
    bool fresh;
    int32_t limit;
    int32_t format;
    int32_t schedule;
    int32_t seed;
    int32_t memory_mib;
    bool raw;
    bool force;
    bool json;
};

static const struct rv_option data_options[] = {
    {.name = "output",
     .short_name = 'o',
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct learn_options, out),
     .help = "Where the adapter goes: a GGUF LoRA"},
    {.name = "anchors",
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct learn_options, anchors),
     .help = "Examples that are not learned: what the model makes of them is to stay"},
    {.name = "raw",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct learn_options, raw),
     .help = "Take prompts as text, also when the model has a chat template"},
    {.name = "length",
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 2,
     .max = 8192,
     .offset = offsetof(struct learn_options, params.max_tokens),
     .help = "Longest example in tokens; longer ones are cut at their end (default 512)"},
    {.name = "held-out",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 0.9,
     .offset = offsetof(struct learn_options, params.held_out),
     .help = "Share of the examples that is measured instead of trained on (default 0.1; with --tenant 0.2)"},
    {.name = "checkpoint",
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct learn_options, checkpoint),
     .help = "Where a run is kept, and found when the command is given again (default: the output with .run)"},
    {.name = "checkpoint-every",
     .value = "S",
     .type = RV_OPTION_INT,
     .max = 86400,
     .offset = offsetof(struct learn_options, params.checkpoint_seconds),
     .help = "Seconds after which a run is kept while it goes on; 0 is only when it is stopped (default 60)"},
    {.name = "force",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct learn_options, force),
     .help = "Replace the output if it exists"},
    {.name = "keep-worse",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct learn_options, params.keep_if_worse),
     .help = "Write an adapter even when the held-out examples are not predicted better with it"},
};

static const struct rv_option training_options[] = {
    {.name = "rank",
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 1,
     .max = 256,
     .offset = offsetof(struct learn_options, params.rank),
     .help = "Rank of the changes (default 8)"},
    {.name = "alpha",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .min = 0.001,
     .max = 100000,
     .offset = offsetof(struct learn_options, params.alpha),
     .help = "Changes are scaled by alpha / rank (default 16)"},
    {.name = "modules",
     .value = "LIST",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct learn_options, params.modules),
     .help = "Which of q,k,v,o,gate,up,down are changed (default all)"},
    {.name = "epochs",
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 1,
     .max = 100000,
     .offset = offsetof(struct learn_options, params.n_epochs),
     .help = "Passes over the examples (default 3; with --tenant 12)"},
    {.name = "patience",
     .value = "N",
     .type = RV_OPTION_INT,
     .max = 100000,
     .offset = offsetof(struct learn_options, params.patience),
     .help =
         "End after so many epochs without a gain on the held-out examples; 0 is never (default 2; with --tenant 0)"},
    {.name = "batch-tokens",
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 1,
     .max = 1 << 20,
     .offset = offsetof(struct learn_options, params.batch_tokens),
     .help = "Tokens of a step, about (default 1024)"},
    {.name = "rate",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 10,
     .offset = offsetof(struct learn_options, params.step_size),
     .help = "Learning rate (default 0.001; with --tenant 0.002, less on models wider than 64)"},
    {.name = "schedule",
     .value = "NAME",
     .type = RV_OPTION_CHOICE,
     .choices = schedules,
     .offset = offsetof(struct learn_options, schedule),
     .help = "How the rate goes over the run: constant, cosine or one-cycle (default cosine)"},
    {.name = "decay",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 10,
     .offset = offsetof(struct learn_options, params.decay),
     .help = "Weight decay (default 0)"},
    {.name = "kl",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .max = 1000,
     .offset = offsetof(struct learn_options, params.kl_weight),
     .help = "Weight of the anchors against the examples (default 0.3; with --tenant 2)"},
    {.name = "kto",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct learn_options, params.has_kto),
     .help = "Judge examples with a score as a whole (KTO) instead of token by token; so it is with --tenant"},
    {.name = "beta",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .min = 0.0001,
     .max = 100,
     .offset = offsetof(struct learn_options, params.beta),
     .help = "How soon a difference is enough, for pairs (DPO) and --kto (default 0.1)"},
    {.name = "seed",
     .value = "N",
     .type = RV_OPTION_INT,
     .max = INT32_MAX,
     .offset = offsetof(struct learn_options, seed),
     .help = "Order of the examples and first values (default 1)"},
    {.name = "memory",
     .value = "MIB",
     .type = RV_OPTION_INT,
     .max = 1 << 20,
     .offset = offsetof(struct learn_options, memory_mib),
     .help = "Memory for what would otherwise be computed twice (default 1024)"},
};

static const struct rv_option tenant_options[] = {
    {.name = "tenant",
     .value = "NAME",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct learn_options, tenant),
     .help = "Whose feedback, in the store (default local); with 'run' it is learned from instead of a file"},
    {.name = "max-forgetting",
     .value = "X",
     .type = RV_OPTION_FLOAT,
     .min = 0.000001,
     .max = 100,
     .offset = offsetof(struct learn_options, max_forgetting),
     .help = "How much less likely the model's own text may become, as a share of its nats (default 0.03)"},
    {.name = "variants",
     .value = "N",
     .type = RV_OPTION_INT,
     .max = 16,
     .offset = offsetof(struct learn_options, n_variants),
     .help = "In how many other ways each correction is asked in an epoch; 0 asks it as it was (default 2)"},
    {.name = "fresh",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct learn_options, fresh),
     .help = "Begin anew instead of going on from the tenant's run before"},
    {.name = "limit",
     .short_name = 'n',
     .value = "N",
     .type = RV_OPTION_INT,
     .min = 1,
     .max = 1000000,
     .offset = offsetof(struct learn_options, limit),
     .help = "history: how many, newest first (default 50)"},
    {.name = "format",
     .value = "FORMAT",
     .type = RV_OPTION_CHOICE,
     .choices = formats,
     .offset = offsetof(struct learn_options, format),
     .help = "export: own (keeps everything) or gguf (a file for llama.cpp) (default own)"},
};

static const struct rv_option output_options[] = {
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct learn_options, json),
     .help = "Print a JSON object, with a line of its own for each epoch before it"},
};

static const struct rv_option_group groups[] = {
    {"Data", data_options, RV_OPTION_COUNT(data_options), 0},
    {"Training", training_options, RV_OPTION_COUNT(training_options), 0},
    {"Feedback", tenant_options, RV_OPTION_COUNT(tenant_options), 0},
    RV_STORE_GROUP(offsetof(struct learn_options, store)),
    {"Output", output_options, RV_OPTION_COUNT(output_options), 0},
    RV_MODEL_GROUP_FILE(offsetof(struct learn_options, model)),
    RV_MODEL_GROUP_THREADS(offsetof(struct learn_options, model)),
};

/* One run, as its callback sees it. */
struct learning {
    struct rv_progress progress;
    int64_t start_us;
    int32_t first_step; // what a resumed run began with
    bool json;
};

static void tell_epoch(const struct learning *l, const struct ruvllm_train_progress *p)
{
    if (l->json)
        printf("{\"epoch\":%d,\"held_out\":%.6f,\"held_out_before\":%.6f}\n", p->epoch, p->held_out,
               p->held_out_before);
    else
        printf("epoch %d: held out %.4f nats a token (%+.1f %%)\n", p->epoch, p->held_out,
               100 * (p->held_out / p->held_out_before - 1));
    fflush(stdout);
}

static bool on_progress(void *user, const struct ruvllm_train_progress *p)
{
    struct learning *l = user;
    double seconds = (double)(rv_clock_us() - l->start_us) / 1e6;
    char note[128];

    if (p->n_steps == 0) { // nothing to measure yet
        rv_progress_show(&l->progress, 0, "the model writes what it would say anyway");
        return !rv_interrupt_seen();
    }
    if (!isnan(p->held_out)) {
        rv_progress_clear(&l->progress);
        tell_epoch(l, p);
        return !rv_interrupt_seen();
    }
    if (l->first_step < 0)
        l->first_step = p->step - 1;
    snprintf(note, sizeof(note), "epoch %d, step %d of %d, loss %.4f, %.0f s left", p->epoch, p->step, p->n_steps,
             p->loss, seconds / (p->step - l->first_step) * (p->n_steps - p->step));
    rv_progress_show(&l->progress, (double)p->step / p->n_steps, note);
    return !rv_interrupt_seen();
}

static int report_json(const struct learn_options *o, const struct ruvllm_train_report *r, double seconds)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);

    yyjson_mut_doc_set_root(doc, root);
    rv_output_json_add(doc, root, "path", rv_output_json_text(doc, o->out, strlen(o->out)));
    yyjson_mut_obj_add_bool(doc, root, "written", r->was_written);
    yyjson_mut_obj_add_bool(doc, root, "stopped", r->was_stopped);
    yyjson_mut_obj_add_bool(doc, root, "resumed", r->was_resumed);
    yyjson_mut_obj_add_int(doc, root, "examples", r->n_samples);
    yyjson_mut_obj_add_int(doc, root, "cut", r->n_cut);
    yyjson_mut_obj_add_int(doc, root, "tokens", r->n_tokens);
    yyjson_mut_obj_add_int(doc, root, "steps", r->n_steps);
    yyjson_mut_obj_add_int(doc, root, "epochs", r->n_epochs);
    if (!isnan(r->held_out_before)) {
        rv_output_json_add(doc, root, "held_out_before", rv_output_json_real(doc, r->held_out_before, 6));
        rv_output_json_add(doc, root, "held_out_after", rv_output_json_real(doc, r->held_out_after, 6));
    }
    if (!isnan(r->anchor_kl))
        rv_output_json_add(doc, root, "anchor_kl", rv_output_json_real(doc, r->anchor_kl, 6));
    rv_output_json_add(doc, root, "seconds", rv_output_json_real(doc, seconds, 3));
    return rv_output_json(doc, false);
}

static void report(const struct learn_options *o, const struct ruvllm_train_report *r, double seconds)
{
    if (r->was_stopped) {
        printf("stopped after step %d; the same command goes on from there (%s)\n", r->n_steps, o->checkpoint);
        return;
    }
    if (r->was_written)
        printf("%s: ", o->out);
    else
        printf("nothing was gained, so nothing was written: ");
    printf("%lld examples, %d steps in %.1f s", (long long)r->n_samples, r->n_steps, seconds);
    if (!isnan(r->held_out_before))
        printf("; held out %.4f -> %.4f nats a token", r->held_out_before, r->held_out_after);
    if (!isnan(r->anchor_kl))
        printf("; divergence on anchors %.4f", r->anchor_kl);
    printf("\n");
    if (r->n_cut > 0)
        printf("%lld examples were cut to %d tokens\n", (long long)r->n_cut, o->params.max_tokens);
}

static int learn(struct learn_options *o, const ruvllm_model *model, const struct rv_jsonl_samples *samples)
{
    struct learning l = {.start_us = rv_clock_us(), .first_step = -1, .json = o->json};
    struct ruvllm_train_report r = {.struct_size = sizeof(r)};
    struct ruvllm_error err = {0};
    double seconds;
    int code = RV_EXIT_OK;

    rv_progress_init(&l.progress, "learning");
    o->params.on_progress = on_progress;
    o->params.user = &l;
    if (ruvllm_train(model, samples->items, samples->n_items, &o->params, o->out, &r, &err)) {
        rv_progress_clear(&l.progress);
        return rv_output_failure(&err, NULL);
    }
    rv_progress_clear(&l.progress);
    seconds = (double)(rv_clock_us() - l.start_us) / 1e6;
    if (o->json)
        code = report_json(o, &r, seconds);
    else
        report(o, &r, seconds);
    return r.was_stopped ? RV_EXIT_INTERRUPTED : code;
}

static ruvllm_status add_file(struct rv_jsonl_samples *samples, const char *path, enum rv_jsonl_prompts prompts,
                              bool are_anchors, struct ruvllm_error *err)
{
    char *text;
    size_t len;
    ruvllm_status rc = rv_text_input_file(path, &text, &len, err);

    if (rc)
        return rc;
    rc = rv_jsonl_samples_add(samples, text, len, prompts, are_anchors, err);
    rv_free(text);
    return rc ? rv_fail_in(err, rc, "cannot use the examples in '%s'", path) : RUVLLM_OK;
}

static int run_learning(struct learn_options *o, const char *data)
{
    struct ruvllm_model_info info;
    struct rv_jsonl_samples samples = {0};
    struct ruvllm_error err = {0};
    enum rv_jsonl_prompts prompts;
    ruvllm_model *model;
    int code;

    o->model.params.vocab_only = true; // training reads weights from the file
    code = rv_model_options_open(&o->model, &model, &info);
    if (code)
        return code;
    prompts = info.template_sha256[0] && !o->raw ? RV_JSONL_PROMPTS_CHAT : RV_JSONL_PROMPTS_TEXT;
    if (add_file(&samples, data, prompts, false, &err) ||
        (o->anchors && add_file(&samples, o->anchors, prompts, true, &err)))
        code = rv_output_failure(&err, NULL);
    else
        code = learn(o, model, &samples);
    rv_jsonl_samples_release(&samples);
    ruvllm_model_close(model);
    return code;
}

/* What can be wrong with the command before anything is read; returns 0 or the exit code. */
static int check(struct learn_options *o, const char *data, char *checkpoint, size_t cap)
{
    if (!data || !o->out) {
        rv_output_error("ruvllm learn run model.gguf examples.jsonl -o adapter.gguf",
                        "a model, a file of examples and an output (-o) are needed");
        return RV_EXIT_USAGE;
    }
    if (!o->force && access(o->out, F_OK) == 0) {
        rv_output_error("give another name, or --force to replace it", "'%s' exists already", o->out);
        return RV_EXIT_USAGE;
    }
    if (!o->checkpoint) {
        if ((size_t)snprintf(checkpoint, cap, "%s.run", o->out) >= cap) {
            rv_output_error(NULL, "the output's path is too long");
            return RV_EXIT_USAGE;
        }
        o->checkpoint = checkpoint;
    }
    return RV_EXIT_OK;
}

/* ---- feedback in a store -------------------------------------------------------------------------- */

static int usage(const char *what)
{
    rv_output_error("see 'ruvllm learn --help'", "%s", what);
    return RV_EXIT_USAGE;
}

static int run_tenant(struct learn_options *o, const struct rv_learn_store *what)
{
    struct learning l = {.start_us = rv_clock_us(), .first_step = -1, .json = o->json};
    struct rv_learn_store_run run = {
        .train = &o->params, .max_forgetting = o->max_forgetting, .n_variants = o->n_variants, .is_fresh = o->fresh};
    int code;

    if (o->out || o->anchors)
        return usage("feedback of a tenant needs no output and no anchors: it answers that tenant when it is done");
    rv_progress_init(&l.progress, "learning");
    o->params.on_progress = on_progress;
    o->params.user = &l;
    code = rv_learn_store_run(what, &run);
    rv_progress_clear(&l.progress);
    return code;
}

static int go_back(const struct rv_learn_store *what, const char *generation)
{
    char *end = NULL;
    long long number = generation ? strtoll(generation, &end, 10) : -1;

    if (!generation || end == generation || *end || number < 0)
        return usage("say which generation to go back to: 'learn rollback MODEL GENERATION --tenant NAME'");
    return rv_learn_store_rollback(what, number);
}

static int export_learned(const struct learn_options *o, const struct rv_learn_store *what)
{
    if (!o->out)
        return usage("say where to write: -o FILE");
    if (!o->force && access(o->out, F_OK) == 0) {
        rv_output_error("give another name, or --force to replace it", "'%s' exists already", o->out);
        return RV_EXIT_USAGE;
    }
    return rv_learn_store_export(what, o->out, o->format);
}

/* What is done with a tenant's feedback. */
static int act(struct learn_options *o, const char *action, const char *argument)
{
    struct rv_learn_store what = {
        .model = &o->model, .store = &o->store, .tenant = o->tenant ? o->tenant : "local", .json = o->json};

    if (strcmp(action, "rollback") == 0)
        return go_back(&what, argument);
    if (argument)
        return usage("there is one argument too many");
    if (strcmp(action, "history") == 0)
        return rv_learn_store_history(&what, o->limit);
    if (strcmp(action, "export") == 0)
        return export_learned(o, &what);
    return strcmp(action, "run") == 0 ? run_tenant(o, &what) : rv_learn_store_status(&what);
}

/* ---- which of them -------------------------------------------------------------------------------- */

static const char *const actions[] = {"run", "status", "history", "rollback", "export"};

static bool is_action(const char *text)
{
    for (size_t i = 0; text && i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strcmp(text, actions[i]) == 0)
            return true;
    return false;
}

/* Feedback is little, and judged as a whole: other defaults, which options then change. */
static struct ruvllm_train_params first_params(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--tenant", strlen("--tenant")) == 0)
            return ruvllm_deep_train_params_default();
    return ruvllm_train_params_default();
}

static int run(int argc, char **argv)
{
    struct learn_options options = {.params = first_params(argc, argv),
                                    .schedule = 1,
                                    .seed = 1,
                                    .max_forgetting = 0.03f,
                                    .n_variants = 2,
                                    .limit = 50,
                                    .format = 2};
    char checkpoint[PATH_MAX];
    struct rv_arguments args;
    const char *action, *argument;
    bool is_file;
    int code;

    options.memory_mib = 1024;
    rv_model_options_init(&options.model);
    if (!rv_options_parse(&rv_cmd_learn, &options, argc, argv, &args, &code))
        return code;
    action = rv_options_shift(&args);
    if (!is_action(action)) {
        rv_output_error("ruvllm learn run model.gguf examples.jsonl -o adapter.gguf",
                        "say what to do: 'learn run', 'status', 'history', 'rollback' or 'export'");
        return RV_EXIT_USAGE;
    }
    code = rv_model_options_settle(&options.model, &rv_cmd_learn, &args);
    if (code)
        return code;
    argument = rv_options_shift(&args);
    code = rv_options_finish(&rv_cmd_learn, &args);
    is_file = strcmp(action, "run") == 0 && !options.tenant;
    if (!code && is_file)
        code = check(&options, argument, checkpoint, sizeof(checkpoint));
    if (code)
        return code;
    options.params.schedule = (ruvllm_train_schedule)options.schedule;
    options.params.seed = (uint64_t)options.seed;
    options.params.max_bytes = (uint64_t)options.memory_mib << 20;
    options.params.n_threads = options.model.params.n_threads;
    options.params.checkpoint = options.checkpoint;
    rv_interrupt_catch(RV_INTERRUPT_ONCE);
    return is_file ? run_learning(&options, argument) : act(&options, action, argument);
}

const struct rv_command rv_cmd_learn = {
    .name = "learn",
    .arguments = "run MODEL DATA -o ADAPTER | run|status|history MODEL --tenant NAME | "
                 "rollback MODEL GENERATION --tenant NAME | export MODEL --tenant NAME -o FILE",
    .summary = "train an adapter from examples, or on what a tenant said",
    .about =
        "Trains a LoRA adapter on the CPU, through weights of any quantisation, from a file with one JSON object a "
        "line: {\"prompt\", \"response\"}, {\"messages\": [{\"role\", \"content\"}, ...]} or {\"text\"}, each with "
        "a \"score\" from 0 to 1 if there are better and worse ones, or {\"prompt\", \"chosen\", \"rejected\"}, "
        "of which one is to win over the other. Prompts are a user's messages where the "
        "model has a chat template. Some examples are held out: the adapter written is the one that predicted "
        "them best, and none is written when none did better than the model alone. The run is kept now and then "
        "and on Ctrl-C; the same command goes on from there.\n\n"
        "With --tenant the examples are what that tenant has said in a server's store: votes, corrections and pairs. "
        "Beside them texts of the model's own are held on to. What was learned then answers the tenant, as a "
        "generation that can be gone back from, if it predicts held-out feedback better and forgets no more than "
        "allowed. No server may be running on that store meanwhile; one that runs is asked with POST /v1/learning/deep "
        "instead.",
    .examples = "ruvllm learn run model.gguf examples.jsonl -o adapter.gguf\n"
                "    the defaults: rank 8 on all projections, three epochs\n"
                "ruvllm learn run model.gguf examples.jsonl -o adapter.gguf --anchors usual.jsonl --kl 1\n"
                "    holding on to what the model makes of other texts\n"
                "ruvllm learn run model.gguf votes.jsonl -o adapter.gguf --rank 16 --epochs 5 --rate 3e-4\n"
                "    slower and wider\n"
                "ruvllm learn run model.gguf --tenant acme\n"
                "    what the tenant 'acme' said\n"
                "ruvllm learn rollback model.gguf 12 --tenant acme\n"
                "    as generation 12 answered\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
