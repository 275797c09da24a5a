/*
 * Row 25: adapters nobody vouches for. Ranks of 0 and above the matrix, numbers that are none, another base's hash,
 * tensors that overlap, files cut anywhere (SGLang CVE-2026-10300 and CVE-2026-15969 began with less): each is refused
 * with a sentence, reads nothing behind its end, and takes memory in proportion to its size. That one adapter more than
 * there are places queues is the registry's to show.
 */
#include "alloc_meter.h"
#include "base/rng.h"
#include "model/adapter_gguf.h"
#include "model/adapter_peft.h"
#include "support/gguf_writer.h"
#include "support/paper_model.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* In memory of exactly its size, counted. */
static ruvllm_status open_gguf(const char *bytes, size_t len, struct ruvllm_error *err)
{
    char *exact = malloc(len ? len : 1);
    struct rv_adapter_file *file;
    ruvllm_status rc;
    size_t used;

    assert_non_null(exact);
    memcpy(exact, bytes, len);
    alloc_meter_start();
    rc = rv_adapter_gguf_open_memory(&file, exact, len, &paper_llama.base, err);
    used = alloc_meter_stop();
    if (used > 4 * len + (1 << 20))
        fail_msg("%zu bytes were allocated for an adapter of %zu", used, len);
    assert_true((rc == RUVLLM_OK) == (file != NULL));
    rv_adapter_file_close(file);
    free(exact);
    return rc;
}

static void begin(struct gguf_writer *w)
{
    gguf_writer_init(w);
    gguf_writer_str(w, "general.type", "adapter");
    gguf_writer_str(w, "general.architecture", "llama");
    gguf_writer_str(w, "adapter.type", "lora");
    gguf_writer_f32(w, "adapter.lora.alpha", 4.0f);
}

static void refused(struct gguf_writer *w, const char *sentence)
{
    struct ruvllm_error fault = {0};
    size_t len;
    char *bytes = gguf_writer_finish(w, &len);

    assert_fails(open_gguf(bytes, len, &fault), RUVLLM_FORMAT, fault, sentence);
    free(bytes);
}

static const char a_name[] = "blk.0.attn_q.weight.lora_a", b_name[] = "blk.0.attn_q.weight.lora_b";

static void impossible_ranks_are_refused(void **state)
{
    struct gguf_writer w;

    (void)state;
    begin(&w);
    gguf_writer_raw_tensor(&w, a_name, strlen(a_name), 2, (uint64_t[]){PAPER_EMBD, 0}, GGML_TYPE_F32, 0);
    gguf_writer_raw_tensor(&w, b_name, strlen(b_name), 2, (uint64_t[]){0, PAPER_EMBD}, GGML_TYPE_F32, 0);
    refused(&w, a_name);
    begin(&w);
    gguf_writer_tensor(&w, a_name, GGML_TYPE_F32, 2, (int64_t[]){PAPER_EMBD, PAPER_EMBD + 1}, NULL);
    gguf_writer_tensor(&w, b_name, GGML_TYPE_F32, 2, (int64_t[]){PAPER_EMBD + 1, PAPER_EMBD}, NULL);
    refused(&w, "rank 33 is not between 1 and 32");
    begin(&w);
    gguf_writer_tensor(&w, a_name, GGML_TYPE_F32, 2, (int64_t[]){PAPER_EMBD, 1000}, NULL);
    refused(&w, "rank 1000 is more than 256");
    begin(&w);
    gguf_writer_raw_tensor(&w, a_name, strlen(a_name), 2, (uint64_t[]){PAPER_EMBD, UINT64_C(1) << 58}, GGML_TYPE_F32,
                           0);
    refused(&w, a_name);
}

static void numbers_that_are_none_are_refused(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (size_t place = 0; place < 2; place++) {
            float numbers[PAPER_EMBD] = {0};
            struct gguf_writer w;

            numbers[PAPER_EMBD - 1] = bad[i];
            begin(&w);
            gguf_writer_tensor(&w, a_name, GGML_TYPE_F32, 2, (int64_t[]){PAPER_EMBD, 1}, place ? NULL : numbers);
            gguf_writer_tensor(&w, b_name, GGML_TYPE_F32, 2, (int64_t[]){1, PAPER_EMBD}, place ? numbers : NULL);
            refused(&w, "NaN or infinity");
        }
    }
}

static void overlapping_tensors_are_refused(void **state)
{
    static const char zeros[512];
    struct gguf_writer w;

    (void)state;
    begin(&w);
    gguf_writer_raw_tensor(&w, a_name, strlen(a_name), 2, (uint64_t[]){PAPER_EMBD, 1}, GGML_TYPE_F32, 0);
    gguf_writer_raw_tensor(&w, b_name, strlen(b_name), 2, (uint64_t[]){1, PAPER_EMBD}, GGML_TYPE_F32, 64);
    gguf_writer_raw_data(&w, zeros, 192);
    refused(&w, "overlap");
    begin(&w);
    gguf_writer_raw_tensor(&w, a_name, strlen(a_name), 2, (uint64_t[]){PAPER_EMBD, 1}, GGML_TYPE_F32, 0);
    gguf_writer_raw_tensor(&w, b_name, strlen(b_name), 2, (uint64_t[]){1, PAPER_EMBD}, GGML_TYPE_F32, 1 << 20);
    gguf_writer_raw_data(&w, zeros, 256);
    refused(&w, b_name);
}

