/*
 * PEFT folders, which the suite writes byte by byte itself, against what comes back; the order of rows against the one
 * formula that defines it; configurations against what they ask for.
 */
#include "model/adapter_peft.h"

#include "base/buf.h"
#include "kernels/half.h"
#include "support/paper_model.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder's two files in memory. */
struct peft {
    struct rv_buf config;
    struct rv_buf header;
    struct rv_buf data;
    struct rv_buf whole;
};

static void peft_init(struct peft *p, const char *config)
{
    rv_buf_init(&p->config, 1 << 20);
    rv_buf_init(&p->header, 1 << 20);
    rv_buf_init(&p->data, 1 << 20);
    rv_buf_init(&p->whole, 1 << 21);
    rv_buf_add_str(&p->config, config);
    rv_buf_add_str(&p->header, "{ \"__metadata__\" : {\"format\":\"pt\"}");
}

/* Random numbers of a type, `size` bytes each. */
static void peft_tensor(struct peft *p, const char *name, const char *dtype, size_t rows, size_t columns, uint64_t seed)
{
    size_t size = strcmp(dtype, "F32") == 0 ? 4 : 2;

    rv_buf_addf(&p->header, ",\n \"%s\":{\"shape\":[%zu,%zu],\"dtype\":\"%s\",\"data_offsets\":[%zu, %zu]}", name, rows,
                columns, dtype, p->data.len, p->data.len + rows * columns * size);
    for (size_t i = 0; i < rows * columns; i++) {
        uint32_t bits = rv_half_float_bits((float)((seed = seed * 69069 + 1) % 2048) / 1024 - 1);
        uint16_t half =
            strcmp(dtype, "F16") == 0 ? rv_half_from_float(rv_half_bits_float(bits)) : (uint16_t)(bits >> 16);

        rv_buf_add(&p->data, size == 4 ? (void *)&bits : (void *)&half, size);
    }
}

static void peft_pair(struct peft *p, const char *module, const char *dtype, size_t n_in, size_t n_out, size_t rank)
{
    char name[128];

    (void)snprintf(name, sizeof(name), "base_model.model.model.layers.%s.lora_B.weight", module);
    peft_tensor(p, name, dtype, n_out, rank, strlen(module) + n_out);
    (void)snprintf(name, sizeof(name), "base_model.model.model.layers.%s.lora_A.weight", module);
    peft_tensor(p, name, dtype, rank, n_in, strlen(module) + n_in);
}

/* A header of odd length, so that nothing is aligned by luck. */
static void peft_finish(struct peft *p)
{
    uint64_t len;

    rv_buf_add_str(&p->header, p->header.len % 2 ? " }  " : " } ");
    len = p->header.len;
    rv_buf_add(&p->whole, &len, sizeof(len));
    rv_buf_add(&p->whole, p->header.data, p->header.len);
    if (p->data.len)
        rv_buf_add(&p->whole, p->data.data, p->data.len);
    assert_int_equal(p->whole.failed, RUVLLM_OK);
}

static ruvllm_status peft_open(struct peft *p, const struct paper_model *model, struct rv_adapter_file **out,
                               struct ruvllm_error *err)
{
    return rv_adapter_peft_open_memory(out, (struct rv_str){p->config.data, p->config.len},
                                       (struct rv_str){p->whole.data, p->whole.len}, &model->base, err);
}

static void peft_release(struct peft *p)
{
    rv_buf_release(&p->config);
    rv_buf_release(&p->header);
    rv_buf_release(&p->data);
    rv_buf_release(&p->whole);
}

static void make_folder(const struct peft *p, char path[256])
{
    char name[300];

    (void)snprintf(path, 256, "%s", test_temp_path(".peft"));
    assert_int_equal(mkdir(path, 0777), 0);
    (void)snprintf(name, sizeof(name), "%s/adapter_config.json", path);
    test_write_file(name, p->config.data, p->config.len);
    (void)snprintf(name, sizeof(name), "%s/adapter_model.safetensors", path);
    test_write_file(name, p->whole.data, p->whole.len);
}

