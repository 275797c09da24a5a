/*
 * ruvllm info: what is in a model file. A file that cannot be used is still shown as far as it can be read, with
 * what is wrong with it and a failing exit code.
 */
#include "commands.h"
#include "file_facts.h"
#include "model_options.h"
#include "output.h"

#include <stdarg.h>
#include <string.h>

struct info_options {
    struct rv_model_options model;
    bool load;
    bool tensors;
    bool metadata;
    bool template;
    bool json;
};

static const struct rv_option own_options[] = {
    {.name = "tensors",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct info_options, tensors),
     .help = "List the tensors: name, type, size, shape (fastest side first)"},
    {.name = "metadata",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct info_options, metadata),
     .help = "List the file's metadata"},
    {.name = "template",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct info_options, template),
     .help = "Print the chat template and nothing else"},
    {.name = "load",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct info_options, load),
     .help = "Load the weights too, and show the memory really used instead of an estimate"},
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct info_options, json),
     .help = "Print a JSON object"},
};

static const struct rv_option_group groups[] = {
    {"Output", own_options, RV_OPTION_COUNT(own_options), 0},
    RV_MODEL_GROUP_FILE(offsetof(struct info_options, model)),
    RV_MODEL_GROUP_COMPUTE(offsetof(struct info_options, model)),
    RV_MODEL_GROUP_THREADS(offsetof(struct info_options, model)),
    RV_MODEL_GROUP_ROPE(offsetof(struct info_options, model)),
};

/* Everything known about the file, gathered before anything is printed. */
struct view {
    const struct info_options *options;
    struct rv_file_facts facts;
    ruvllm_model *model; // NULL: it could not be opened, and `err` says why
    struct ruvllm_model_info info;
    struct ruvllm_memory_stats memory;
    struct ruvllm_error err;
};

/* Keys and values of one token in all layers, at 16 bits each. */
static uint64_t kv_bytes_per_token(const struct ruvllm_model_info *info)
{
    return 2 * (uint64_t)info->n_layers * (uint64_t)info->n_kv_heads * (uint64_t)info->head_dim * 2;
}

/* An engine keeps old keys and values in fewer bits; 32 numbers of a head share a scale. */
static bool can_quantize_kv(const struct ruvllm_model_info *info)
{
    return info->has_tiers && info->head_dim % 32 == 0;
}

static uint64_t cold_bytes_per_token(const struct ruvllm_model_info *info)
{
    return (uint64_t)((double)kv_bytes_per_token(info) * ruvllm_precision_bits(RUVLLM_PRECISION_Q4) / 16);
}

static void row(const char *label, const char *format, ...) RV_PRINTF(2, 3);

static void row(const char *label, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    printf("  %s%-14s%s ", rv_output_style(stdout, RV_STYLE_CYAN), label, rv_output_style(stdout, RV_STYLE_RESET));
    rv_output_field(stdout, text, strlen(text));
    putchar('\n');
}

static void print_file(const struct view *view)
{
    char bytes[24], types[256], count[32];

    if (view->facts.version)
        row("file", "%s, GGUF version %llu", rv_output_bytes(view->facts.n_bytes, bytes),
            (unsigned long long)view->facts.version);
    else
        row("file", "%s, not readable as GGUF", rv_output_bytes(view->facts.n_bytes, bytes));
    rv_file_facts_types(&view->facts, types, sizeof(types));
    row("tensors", "%zu%s%s", view->facts.n_tensors, *types ? ": " : "", types);
    row("parameters", "%s", rv_output_count(view->facts.n_params, count));
}

static void print_memory(const struct view *view)
{
    const struct ruvllm_model_info *info = &view->info;
    const struct ruvllm_memory_stats *memory = &view->memory;
    uint64_t kv = kv_bytes_per_token(info) * (uint64_t)info->context;
    char a[24], b[24], c[24], d[24];

    if (kv == 0)
        row("KV cache", "none: a state of one size for each sequence");
    else
        row("KV cache", "%s per token, %s for %d tokens", rv_output_bytes(kv_bytes_per_token(info), a),
            rv_output_bytes(kv, b), info->context);
    if (view->options->load) {
        row("memory", "weights %s mapped + %s allocated, KV %s, scratch %s", rv_output_bytes(memory->weights_mapped, a),
            rv_output_bytes(memory->weights_allocated, b), rv_output_bytes(memory->kv_bytes, c),
            memory->compute_bytes ? rv_output_bytes(memory->compute_bytes, d) : "unknown");
        row("", "%s resident now, on %s", rv_output_bytes(memory->process_rss, a), info->device);
    } else {
        row("memory", "about %s: weights %s + KV %s (scratch comes on top; --load measures)",
            rv_output_bytes(info->file_bytes + kv, a), rv_output_bytes(info->file_bytes, b), rv_output_bytes(kv, c));
    }
}

static void print_backend(const struct ruvllm_model_info *info)
{
    if (!*info->backend)
        row("backend", "none that may compute this architecture");
    else if (info->has_tiers && info->can_learn)
        row("backend", "%s", info->backend);
    else
        row("backend", "%s: %s%s%s", info->backend, info->has_tiers ? "" : "no KV tiers, shared prefixes or sessions",
            info->has_tiers || info->can_learn ? "" : ", ", info->can_learn ? "" : "no learning");
}

