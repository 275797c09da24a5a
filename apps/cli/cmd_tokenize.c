/* ruvllm tokenize: text to token ids and back. Reads the vocabulary only, never the weights. */
#include "commands.h"
#include "model_options.h"
#include "output.h"
#include "text_input.h"
#include "token_piece.h"

#include "base/alloc.h"

#include <string.h>

struct tokenize_options {
    struct rv_model_options model;
    const char *file;
    bool ids;
    bool decode;
    bool special;
    bool no_bos;
    bool chat;
    bool json;
};

static const struct rv_option own_options[] = {
    {.name = "file",
     .short_name = 'f',
     .value = "FILE",
     .type = RV_OPTION_STRING,
     .offset = offsetof(struct tokenize_options, file),
     .help = "Read the text (or the ids) from a file; - is standard input"},
    {.name = "decode",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct tokenize_options, decode),
     .help = "The other way: TEXT holds token ids, separated by blanks or commas; print their text"},
    {.name = "special",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct tokenize_options, special),
     .help = "Special tokens spelled in the text count as such; with --decode: spell them out"},
    {.name = "no-bos",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct tokenize_options, no_bos),
     .help = "Leave out the begin-of-text token"},
    {.name = "chat",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct tokenize_options, chat),
     .help = "The text as a user's message, as the chat template renders it"},
};

static const struct rv_option output_options[] = {
    {.name = "ids",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct tokenize_options, ids),
     .help = "Print only the ids, on one line"},
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct tokenize_options, json),
     .help = "Print a JSON object"},
};

static const struct rv_option_group groups[] = {
    {"Text", own_options, RV_OPTION_COUNT(own_options), 0},
    {"Output", output_options, RV_OPTION_COUNT(output_options), 0},
    RV_MODEL_GROUP_FILE(offsetof(struct tokenize_options, model)),
};

static int print_tokens(const struct tokenize_options *options, const ruvllm_model *model, const int32_t *tokens,
                        size_t n)
{
    struct ruvllm_error err = {0};
    char *piece;
    size_t len;

    for (size_t i = 0; i < n; i++) {
        if (options->ids) {
            printf("%s%d", i ? " " : "", tokens[i]);
            continue;
        }
        if (rv_token_piece(model, tokens[i], &piece, &len, &err))
            return rv_output_failure(&err, NULL);
        printf("%s%8d%s  '", rv_output_style(stdout, RV_STYLE_CYAN), tokens[i],
               rv_output_style(stdout, RV_STYLE_RESET));
        rv_output_field(stdout, piece, len);
        puts("'");
        ruvllm_free(piece);
    }
    if (options->ids)
        putchar('\n');
    else if (rv_output_is_terminal(stdout))
        printf("%s%zu tokens%s\n", rv_output_style(stdout, RV_STYLE_DIM), n, rv_output_style(stdout, RV_STYLE_RESET));
    return RV_EXIT_OK;
}

static int print_tokens_json(const struct tokenize_options *options, const ruvllm_model *model, const int32_t *tokens,
                             size_t n)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc), *ids, *pieces;

    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_uint(doc, root, "n_tokens", n);
    ids = yyjson_mut_obj_add_arr(doc, root, "ids");
    for (size_t i = 0; i < n; i++)
        yyjson_mut_arr_add_int(doc, ids, tokens[i]);
    if (!options->ids) {
        pieces = yyjson_mut_obj_add_arr(doc, root, "pieces");
        for (size_t i = 0; i < n; i++) {
            yyjson_mut_val *piece = yyjson_mut_arr_add_obj(doc, pieces);

            yyjson_mut_obj_add_int(doc, piece, "id", tokens[i]);
            rv_token_piece_json(doc, piece, model, tokens[i]);
        }
    }
    return rv_output_json(doc, false);
}

static int encode(const struct tokenize_options *options, const ruvllm_model *model, const char *text, size_t len)
{
    struct ruvllm_message message = {"user", text};
    struct ruvllm_input input = {.struct_size = sizeof(input)};
    struct ruvllm_error err = {0};
    int32_t *tokens;
    size_t n;
    int code;

    if (options->chat) {
        input.messages = &message;
        input.n_messages = 1;
    } else {
        input.text = text;
        input.text_len = len;
        input.text_is_trusted = options->special;
        input.no_bos = options->no_bos;
    }
    if (ruvllm_tokenize(model, &input, &tokens, &n, &err))
        return rv_output_failure(&err, NULL);
    code = options->json ? print_tokens_json(options, model, tokens, n) : print_tokens(options, model, tokens, n);
    ruvllm_free(tokens);
    return code;
}