static void assert_file(const char *folder, const char *name, const struct rv_buf *wanted)
{
    char path[300], *bytes;
    size_t len;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    bytes = test_read_file(path, &len);
    assert_int_equal(len, wanted->len);
    assert_memory_equal(bytes, wanted->data, len);
    free(bytes);
}

static void remove_folder(const char *folder)
{
    char path[300];

    (void)snprintf(path, sizeof(path), "%s/adapter_config.json", folder);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof(path), "%s/adapter_model.safetensors", folder);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static const char *const config_of_all = "{\"peft_type\": \"LORA\",   \"r\": 3, \"lora_alpha\": 6.5,\n"
                                         "\"fan_in_fan_out\": true, \"bias\": \"none\", \"modules_to_save\": null,"
                                         "\"init_lora_weights\": \"gaussian\", \"lora_dropout\": 0.05 }\n\n";

static void all_modules(struct peft *p)
{
    size_t n_q = PAPER_HEADS * PAPER_HEAD_DIM, n_kv = PAPER_KV_HEADS * PAPER_HEAD_DIM;

    peft_pair(p, "1.mlp.down_proj", "F32", PAPER_FF, PAPER_EMBD, 3);
    peft_pair(p, "0.self_attn.k_proj", "BF16", PAPER_EMBD, n_kv, 3);
    peft_pair(p, "0.self_attn.q_proj", "F16", PAPER_EMBD, n_q, 3);
    peft_pair(p, "1.self_attn.q_proj", "F32", PAPER_EMBD, n_q, 3);
    peft_pair(p, "1.self_attn.v_proj", "F16", PAPER_EMBD, n_kv, 3);
    peft_pair(p, "1.self_attn.o_proj", "BF16", n_q, PAPER_EMBD, 3);
    peft_pair(p, "0.mlp.gate_proj", "F32", PAPER_EMBD, PAPER_FF, 3);
    peft_pair(p, "0.mlp.up_proj", "F32", PAPER_EMBD, PAPER_FF, 3);
    peft_finish(p);
}

static void peft_folders_come_back_bit_by_bit(void **state)
{
    struct rv_adapter_file *file, *kept;
    char folder[256], again[256], third[256];
    const char *own = test_temp_path(".gguf");
    struct peft p;

    (void)state;
    peft_init(&p, config_of_all);
    all_modules(&p);
    make_folder(&p, folder);
    file = paper_adapter_open(&paper_llama, folder);
    assert_ok(rv_adapter_file_write(file, &paper_llama.base, own, RUVLLM_ADAPTER_OWN, err));
    kept = paper_adapter_open(&paper_llama, own);
    assert_string_equal(kept->hash, file->hash);
    (void)snprintf(again, sizeof(again), "%s", test_temp_path(".peft"));
    assert_ok(rv_adapter_file_write(kept, &paper_llama.base, again, RUVLLM_ADAPTER_PEFT, err));
    assert_file(again, "adapter_config.json", &p.config);
    assert_file(again, "adapter_model.safetensors", &p.whole);
    /* The folder is there already; nothing of it is touched. */
    assert_int_equal(rv_adapter_file_write(kept, &paper_llama.base, again, RUVLLM_ADAPTER_PEFT, NULL), RUVLLM_INVALID);
    assert_file(again, "adapter_model.safetensors", &p.whole);
    /* Straight from folder to folder too. */
    (void)snprintf(third, sizeof(third), "%s", test_temp_path(".peft"));
    assert_ok(rv_adapter_file_write(file, &paper_llama.base, third, RUVLLM_ADAPTER_PEFT, err));
    assert_file(third, "adapter_model.safetensors", &p.whole);
    rv_adapter_file_close(file);
    rv_adapter_file_close(kept);
    remove_folder(folder);
    remove_folder(again);
    remove_folder(third);
    peft_release(&p);
}