static void print_model(const struct view *view)
{
    const struct ruvllm_model_info *info = &view->info;
    char count[32];

    row("architecture", "%s, %s", info->architecture, ruvllm_model_size_name(info->size));
    print_backend(info);
    row("shape", "%d layers, width %d, %d heads of %d (%d for KV)%s", info->n_layers, info->n_embd, info->n_heads,
        info->head_dim, info->n_kv_heads, info->tied_embeddings ? ", tied embeddings" : "");
    row("quantisation", "%s", info->quantization);
    row("tokenizer", "%s, %s tokens, BOS %d, EOS %d", info->tokenizer, rv_output_count((uint64_t)info->n_vocab, count),
        info->bos_token, info->eos_token);
    if (info->context == info->trained_context)
        row("context", "%d tokens", info->context);
    else
        row("context", "%d tokens as opened, trained for %d (--ctx 0 for all)", info->context, info->trained_context);
    if (info->sliding_window)
        row("window", "%d tokens", info->sliding_window);
    if (can_quantize_kv(info))
        row("KV tiers", "16 bits when new, then 8, then 4 (%s a token)",
            rv_output_bytes(cold_bytes_per_token(info), count));
    else if (info->has_tiers)
        row("KV tiers", "all in 16 bits: fewer need heads that 32 divides, these have %d", info->head_dim);
    if (info->has_chat_template)
        row("chat template", "sha256 %s", info->template_sha256);
    else
        row("chat template", "none: this model continues text, use 'ruvllm run'");
    print_memory(view);
}

static int print_human(const struct view *view)
{
    const char *path = view->options->model.path;
    bool has_name = view->model && *view->info.name;
    const char *title = has_name ? view->info.name : rv_model_options_base_name(path);

    fputs(rv_output_style(stdout, RV_STYLE_BOLD), stdout);
    rv_output_field(stdout, title, strlen(title));
    puts(rv_output_style(stdout, RV_STYLE_RESET));
    print_file(view);
    if (view->model)
        print_model(view);
    if (view->options->metadata || (!view->model && view->facts.n_metadata)) {
        puts("\nMetadata");
        rv_file_facts_print_metadata(&view->facts);
    }
    if (view->options->tensors) {
        puts("\nTensors");
        rv_file_facts_print_tensors(&view->facts);
    }
    if (view->model)
        return RV_EXIT_OK;
    return rv_output_failure(&view->err, view->facts.damage ? "above is what could be read; fetch the file again if it "
                                                              "was downloaded"
                                                            : "above is what the file holds");
}

static void info_json(yyjson_mut_doc *doc, yyjson_mut_val *o, const struct ruvllm_model_info *info)
{
    rv_output_json_add(doc, o, "name", rv_output_json_text(doc, info->name, strlen(info->name)));
    yyjson_mut_obj_add_strcpy(doc, o, "architecture", info->architecture);
    yyjson_mut_obj_add_strcpy(doc, o, "quantization", info->quantization);
    yyjson_mut_obj_add_strcpy(doc, o, "tokenizer", info->tokenizer);
    yyjson_mut_obj_add_strcpy(doc, o, "device", info->device);
    yyjson_mut_obj_add_strcpy(doc, o, "backend", info->backend);
    yyjson_mut_obj_add_bool(doc, o, "can_learn", info->can_learn);
    yyjson_mut_obj_add_bool(doc, o, "has_tiers", info->has_tiers);
    yyjson_mut_obj_add_strcpy(doc, o, "template_sha256", info->template_sha256);
    yyjson_mut_obj_add_bool(doc, o, "has_chat_template", info->has_chat_template);
    yyjson_mut_obj_add_strcpy(doc, o, "size", ruvllm_model_size_name(info->size));
    yyjson_mut_obj_add_uint(doc, o, "n_params", info->n_params);
    yyjson_mut_obj_add_uint(doc, o, "file_bytes", info->file_bytes);
    yyjson_mut_obj_add_int(doc, o, "n_layers", info->n_layers);
    yyjson_mut_obj_add_int(doc, o, "n_embd", info->n_embd);
    yyjson_mut_obj_add_int(doc, o, "n_heads", info->n_heads);
    yyjson_mut_obj_add_int(doc, o, "n_kv_heads", info->n_kv_heads);
    yyjson_mut_obj_add_int(doc, o, "head_dim", info->head_dim);
    yyjson_mut_obj_add_int(doc, o, "n_vocab", info->n_vocab);
    yyjson_mut_obj_add_int(doc, o, "trained_context", info->trained_context);
    yyjson_mut_obj_add_int(doc, o, "context", info->context);
    yyjson_mut_obj_add_int(doc, o, "sliding_window", info->sliding_window);
    yyjson_mut_obj_add_int(doc, o, "bos_token", info->bos_token);
    yyjson_mut_obj_add_int(doc, o, "eos_token", info->eos_token);
    yyjson_mut_obj_add_bool(doc, o, "tied_embeddings", info->tied_embeddings);
    yyjson_mut_obj_add_uint(doc, o, "kv_bytes_per_token", kv_bytes_per_token(info));
    yyjson_mut_obj_add_bool(doc, o, "kv_can_quantize", can_quantize_kv(info));
}

