/* Markdown with a head for machines. Only facts: from the file's metadata, its size and its digest. */
#include "engine/hub_card.h"

#include "engine/hub_name.h"
#include "model/gguf_file.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_SHOWN = 96 };

/* A string of the model's, with everything that could be markup left out; `otherwise` when there is none. */
static void add_plain(struct rv_buf *out, const struct rv_gguf_file *model, const char *key, const char *otherwise)
{
    struct rv_str text = {otherwise, strlen(otherwise)};
    size_t n = 0;

    if (rv_gguf_file_str(model, key, &text, NULL) != RUVLLM_OK || text.len == 0)
        text = (struct rv_str){otherwise, strlen(otherwise)};
    for (size_t i = 0; i < text.len && n < MAX_SHOWN; i++) {
        char c = text.data[i];

        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr(" .-+()", c))) {
            rv_buf_add_char(out, c);
            n++;
        }
    }
}

static bool is_adapter(const struct rv_gguf_file *model)
{
    struct rv_str type;

    return rv_gguf_file_str(model, "general.type", &type, NULL) == RUVLLM_OK && type.len == 7 &&
           memcmp(type.data, "adapter", 7) == 0;
}

void rv_hub_card_write(const struct rv_hub_card *card, struct rv_buf *out)
{
    char quantization[RV_HUB_NAME_QUANT];
    const char *name = strchr(card->repository, '/');

    rv_hub_name_quantization(card->file, quantization);
    rv_buf_add_str(out, "---\ntags:\n- gguf\n- ruvllm\n---\n\n# ");
    add_plain(out, card->model, "general.name", name ? name + 1 : card->repository);
    rv_buf_addf(out, "\n\n%s in GGUF form, uploaded with `ruvllm push`.\n\n| | |\n|---|---|\n",
                is_adapter(card->model) ? "An adapter" : "A language model");
    rv_buf_addf(out, "| file | `%s` |\n| architecture | ", card->file);
    add_plain(out, card->model, "general.architecture", "not stated");
    rv_buf_addf(out, " |\n| quantisation | %s |\n",
                quantization[0] ? quantization : rv_gguf_file_main_type(card->model));
    rv_buf_addf(out, "| size | %" PRIu64 " bytes |\n| SHA-256 | `%s` |\n", card->n_bytes, card->sha256);
    rv_buf_addf(out, "\n## Run it\n\n```\nruvllm pull %s:%s\nruvllm run %s:%s \"Once upon a time\"\n```\n",
                card->repository, card->file, card->repository, card->file);
}