/* Row j * half + i of a head in PEFT is row 2 i + j in GGUF, for queries and keys of the llama family alone. */
static void check_order(const struct paper_model *m, const char *module, enum rv_part part, size_t n_heads, bool turned)
{
    size_t half = PAPER_HEAD_DIM / 2;
    struct rv_adapter_file *file;
    const float *b;
    struct peft p;

    peft_init(&p, config_of_all);
    peft_pair(&p, module, "F32", PAPER_EMBD, n_heads * PAPER_HEAD_DIM, 3);
    peft_finish(&p);
    assert_ok(peft_open(&p, m, &file, err));
    b = paper_adapter_pair(file, 1, part)->b.data;
    for (size_t head = 0; head < n_heads; head++) {
        for (size_t row = 0; row < PAPER_HEAD_DIM; row++) {
            size_t from = turned ? row % 2 * half + row / 2 : row;

            /* B is the first tensor of the data. */
            assert_memory_equal(b + (head * PAPER_HEAD_DIM + row) * 3,
                                p.data.data + (head * PAPER_HEAD_DIM + from) * 3 * sizeof(float), 3 * sizeof(float));
        }
    }
    assert_true(file->pairs[0].scale == (float)(6.5 / 3));
    rv_adapter_file_close(file);
    peft_release(&p);
}

static void queries_and_keys_change_their_order(void **state)
{
    (void)state;
    check_order(&paper_llama, "1.self_attn.q_proj", RV_PART_Q, PAPER_HEADS, true);
    check_order(&paper_llama, "1.self_attn.k_proj", RV_PART_K, PAPER_KV_HEADS, true);
    check_order(&paper_llama, "1.self_attn.v_proj", RV_PART_V, PAPER_KV_HEADS, false);
    check_order(&paper_qwen2, "1.self_attn.q_proj", RV_PART_Q, PAPER_HEADS, false);
    check_order(&paper_qwen2, "1.self_attn.k_proj", RV_PART_K, PAPER_KV_HEADS, false);
}

/* What never was a PEFT folder becomes one, with patterns for all that differs. */
static void other_adapters_become_peft_folders(void **state)
{
    static const struct paper_model *const models[] = {&paper_llama, &paper_phi3, &paper_qwen2};

    (void)state;
    for (size_t m = 0; m < 3; m++) {
        struct paper_adapter wanted = {
            .seed = m, .rank = 4, .scale = 0.37f, .scale_step = 0.011f, .differing = true, .type = GGML_TYPE_F16};
        struct rv_adapter_file *file = paper_adapter_new(models[m], &wanted), *again;
        char path[256];

        (void)snprintf(path, sizeof(path), "%s", test_temp_path(".peft"));
        assert_ok(rv_adapter_file_write(file, &models[m]->base, path, RUVLLM_ADAPTER_PEFT, err));
        again = paper_adapter_open(models[m], path);
        assert_string_equal(again->hash, file->hash);
        rv_adapter_file_close(again);
        rv_adapter_file_close(file);
        remove_folder(path);
    }
}

static void the_heads_input_is_no_part_of_peft(void **state)
{
    struct paper_adapter wanted = {.seed = 1, .head_rank = 2, .scale = 1.0f, .type = GGML_TYPE_F16};
    struct rv_adapter_file *file = paper_adapter_new(&paper_llama, &wanted);
    struct ruvllm_error fault = {0};

    (void)state;
    assert_string_equal(file->layers_hash, "");
    assert_fails(rv_adapter_file_write(file, &paper_llama.base, test_temp_path(".peft"), RUVLLM_ADAPTER_PEFT, &fault),
                 RUVLLM_UNSUPPORTED, fault, "PEFT has no name for");
    rv_adapter_file_close(file);
}

