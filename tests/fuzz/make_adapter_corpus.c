/*
 * Writes the corpus of fuzz_adapter: small adapters of each format, good ones and one for each way to be refused. Run
 * it by hand when a format changes, and commit what it writes:
 *
 *     build/release/tests/fuzz/make_adapter_corpus tests/fuzz/corpus/adapter
 */
#include "model/adapter_gguf.h"
#include "model/adapter_peft.h"
#include "support/gguf_writer.h"
#include "support/paper_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *folder;
static struct paper_model llama, phi3;

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "cannot write '%s'\n", what);
    exit(1);
}

static void save(const char *name, const void *bytes, size_t len, const uint8_t *tail, size_t tail_len)
{
    char path[1024];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    must(file && fwrite(bytes, 1, len, file) == len && fwrite(tail, 1, tail_len, file) == tail_len && fclose(file) == 0,
         path);
}

static char *read_all(const char *path, size_t *len)
{
    static char bytes[1 << 20];
    FILE *file = fopen(path, "rb");

    must(file != NULL, path);
    *len = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    return bytes;
}

/* ---- good ones ----------------------------------------------------------------------------- */

static void save_gguf(const struct paper_model *model, const struct rv_adapter_file *file, const char *name,
                      ruvllm_adapter_format format, uint8_t flags)
{
    char path[1024];
    size_t len;

    (void)snprintf(path, sizeof(path), "%s/%s.made", folder, name);
    must(rv_adapter_file_write(file, &model->base, path, format, NULL) == RUVLLM_OK, path);
    read_all(path, &len);
    save(name, read_all(path, &len), len, &flags, 1);
    (void)remove(path);
}

/* Configuration, tensors, the configuration's length, flags. */
static void save_peft(const struct paper_model *model, const struct rv_adapter_file *file, const char *name,
                      uint8_t flags)
{
    char path[1024], inner[1100], whole[1 << 16];
    size_t len, split = 0;
    uint8_t tail[3];

    (void)snprintf(path, sizeof(path), "%s/%s.made", folder, name);
    must(rv_adapter_file_write(file, &model->base, path, RUVLLM_ADAPTER_PEFT, NULL) == RUVLLM_OK, path);
    (void)snprintf(inner, sizeof(inner), "%s/adapter_config.json", path);
    memcpy(whole, read_all(inner, &split), split);
    (void)remove(inner);
    (void)snprintf(inner, sizeof(inner), "%s/adapter_model.safetensors", path);
    read_all(inner, &len);
    must(split + len <= sizeof(whole), path);
    memcpy(whole + split, read_all(inner, &len), len);
    (void)remove(inner);
    (void)rmdir(path);
    tail[0] = (uint8_t)split;
    tail[1] = (uint8_t)(split >> 8);
    tail[2] = flags;
    save(name, whole, split + len, tail, sizeof(tail));
}

static void save_good(void)
{
    struct paper_adapter tiny = {.seed = 1, .rank = 1, .scale = 2.0f, .differing = true, .type = GGML_TYPE_F16};
    struct paper_adapter mixed = {.seed = 2,
                                  .rank = 2,
                                  .head_rank = 1,
                                  .scale = 0.5f,
                                  .scale_step = 0.1f,
                                  .differing = true,
                                  .type = GGML_TYPE_F16};
    struct paper_adapter head = {.seed = 3, .head_rank = 2, .scale = 1.0f, .type = GGML_TYPE_BF16};
    struct rv_adapter_file *file = paper_adapter_new(&llama, &tiny), *again;
    char path[1024];

    save_gguf(&llama, file, "lora", RUVLLM_ADAPTER_GGUF, 0);
    save_peft(&llama, file, "peft", 1);
    (void)snprintf(path, sizeof(path), "%s/made", folder);
    must(rv_adapter_file_write(file, &llama.base, path, RUVLLM_ADAPTER_PEFT, NULL) == RUVLLM_OK, path);
    must(rv_adapter_file_open(&again, path, &llama.base, NULL) == RUVLLM_OK, path);
    save_gguf(&llama, again, "own_from_peft", RUVLLM_ADAPTER_OWN, 0);
    rv_adapter_file_close(again);
    (void)snprintf(path, sizeof(path), "%s/made/adapter_config.json", folder);
    (void)remove(path);
    (void)snprintf(path, sizeof(path), "%s/made/adapter_model.safetensors", folder);
    (void)remove(path);
    (void)snprintf(path, sizeof(path), "%s/made", folder);
    (void)rmdir(path);
    rv_adapter_file_close(file);
    file = paper_adapter_new(&llama, &mixed);
    save_gguf(&llama, file, "own", RUVLLM_ADAPTER_OWN, 0);
    save_gguf(&llama, file, "wrong_base", RUVLLM_ADAPTER_OWN, 2);
    rv_adapter_file_close(file);
    file = paper_adapter_new(&llama, &head);
    save_gguf(&llama, file, "own_head", RUVLLM_ADAPTER_OWN, 0);
    rv_adapter_file_close(file);
    tiny.scale_step = 0.25f;
    file = paper_adapter_new(&phi3, &tiny);
    save_gguf(&phi3, file, "lora_phi3", RUVLLM_ADAPTER_GGUF, 2);
    save_peft(&phi3, file, "peft_phi3", 3);
    rv_adapter_file_close(file);
}

