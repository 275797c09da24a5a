/* Tables are filled token by token, so that ids are what the comments say. */
#include "support/tiny_vocab.h"

#include "text/spelling.h"

#include <stdio.h>
#include <string.h>

static struct rv_str str(const char *text)
{
    return (struct rv_str){.data = text, .len = strlen(text)};
}

static void start(struct tiny_vocab *tiny, const char *model, const char *pre)
{
    memset(tiny, 0, sizeof(*tiny));
    tiny->spec = (struct rv_vocab_spec){
        .model = str(model),
        .pre = str(pre),
        .tokens = tiny->tokens,
        .scores = tiny->scores,
        .types = tiny->types,
        .merges = tiny->merges,
        .bos = -1,
        .eos = -1,
        .eot = -1,
        .eom = -1,
        .unk = -1,
        .pad = -1,
        .sep = -1,
        .add_bos = RV_UNSET,
        .add_eos = RV_UNSET,
        .add_space_prefix = RV_UNSET,
    };
}

int32_t tiny_vocab_add(struct tiny_vocab *tiny, const char *text, enum rv_token_type type, float score)
{
    size_t id = tiny->spec.n_tokens++;

    tiny->tokens[id] = str(text);
    tiny->types[id] = (int32_t)type;
    tiny->scores[id] = score;
    return (int32_t)id;
}

void tiny_vocab_add_merge(struct tiny_vocab *tiny, const char *merge)
{
    tiny->merges[tiny->spec.n_merges++] = str(merge);
}

void tiny_vocab_spm(struct tiny_vocab *tiny)
{
    static const char *const words[] = {
        "\xE2\x96\x81",
        "a",
        "b",
        "c",
        "h",
        "e",
        "l",
        "o",
        "<",
        ">",
        "s",
        "he",
        "ll",
        "hell",
        "hello",
        "\xE2\x96\x81hello",
        "\xE2\x96\x81\xE2\x96\x81",
        "ab",
        "bc",
        "s>",
        "<s",
    };

    start(tiny, "llama", "");
    tiny_vocab_add(tiny, "<unk>", RV_TOKEN_UNKNOWN, 0);
    tiny_vocab_add(tiny, "<s>", RV_TOKEN_CONTROL, 0);
    tiny_vocab_add(tiny, "</s>", RV_TOKEN_CONTROL, 0);
    for (int i = 0; i < 256; i++) {
        snprintf(tiny->bytes[i], sizeof(tiny->bytes[i]), "<0x%02X>", (unsigned)i);
        tiny_vocab_add(tiny, tiny->bytes[i], RV_TOKEN_BYTE, 0);
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        tiny_vocab_add(tiny, words[i], RV_TOKEN_NORMAL, -(float)i);
}

void tiny_vocab_bpe(struct tiny_vocab *tiny, const char *pre)
{
    start(tiny, "gpt2", pre);
    for (int i = 0; i < 256; i++) {
        tiny->bytes[i][rv_spelling_byte_utf8((uint8_t)i, tiny->bytes[i])] = '\0';
        tiny_vocab_add(tiny, tiny->bytes[i], RV_TOKEN_NORMAL, 0);
    }
    tiny_vocab_add(tiny, "he", RV_TOKEN_NORMAL, 0);
    tiny_vocab_add(tiny, "ll", RV_TOKEN_NORMAL, 0);
    tiny_vocab_add(tiny, "hell", RV_TOKEN_NORMAL, 0);
    tiny_vocab_add(tiny, "hello", RV_TOKEN_NORMAL, 0);
    tiny_vocab_add(tiny, "<|im_start|>", RV_TOKEN_CONTROL, 0); // 260
    tiny_vocab_add(tiny, "<|im_end|>", RV_TOKEN_CONTROL, 0);
    tiny_vocab_add(tiny, "<tool>", RV_TOKEN_USER_DEFINED, 0);
    tiny_vocab_add_merge(tiny, "h e");
    tiny_vocab_add_merge(tiny, "l l");
    tiny_vocab_add_merge(tiny, "he ll");
    tiny_vocab_add_merge(tiny, "hell o");
    tiny->spec.eos = 261;
}