/* Opens one pair of queries under a configuration; the scale, or what went wrong. */
static ruvllm_status open_config(const char *config, size_t rank, float *scale, struct ruvllm_error *err)
{
    struct rv_adapter_file *file;
    struct peft p;
    ruvllm_status rc;

    peft_init(&p, config);
    peft_pair(&p, "1.self_attn.q_proj", "F32", PAPER_EMBD, PAPER_HEADS * PAPER_HEAD_DIM, rank);
    peft_finish(&p);
    rc = peft_open(&p, &paper_llama, &file, err);
    if (!rc)
        *scale = file->pairs[0].scale;
    else
        assert_null(file);
    rv_adapter_file_close(file);
    peft_release(&p);
    return rc;
}

#define LORA "{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":8"

static void scales_follow_the_configuration(void **state)
{
    float scale = 0;

    (void)state;
    assert_ok(open_config(LORA "}", 4, &scale, err));
    assert_true(scale == 2.0f);
    assert_ok(open_config(LORA ",\"use_rslora\":true}", 4, &scale, err));
    assert_true(scale == 4.0f);
    assert_ok(
        open_config(LORA ",\"alpha_pattern\":{\"k_proj\":1,\"q_proj\":16,\"1.self_attn.q_proj\":3}}", 4, &scale, err));
    assert_true(scale == 4.0f);
    assert_ok(open_config(LORA ",\"alpha_pattern\":{\"^q_proj\":16}}", 4, &scale, err));
    assert_true(scale == 2.0f);
    assert_ok(open_config(LORA ",\"alpha_pattern\":{\"_proj\":16}}", 4, &scale, err));
    assert_true(scale == 2.0f);
    assert_ok(open_config(LORA ",\"alpha_pattern\":{\"^model\\\\.layers.1.self_attn.q_proj\":12}}", 4, &scale, err));
    assert_true(scale == 3.0f);
    assert_ok(open_config(LORA ",\"rank_pattern\":{\"self_attn.q_proj\":2}}", 2, &scale, err));
    assert_true(scale == 4.0f);
}

static void configurations_that_ask_for_more_are_refused(void **state)
{
    static const struct {
        const char *config;
        size_t rank;
        ruvllm_status status;
        const char *text;
    } cases[] = {
        {LORA ",\"use_dora\":true}", 4, RUVLLM_UNSUPPORTED, "DoRA"},
        {LORA ",\"modules_to_save\":[\"lm_head\"]}", 4, RUVLLM_UNSUPPORTED, "whole modules"},
        {LORA ",\"bias\":\"lora_only\"}", 4, RUVLLM_UNSUPPORTED, "biases"},
        {LORA ",\"lora_bias\":true}", 4, RUVLLM_UNSUPPORTED, "biases"},
        {LORA ",\"init_lora_weights\":\"pissa_niter_16\"}", 4, RUVLLM_UNSUPPORTED, "changes the base's weights"},
        {LORA ",\"layer_replication\":[[0,2]]}", 4, RUVLLM_UNSUPPORTED, "repeats layers"},
        {LORA ",\"alora_invocation_tokens\":[1]}", 4, RUVLLM_UNSUPPORTED, "activated"},
        {LORA ",\"alpha_pattern\":{\".*q_proj\":1}}", 4, RUVLLM_UNSUPPORTED, "no plain name"},
        {LORA ",\"alpha_pattern\":[]}", 4, RUVLLM_FORMAT, "alpha_pattern"},
        {LORA ",\"rank_pattern\":{\"q_proj\":0}}", 4, RUVLLM_FORMAT, "a rank"},
        {LORA "}", 3, RUVLLM_FORMAT, "rank 3 where the configuration says 4"},
        {"{\"peft_type\":\"LOHA\",\"r\":4,\"lora_alpha\":8}", 4, RUVLLM_UNSUPPORTED, "peft_type"},
        {"{\"peft_type\":\"LORA\",\"r\":0,\"lora_alpha\":8}", 4, RUVLLM_FORMAT, "a rank"},
        {"{\"peft_type\":\"LORA\",\"r\":4000,\"lora_alpha\":8}", 4, RUVLLM_FORMAT, "a rank"},
        {"{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":\"8\"}", 4, RUVLLM_FORMAT, "an alpha"},
        {"{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":1e40}", 4, RUVLLM_FORMAT, "scale"},
        {"{\"peft_type\":\"LORA\",\"r\":4}", 4, RUVLLM_FORMAT, "an alpha"},
        {"[]", 4, RUVLLM_FORMAT, "adapter_config.json"},
        {"", 4, RUVLLM_FORMAT, "adapter_config.json"},
    };
    struct ruvllm_error fault = {0};
    float scale;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_fails(open_config(cases[i].config, cases[i].rank, &scale, &fault), cases[i].status, fault,
                     cases[i].text);
}

