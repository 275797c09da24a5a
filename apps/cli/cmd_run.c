/* ruvllm run: one prompt, one answer. */
#include "answer.h"
#include "commands.h"
#include "interrupt.h"
#include "model_options.h"
#include "sampling_options.h"
#include "text_input.h"

#include "base/alloc.h"

#include <string.h>

struct run_options {
    struct rv_model_options model;
    struct rv_sampling_options sampling;
    const char *file;
    const char *system;
    bool chat;
    bool trusted;
    bool json;
    bool stats;
};

static const struct rv_option own_options[] = {
    {.name = "file",
     .short_name = 'f',
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct run_options, file),
     .help = "Read the prompt from a file; - is standard input"},
    {.name = "chat",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct run_options, chat),
     .help = "Put the prompt to the model as a user's message, through its chat template"},
    {.name = "system",
     .value = "TEXT",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct run_options, system),
     .help = "With --chat: the system message"},
    {.name = "special",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct run_options, trusted),
     .help = "Special tokens spelled in the prompt count as such (only for text you wrote)"},
};

static const struct rv_option output_options[] = {
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct run_options, json),
     .help = "Print one JSON object at the end: text, tokens, usage, timings, stop_reason, seed, logprobs"},
    {.name = "stats",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct run_options, stats),
     .help = "Say on standard error how many tokens there were and how fast"},
};

static const struct rv_option_group groups[] = {
    {"Prompt", own_options, RV_OPTION_COUNT(own_options), 0},
    RV_SAMPLING_GROUP(offsetof(struct run_options, sampling)),
    {"Output", output_options, RV_OPTION_COUNT(output_options), 0},
    RV_MODEL_GROUP_FILE(offsetof(struct run_options, model)),
    RV_MODEL_GROUP_ADAPTER(offsetof(struct run_options, model)),
    RV_MODEL_GROUP_COMPUTE(offsetof(struct run_options, model)),
    RV_MODEL_GROUP_THREADS(offsetof(struct run_options, model)),
    RV_MODEL_GROUP_ROPE(offsetof(struct run_options, model)),
};

static int print_json(const struct run_options *options, const ruvllm_model *model,
                      const struct ruvllm_response *response)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc);

    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_strcpy(doc, root, "model", rv_model_options_base_name(options->model.path));
    rv_answer_json(doc, root, model, response);
    return rv_output_json(doc, false);
}

static void print_stats(const struct ruvllm_response *response)
{
    char summary[160];

    rv_answer_summary(response, summary, sizeof(summary));
    fprintf(stderr, "%s[%s · %s · seed %llu]%s\n", rv_output_style(stderr, RV_STYLE_DIM), summary,
            rv_answer_stop_name(response->stop_reason), (unsigned long long)response->seed,
            rv_output_style(stderr, RV_STYLE_RESET));
}

/* Generates and shows; returns the exit code. */
static int answer(const struct run_options *options, ruvllm_model *model, const char *text, size_t len)
{
    struct ruvllm_generate_params params = rv_sampling_options_params(&options->sampling);
    struct ruvllm_message messages[2] = {{"system", options->system}, {"user", text}};
    struct ruvllm_input input = {.struct_size = sizeof(input)};
    struct ruvllm_response *response;
    struct ruvllm_error err = {0};
    int code = RV_EXIT_OK;

    if (options->chat && strlen(text) != len) {
        rv_output_error("a message is text", "the prompt contains a NUL byte");
        return RV_EXIT_FAILURE;
    }
    if (options->chat) {
        input.messages = options->system ? messages : messages + 1;
        input.n_messages = options->system ? 2 : 1;
    } else {
        input.text = text;
        input.text_len = len;
        input.text_is_trusted = options->trusted;
    }
    if (rv_answer_stream(model, &input, &params, !options->json, &response, &err))
        return rv_output_failure(&err, options->chat && !ruvllm_model_chat_template(model)
                                           ? "leave out --chat: this model continues text"
                                           : NULL);
    if (options->json)
        code = print_json(options, model, response);
    if (options->stats)
        print_stats(response);
    if (response->stop_reason == RUVLLM_STOP_CALLBACK)
        code = RV_EXIT_INTERRUPTED;
    ruvllm_response_free(response);
    return code;
}

static int check_usage(const struct run_options *options)
{
    if (options->system && !options->chat) {
        rv_output_error("add --chat", "--system has a meaning only with --chat");
        return RV_EXIT_USAGE;
    }
    if (options->trusted && options->chat) {
        rv_output_error("the template puts the special tokens in", "--special cannot be combined with --chat");
        return RV_EXIT_USAGE;
    }
    return RV_EXIT_OK;
}

static int run_prompt(struct run_options *options, const char *prompt)
{
    struct ruvllm_error err = {0};
    struct ruvllm_model_info info;
    ruvllm_model *model;
    char *text;
    size_t len;
    int code;

    if (rv_text_input_get(prompt, options->file, &text, &len, &err)) {
        code = rv_output_failure(&err, "the prompt is the second argument, or -f FILE, or standard input");
        return err.status == RUVLLM_INVALID ? RV_EXIT_USAGE : code;
    }
    code = rv_model_options_open(&options->model, &model, &info);
    if (code == RV_EXIT_OK)
        code = rv_sampling_options_check(&options->sampling, model);
    if (code == RV_EXIT_OK)
        code = answer(options, model, text, len);
    ruvllm_model_close(model);
    rv_free(text);
    return code;
}

static int run(int argc, char **argv)
{
    struct run_options options = {0};
    struct rv_arguments args;
    const char *prompt;
    int code;

    rv_model_options_init(&options.model);
    rv_sampling_options_init(&options.sampling);
    if (!rv_options_parse(&rv_cmd_run, &options, argc, argv, &args, &code))
        return code;
    code = rv_model_options_settle(&options.model, &rv_cmd_run, &args);
    if (code)
        return code;
    prompt = rv_options_shift(&args);
    code = rv_options_finish(&rv_cmd_run, &args);
    if (code == RV_EXIT_OK)
        code = check_usage(&options);
    if (code)
        return code;
    rv_interrupt_catch(RV_INTERRUPT_ONCE);
    code = rv_sampling_options_settle(&options.sampling);
    if (code == RV_EXIT_OK)
        code = run_prompt(&options, prompt);
    rv_sampling_options_release(&options.sampling);
    return code;
}

const struct rv_command rv_cmd_run = {
    .name = "run",
    .arguments = "MODEL [PROMPT]",
    .summary = "answer one prompt, or continue a text",
    .about = "Writes the model's answer to PROMPT as it comes. Without PROMPT the text comes from -f FILE or from "
             "standard input. By default the model continues the text; with --chat the text is a message to it. "
             "Ctrl-C ends the answer.",
    .examples = "ruvllm run model.gguf \"Once upon a time\"\n"
                "    continue a text\n"
                "ruvllm run model.gguf --chat \"Name three rivers\" --max-tokens 64\n"
                "    ask a question\n"
                "ruvllm run model.gguf -f letter.txt --temp 0 --stop \"The end\"\n"
                "    the likeliest continuation of a file, up to a phrase\n"
                "ruvllm run model.gguf --chat \"Invent a person\" --json-schema person.json\n"
                "    JSON that a program can rely on\n"
                "ruvllm run model.gguf \"Hello\" --seed 1 --json --logprobs 3\n"
                "    everything about an answer, for programs\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