static void memory_json(yyjson_mut_doc *doc, yyjson_mut_val *o, const struct ruvllm_memory_stats *memory)
{
    yyjson_mut_obj_add_uint(doc, o, "weights_mapped", memory->weights_mapped);
    yyjson_mut_obj_add_uint(doc, o, "weights_allocated", memory->weights_allocated);
    yyjson_mut_obj_add_uint(doc, o, "kv_bytes", memory->kv_bytes);
    yyjson_mut_obj_add_uint(doc, o, "compute_bytes", memory->compute_bytes);
    yyjson_mut_obj_add_uint(doc, o, "process_rss", memory->process_rss);
}

static int print_json(const struct view *view)
{
    const char *path = view->options->model.path;
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    int code;

    yyjson_mut_doc_set_root(doc, root);
    rv_output_json_add(doc, root, "path", rv_output_json_text(doc, path, strlen(path)));
    yyjson_mut_obj_add_bool(doc, root, "ok", view->model != NULL);
    if (view->model)
        info_json(doc, yyjson_mut_obj_add_obj(doc, root, "model"), &view->info);
    else
        rv_output_json_add(doc, root, "error", rv_output_json_text(doc, view->err.message, strlen(view->err.message)));
    if (view->model && view->options->load)
        memory_json(doc, yyjson_mut_obj_add_obj(doc, root, "memory"), &view->memory);
    rv_file_facts_json(&view->facts, view->options->tensors, doc, yyjson_mut_obj_add_obj(doc, root, "file"));
    code = rv_output_json(doc, false);
    return view->model ? code : RV_EXIT_FAILURE;
}

static int print_template(const struct view *view)
{
    const char *template = view->model ? ruvllm_model_chat_template(view->model) : NULL;

    if (!view->model)
        return rv_output_failure(&view->err, NULL);
    if (!template) {
        rv_output_error("this model continues text: use 'ruvllm run'", "the model has no chat template");
        return RV_EXIT_FAILURE;
    }
    rv_output_text(stdout, template, strlen(template));
    if (rv_output_is_terminal(stdout))
        putchar('\n');
    return RV_EXIT_OK;
}

/* Opens the model and reads what it says; `view->model` stays NULL, with the reason in `view->err`, if it cannot be. */
static void open_model(struct view *view, bool vocab_only)
{
    struct ruvllm_model_params params = view->options->model.params;

    params.vocab_only = vocab_only;
    params.rope_scaling = (ruvllm_rope_scaling)view->options->model.rope_scaling;
    view->info.struct_size = sizeof(view->info);
    view->memory.struct_size = sizeof(view->memory);
    if (ruvllm_model_open(&view->model, view->options->model.path, &params, &view->err))
        return;
    if (ruvllm_model_info_get(view->model, &view->info, &view->err) ||
        (!vocab_only && ruvllm_memory_stats_get(view->model, &view->memory, &view->err))) {
        ruvllm_model_close(view->model);
        view->model = NULL;
    }
}

/* Without --load the weights stay unread, unless only loading can tell why the model cannot be used. */
static void look(struct view *view)
{
    open_model(view, !view->options->load);
    if (view->model && !*view->info.architecture && !view->options->template) {
        ruvllm_model_close(view->model);
        view->model = NULL;
        open_model(view, false);
    }
}

static int run(int argc, char **argv)
{
    struct info_options options = {0};
    struct view view = {.options = &options};
    struct rv_arguments args;
    int code;

    rv_model_options_init(&options.model);
    if (!rv_options_parse(&rv_cmd_info, &options, argc, argv, &args, &code))
        return code;
    code = rv_model_options_settle(&options.model, &rv_cmd_info, &args);
    if (code == RV_EXIT_OK)
        code = rv_options_finish(&rv_cmd_info, &args);
    if (code)
        return code;
    if (rv_file_facts_init(&view.facts, options.model.path, &view.err))
        return rv_output_failure(&view.err, NULL);
    look(&view);
    code = options.template ? print_template(&view) : options.json ? print_json(&view) : print_human(&view);
    ruvllm_model_close(view.model);
    rv_file_facts_release(&view.facts);
    return code;
}

const struct rv_command rv_cmd_info = {
    .name = "info",
    .arguments = "MODEL",
    .summary = "what is in a model file, also a broken one",
    .about = "Shows a model's architecture, shape, quantisation, tokenizer, context, chat template and memory needs. A "
             "file that is damaged or not supported is shown as far as it can be read, with what is wrong; the exit "
             "code is then 1.",
    .examples = "ruvllm info model.gguf\n"
                "ruvllm info model.gguf --ctx 8192\n"
                "    memory with another context\n"
                "ruvllm info model.gguf --tensors\n"
                "ruvllm info model.gguf --template > chat.jinja\n"
                "ruvllm info model.gguf --json | jq .model.n_params\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