/* One tensor of any name and shape. */
static void assert_refused(const struct paper_model *model, const char *name, size_t rows, size_t columns,
                           ruvllm_status status, const char *text)
{
    struct ruvllm_error fault = {0};
    struct rv_adapter_file *file;
    struct peft p;

    peft_init(&p, LORA "}");
    peft_tensor(&p, name, "F32", rows, columns, 1);
    peft_finish(&p);
    assert_fails(peft_open(&p, model, &file, &fault), status, fault, text);
    assert_null(file);
    peft_release(&p);
}

static void tensors_of_no_matrix_are_refused(void **state)
{
#define PLACE "base_model.model.model.layers.0."
    (void)state;
    assert_refused(&paper_llama, "base_model.model.lm_head.lora_A.weight", 4, 32, RUVLLM_UNSUPPORTED,
                   "changes the head");
    assert_refused(&paper_llama, "base_model.model.model.embed_tokens.lora_embedding_A", 4, 40, RUVLLM_UNSUPPORTED,
                   "changes the embedding");
    assert_refused(&paper_llama, PLACE "self_attn.q_proj.lora_magnitude_vector", 1, 32, RUVLLM_UNSUPPORTED, "DoRA");
    assert_refused(&paper_llama, PLACE "self_attn.q_proj.lora_B.bias", 1, 32, RUVLLM_UNSUPPORTED, "a bias");
    assert_refused(&paper_llama, "base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight", 4, 32, RUVLLM_FORMAT,
                   "another base");
    assert_refused(&paper_llama, PLACE "mlp.experts.lora_A.weight", 4, 32, RUVLLM_FORMAT, "another base");
    assert_refused(&paper_llama, PLACE "self_attn.q_proj.lora_A.weight", 4, 64, RUVLLM_FORMAT, "another base");
    assert_refused(&paper_llama, PLACE "self_attn.q_proj.lora_A.weight", 4, 32, RUVLLM_FORMAT, "its B is missing");
    assert_refused(&paper_llama, PLACE "self_attn.qkv_proj.lora_A.weight", 4, 32, RUVLLM_UNSUPPORTED, "apart here");
    assert_refused(&paper_llama, PLACE "mlp.gate_up_proj.lora_A.weight", 4, 32, RUVLLM_UNSUPPORTED, "in two matrices");
    assert_refused(&paper_phi3, PLACE "self_attn.q_proj.lora_A.weight", 4, 32, RUVLLM_UNSUPPORTED, "in one here");
    assert_refused(&paper_phi3, PLACE "mlp.up_proj.lora_A.weight", 4, 32, RUVLLM_UNSUPPORTED, "in one matrix");
#undef PLACE
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peft_folders_come_back_bit_by_bit),
        cmocka_unit_test(queries_and_keys_change_their_order),
        cmocka_unit_test(other_adapters_become_peft_folders),
        cmocka_unit_test(the_heads_input_is_no_part_of_peft),
        cmocka_unit_test(scales_follow_the_configuration),
        cmocka_unit_test(configurations_that_ask_for_more_are_refused),
        cmocka_unit_test(tensors_of_no_matrix_are_refused),
    };

    return cmocka_run_group_tests(tests, paper_model_setup, paper_model_teardown);
}