/* Ids separated by blanks, commas or brackets, so that what --ids and --json print can be given back. */
static ruvllm_status parse_ids(char *text, int32_t n_vocab, int32_t **ids, size_t *n, struct ruvllm_error *err)
{
    static const char between[] = " \t\r\n,[]";
    size_t cap = 0;

    *ids = NULL;
    *n = 0;
    for (char *word = text + strspn(text, between); *word;) {
        size_t len = strcspn(word, between);
        bool is_last = word[len] == '\0';
        int64_t id;

        word[len] = '\0';
        if (!rv_options_int(word, 0, INT32_MAX, &id))
            return rv_fail(err, RUVLLM_INVALID, "'%.32s' is not a token id", word);
        if (id >= n_vocab)
            return rv_fail(err, RUVLLM_INVALID, "token %s is beyond the vocabulary of %d", word, n_vocab);
        if (*n == cap) {
            int32_t *grown = rv_realloc_array(*ids, cap ? cap * 2 : 64, sizeof(**ids));

            if (!grown)
                return rv_fail(err, RUVLLM_NO_MEMORY, "cannot hold the ids");
            *ids = grown;
            cap = cap ? cap * 2 : 64;
        }
        (*ids)[(*n)++] = (int32_t)id;
        word += len + !is_last;
        word += strspn(word, between);
    }
    return RUVLLM_OK;
}

static int decode(const struct tokenize_options *options, const ruvllm_model *model, int32_t n_vocab, char *ids_text)
{
    struct ruvllm_error err = {0};
    char *text = NULL;
    int32_t *ids;
    size_t n, len;
    int code = RV_EXIT_OK;

    if (parse_ids(ids_text, n_vocab, &ids, &n, &err)) {
        code = rv_output_failure(&err, "give ids such as 1 403 407; 'ruvllm tokenize MODEL TEXT --ids' prints them");
        goto out;
    }
    if (ruvllm_detokenize(model, ids, n, options->special, &text, &len, &err)) {
        code = rv_output_failure(&err, NULL);
        goto out;
    }
    if (options->json) {
        yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
        yyjson_mut_val *root = yyjson_mut_obj(doc);

        yyjson_mut_doc_set_root(doc, root);
        yyjson_mut_obj_add_uint(doc, root, "n_tokens", n);
        rv_output_json_add(doc, root, "text", rv_output_json_text(doc, text, len));
        code = rv_output_json(doc, false);
    } else {
        rv_output_text(stdout, text, len);
        putchar('\n');
    }
out:
    ruvllm_free(text);
    rv_free(ids);
    return code;
}

static int check_usage(const struct tokenize_options *options)
{
    if (options->chat && (options->special || options->no_bos || options->decode)) {
        rv_output_error("the template decides about special tokens",
                        "--chat cannot be combined with --special, --no-bos or --decode");
        return RV_EXIT_USAGE;
    }
    return RV_EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct tokenize_options options = {0};
    struct rv_arguments args;
    struct ruvllm_error err = {0};
    struct ruvllm_model_info info;
    const char *argument;
    ruvllm_model *model;
    char *text;
    size_t len;
    int code;

    rv_model_options_init(&options.model);
    options.model.params.vocab_only = true;
    if (!rv_options_parse(&rv_cmd_tokenize, &options, argc, argv, &args, &code))
        return code;
    code = rv_model_options_settle(&options.model, &rv_cmd_tokenize, &args);
    if (code)
        return code;
    argument = rv_options_shift(&args);
    code = rv_options_finish(&rv_cmd_tokenize, &args);
    if (code == RV_EXIT_OK)
        code = check_usage(&options);
    if (code)
        return code;
    if (rv_text_input_get(argument, options.file, &text, &len, &err)) {
        code = rv_output_failure(&err, "the text is the second argument, or -f FILE, or standard input");
        return err.status == RUVLLM_INVALID ? RV_EXIT_USAGE : code;
    }
    code = rv_model_options_open(&options.model, &model, &info);
    if (code == RV_EXIT_OK)
        code = options.decode ? decode(&options, model, info.n_vocab, text) : encode(&options, model, text, len);
    ruvllm_model_close(model);
    rv_free(text);
    return code;
}

const struct rv_command rv_cmd_tokenize = {
    .name = "tokenize",
    .arguments = "MODEL [TEXT]",
    .summary = "text to token ids, and back",
    .about = "Shows how the model's tokenizer cuts TEXT into tokens. Without TEXT it comes from -f FILE or from "
             "standard input. The weights are not read.",
    .examples = "ruvllm tokenize model.gguf \"Hello, world\"\n"
                "    each token with its text\n"
                "ruvllm tokenize model.gguf -f book.txt --ids | wc -w\n"
                "    how many tokens a file has\n"
                "ruvllm tokenize model.gguf --decode \"1 403 407\"\n"
                "    the text of ids\n"
                "ruvllm tokenize model.gguf --chat \"Hi\"\n"
                "    what the model really gets to see in a chat\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