/* ---- hostile ones -------------------------------------------------------------------------- */

static void begin(struct gguf_writer *w)
{
    gguf_writer_init(w);
    gguf_writer_str(w, "general.type", "adapter");
    gguf_writer_str(w, "general.architecture", "llama");
    gguf_writer_str(w, "adapter.type", "lora");
    gguf_writer_f32(w, "adapter.lora.alpha", 4.0f);
}

static void end(struct gguf_writer *w, const char *name)
{
    static const uint8_t flags = 0;
    size_t len;
    char *bytes = gguf_writer_finish(w, &len);

    save(name, bytes, len, &flags, 1);
    free(bytes);
}

static void save_hostile(void)
{
    static const char a[] = "blk.0.attn_q.weight.lora_a", b[] = "blk.0.attn_q.weight.lora_b";
    float numbers[PAPER_EMBD] = {NAN};
    struct gguf_writer w;

    begin(&w);
    gguf_writer_tensor(&w, a, GGML_TYPE_F32, 2, (int64_t[]){PAPER_EMBD, 1}, numbers);
    gguf_writer_tensor(&w, b, GGML_TYPE_F32, 2, (int64_t[]){1, PAPER_EMBD}, NULL);
    end(&w, "nan");
    begin(&w);
    gguf_writer_tensor(&w, a, GGML_TYPE_F16, 2, (int64_t[]){PAPER_EMBD, 33}, NULL);
    gguf_writer_tensor(&w, b, GGML_TYPE_F16, 2, (int64_t[]){33, PAPER_EMBD}, NULL);
    end(&w, "rank_above_width");
    begin(&w);
    gguf_writer_raw_tensor(&w, a, strlen(a), 2, (uint64_t[]){PAPER_EMBD, 0}, GGML_TYPE_F16, 0);
    end(&w, "rank_zero");
    begin(&w);
    gguf_writer_raw_tensor(&w, a, strlen(a), 2, (uint64_t[]){PAPER_EMBD, 1}, GGML_TYPE_F16, 0);
    gguf_writer_raw_tensor(&w, b, strlen(b), 2, (uint64_t[]){1, PAPER_EMBD}, GGML_TYPE_F16, 32);
    gguf_writer_raw_data(&w, numbers, 96);
    end(&w, "overlap");
    begin(&w);
    gguf_writer_tensor(&w, a, GGML_TYPE_Q8_0, 2, (int64_t[]){PAPER_EMBD, 1}, NULL);
    gguf_writer_tensor(&w, b, GGML_TYPE_F16, 2, (int64_t[]){1, PAPER_EMBD}, NULL);
    end(&w, "quantised");
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    paper_model_init(&llama, "llama", 1, false);
    paper_model_init(&phi3, "phi3", 2, false);
    save_good();
    save_hostile();
    paper_model_release(&llama);
    paper_model_release(&phi3);
    return 0;
}