/* A file of ours with everything in it. */
static char *own_file(size_t *len)
{
    struct paper_adapter wanted = {.seed = 2,
                                   .rank = 2,
                                   .head_rank = 1,
                                   .scale = 0.5f,
                                   .scale_step = 0.1f,
                                   .differing = true,
                                   .type = GGML_TYPE_F16};
    struct rv_adapter_file *file = paper_adapter_new(&paper_llama, &wanted);
    const char *path = test_temp_path(".gguf");

    assert_ok(rv_adapter_file_write(file, &paper_llama.base, path, RUVLLM_ADAPTER_OWN, err));
    rv_adapter_file_close(file);
    return test_read_file(path, len);
}

static void another_bases_hash_is_refused(void **state)
{
    struct ruvllm_error fault = {0};
    struct rv_adapter_file *file;
    struct paper_model other;
    size_t len;
    char *bytes = own_file(&len);

    (void)state;
    paper_model_init(&other, "llama", 77, false);
    assert_fails(rv_adapter_gguf_open_memory(&file, bytes, len, &other.base, &fault), RUVLLM_FORMAT, fault,
                 "another base model");
    assert_null(file);
    paper_model_release(&other);
    free(bytes);
}

static void files_cut_anywhere_are_refused(void **state)
{
    size_t len;
    char *bytes = own_file(&len);

    (void)state;
    assert_ok(open_gguf(bytes, len, err));
    for (size_t cut = 0; cut < len; cut++)
        assert_int_not_equal(open_gguf(bytes, cut, NULL), RUVLLM_OK);
    free(bytes);
}

/* The hash covers what the numbers are; names, shapes and scales are covered by it too. */
static void no_changed_byte_changes_the_adapter_unseen(void **state)
{
    struct rv_adapter_file *file;
    struct rv_rng rng;
    size_t len, n_good = 0;
    char *bytes = own_file(&len), hash[RV_SHA256_HEX_LEN + 1];

    (void)state;
    assert_ok(rv_adapter_gguf_open_memory(&file, bytes, len, &paper_llama.base, err));
    memcpy(hash, file->hash, sizeof(hash));
    rv_adapter_file_close(file);
    rv_rng_init(&rng, 4);
    for (int i = 0; i < 3000; i++) {
        size_t at = rv_rng_below(&rng, len);
        char old = bytes[at];

        bytes[at] = (char)(old ^ (char)(1 << rv_rng_below(&rng, 8)));
        if (rv_adapter_gguf_open_memory(&file, bytes, len, &paper_llama.base, NULL) == RUVLLM_OK) {
            assert_string_equal(file->hash, hash); // padding, or a key nobody reads
            n_good++;
        }
        rv_adapter_file_close(file);
        bytes[at] = old;
    }
    assert_true(n_good < 1500);
    free(bytes);
}

/* ---- PEFT ---------------------------------------------------------------------------------- */

static ruvllm_status open_peft(const char *config, const char *header, size_t n_data, struct ruvllm_error *err)
{
    struct rv_adapter_file *file;
    uint64_t header_len = strlen(header);
    char *bytes = calloc(1, 8 + header_len + n_data + 1);
    ruvllm_status rc;
    size_t used;

    assert_non_null(bytes);
    memcpy(bytes, &header_len, 8);
    memcpy(bytes + 8, header, header_len);
    alloc_meter_start();
    rc = rv_adapter_peft_open_memory(&file, (struct rv_str){config, strlen(config)},
                                     (struct rv_str){bytes, 8 + header_len + n_data}, &paper_llama.base, err);
    used = alloc_meter_stop();
    if (used > 64 * (8 + header_len + n_data + strlen(config)) + (1 << 20))
        fail_msg("%zu bytes were allocated for a folder of %zu", used, (size_t)(8 + header_len + n_data));
    rv_adapter_file_close(file);
    free(bytes);
    return rc;
}

static void hostile_peft_folders_are_refused(void **state)
{
#define A "\"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight\":{\"dtype\":\"F32\","
#define B "\"base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight\":{\"dtype\":\"F32\","
    static const char good[] = "{\"peft_type\":\"LORA\",\"r\":1,\"lora_alpha\":2}";
    static const struct {
        const char *header;
        size_t n_data;
        const char *sentence;
    } cases[] = {
        {"{" A "\"shape\":[0,32],\"data_offsets\":[0,0]}," B "\"shape\":[32,0],\"data_offsets\":[0,0]}}", 0,
         "no elements"},
        {"{" A "\"shape\":[33,32],\"data_offsets\":[0,4224]}," B "\"shape\":[32,33],\"data_offsets\":[4224,8448]}}",
         8448, "rank 33 where the configuration says 1"},
        {"{" A "\"shape\":[1,32],\"data_offsets\":[0,128]}," B "\"shape\":[32,1],\"data_offsets\":[64,192]}}", 192,
         "overlap"},
        {"{" A "\"shape\":[1,32],\"data_offsets\":[0,128]}," B "\"shape\":[32,1],\"data_offsets\":[128,256]}}", 200,
         "outside the file"},
        {"{" A "\"shape\":[4611686018427387904,32],\"data_offsets\":[0,0]}}", 0, "tensor"},
        {"{" A "\"shape\":[1,32],\"data_offsets\":[0,128]}," A "\"shape\":[1,32],\"data_offsets\":[128,256]}}", 256,
         "twice"},
        {"{" A "\"shape\":[1,32],\"data_offsets\":[0,128]},"
         "\"base_model.model.layers.0.self_attn.q_proj.lora_A.weight\":{\"dtype\":\"F32\",\"shape\":[1,32],"
         "\"data_offsets\":[128,256]}}",
         256, "another tensor changes the same matrix"},
    };
    struct ruvllm_error fault = {0};

    (void)state;
    assert_ok(open_peft(
        good, "{" A "\"shape\":[1,32],\"data_offsets\":[0,128]}," B "\"shape\":[32,1],\"data_offsets\":[128,256]}}",
        256, err));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ruvllm_status rc = open_peft(good, cases[i].header, cases[i].n_data, &fault);

        assert_true(rc == RUVLLM_FORMAT || rc == RUVLLM_UNSUPPORTED);
        if (!strstr(fault.message, cases[i].sentence))
            fail_msg("message '%s' lacks '%s'", fault.message, cases[i].sentence);
    }
#undef A
#undef B
}

/* A pickle beside is never opened, and a folder's names lead nowhere else. */
static void folders_without_safetensors_are_refused(void **state)
{
    struct ruvllm_error fault = {0};
    struct rv_adapter_file *file;
    char path[128], name[256];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s", test_temp_path(".peft"));
    assert_int_equal(mkdir(path, 0777), 0);
    assert_fails(rv_adapter_file_open(&file, path, &paper_llama.base, &fault), RUVLLM_NOT_FOUND, fault,
                 "adapter_config.json");
    (void)snprintf(name, sizeof(name), "%s/adapter_config.json", path);
    test_write_file(name, "{}", 2);
    assert_fails(rv_adapter_file_open(&file, path, &paper_llama.base, &fault), RUVLLM_NOT_FOUND, fault,
                 "adapter_model.safetensors");
    (void)snprintf(name, sizeof(name), "%s/adapter_model.bin", path);
    test_write_file(name, "x", 1);
    assert_fails(rv_adapter_file_open(&file, path, &paper_llama.base, &fault), RUVLLM_UNSUPPORTED, fault,
                 "could run code");
    assert_int_equal(unlink(name), 0);
    (void)snprintf(name, sizeof(name), "%s/adapter_config.json", path);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(rmdir(path), 0);
    assert_fails(rv_adapter_file_open(&file, path, &paper_llama.base, &fault), RUVLLM_NOT_FOUND, fault, path);
    assert_fails(rv_adapter_file_open(&file, "/dev/null", &paper_llama.base, &fault), RUVLLM_INVALID, fault, "regular");
}

/* ---- memory that runs out ------------------------------------------------------------------ */

static void memory_that_runs_out_is_an_error(void **state)
{
    size_t len, n_failed = 0;
    char *bytes = own_file(&len);

    (void)state;
    for (size_t nth = 1; alloc_meter_works(); nth++) {
        struct rv_adapter_file *file;
        struct rv_adapter *adapter = NULL;
        ruvllm_status rc;

        alloc_meter_fail_at(nth);
        rc = rv_adapter_gguf_open_memory(&file, bytes, len, &paper_llama.base, NULL);
        if (!rc)
            rc = rv_adapter_file_adapter(file, &paper_llama.base, &adapter, NULL);
        if (!alloc_meter_failed()) {
            assert_int_equal(rc, RUVLLM_OK);
            rv_adapter_unref(adapter);
            rv_adapter_file_close(file);
            break;
        }
        assert_int_equal(rc, RUVLLM_NO_MEMORY);
        assert_null(adapter);
        rv_adapter_file_close(file);
        n_failed++;
    }
    assert_true(!alloc_meter_works() || n_failed > 10);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_ranks_are_refused),
        cmocka_unit_test(numbers_that_are_none_are_refused),
        cmocka_unit_test(overlapping_tensors_are_refused),
        cmocka_unit_test(another_bases_hash_is_refused),
        cmocka_unit_test(files_cut_anywhere_are_refused),
        cmocka_unit_test(no_changed_byte_changes_the_adapter_unseen),
        cmocka_unit_test(hostile_peft_folders_are_refused),
        cmocka_unit_test(folders_without_safetensors_are_refused),
        cmocka_unit_test(memory_that_runs_out_is_an_error),
    };

    return cmocka_run_group_tests(tests, paper_model_setup, paper_model_teardown);
}
