/* Files that are good: what was written is read back, by each getter, and real models agree with ggml's reader. */
#include "base/alloc.h"
#include "model/gguf_file.h"
#include "support/gguf_writer.h"
#include "support/test.h"

#include <float.h>
#include <gguf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char *bytes;
static struct rv_gguf_file *file;
static struct ruvllm_error fault;

static void write_scalars(struct gguf_writer *w)
{
    gguf_writer_u8(w, "u8", 200);
    gguf_writer_i8(w, "i8", -100);
    gguf_writer_u16(w, "u16", 60000);
    gguf_writer_i16(w, "i16", -30000);
    gguf_writer_u32(w, "u32", 4000000000u);
    gguf_writer_i32(w, "i32", -2000000000);
    gguf_writer_i32(w, "i32.positive", 77);
    gguf_writer_u64(w, "u64", UINT64_MAX);
    gguf_writer_u64(w, "u64.small", 12);
    gguf_writer_i64(w, "i64", INT64_MIN);
    gguf_writer_i64(w, "i64.positive", INT64_MAX);
    gguf_writer_f32(w, "f32", 1e-5f);
    gguf_writer_f32(w, "f32.nan", NAN);
    gguf_writer_f32(w, "f32.inf", -INFINITY);
    gguf_writer_f64(w, "f64", 0.25);
    gguf_writer_f64(w, "f64.huge", 1e300);
    gguf_writer_bool(w, "yes", 1);
    gguf_writer_bool(w, "no", 0);
    gguf_writer_str(w, "string", "hello");
    gguf_writer_str(w, "string.empty", "");
    gguf_writer_bytes(w, "string.bytes", "a\0\xff", 3);
}

static void write_arrays(struct gguf_writer *w)
{
    gguf_writer_array(w, "array.u8", RV_GGUF_U8, (uint8_t[]){0, 255}, 2);
    gguf_writer_array(w, "array.i8", RV_GGUF_I8, (int8_t[]){-128, 127}, 2);
    gguf_writer_array(w, "array.u16", RV_GGUF_U16, (uint16_t[]){1, 65535}, 2);
    gguf_writer_array(w, "array.i16", RV_GGUF_I16, (int16_t[]){-32768, 2}, 2);
    gguf_writer_array(w, "array.u32", RV_GGUF_U32, (uint32_t[]){3, INT32_MAX}, 2);
    gguf_writer_array(w, "array.u32.large", RV_GGUF_U32, (uint32_t[]){3, 1u << 31}, 2);
    gguf_writer_array(w, "array.i32", RV_GGUF_I32, (int32_t[]){INT32_MIN, 4, 5}, 3);
    gguf_writer_array(w, "array.u64", RV_GGUF_U64, (uint64_t[]){6, UINT64_MAX}, 2);
    gguf_writer_array(w, "array.i64", RV_GGUF_I64, (int64_t[]){-7, 7}, 2);
    gguf_writer_array(w, "array.i64.low", RV_GGUF_I64, (int64_t[]){-7, (int64_t)INT32_MIN - 1}, 2);
    gguf_writer_array(w, "array.f32", RV_GGUF_F32, (float[]){0.5f, -2.0f}, 2);
    gguf_writer_array(w, "array.f32.nan", RV_GGUF_F32, (float[]){0.5f, NAN}, 2);
    gguf_writer_array(w, "array.f64", RV_GGUF_F64, (double[]){0.125}, 1);
    gguf_writer_array(w, "array.bool", RV_GGUF_BOOL, (uint8_t[]){1, 0, 1}, 3);
    gguf_writer_array(w, "array.empty", RV_GGUF_F32, NULL, 0);
    gguf_writer_array_str(w, "array.string", (const char *const[]){"one", "", "three"}, 3);
    gguf_writer_array_str(w, "array.string.empty", NULL, 0);
}

static int open_sample(void **state)
{
    static const float weights[] = {1, 2, 3, 4, 5, 6};
    struct gguf_writer w;
    size_t len;

    (void)state;
    gguf_writer_init(&w);
    write_scalars(&w);
    write_arrays(&w);
    gguf_writer_tensor(&w, "weights", GGML_TYPE_F32, 2, (int64_t[]){3, 2}, weights);
    gguf_writer_tensor(&w, "blocks", GGML_TYPE_Q4_K, 3, (int64_t[]){512, 2, 3}, NULL);
    gguf_writer_tensor(&w, "scalar", GGML_TYPE_F16, 0, NULL, NULL);
    bytes = gguf_writer_finish(&w, &len);
    return rv_gguf_file_open_memory(&file, bytes, len, &fault) == RUVLLM_OK ? 0 : -1;
}

static int close_sample(void **state)
{
    (void)state;
    rv_gguf_file_close(file);
    free(bytes);
    return 0;
}

static void unsigned_getters_take_any_integer_that_fits(void **state)
{
    static const struct {
        const char *key;
        uint64_t value;
    } good[] = {{"u8", 200},         {"u16", 60000},    {"u32", 4000000000u},       {"i32.positive", 77},
                {"u64", UINT64_MAX}, {"u64.small", 12}, {"i64.positive", INT64_MAX}};
    static const char *const negative[] = {"i8", "i16", "i32", "i64"};
    uint64_t u64;
    uint32_t u32;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_ok(rv_gguf_file_u64(file, good[i].key, &u64, err));
        assert_true(u64 == good[i].value);
        if (good[i].value <= UINT32_MAX) {
            assert_ok(rv_gguf_file_u32(file, good[i].key, &u32, err));
            assert_int_equal(u32, good[i].value);
        } else {
            u32 = 5;
            assert_fails(rv_gguf_file_u32(file, good[i].key, &u32, &fault), RUVLLM_FORMAT, fault, "is no u32");
            assert_int_equal(u32, 5);
        }
    }
    for (size_t i = 0; i < 4; i++) {
        u64 = 5;
        assert_fails(rv_gguf_file_u64(file, negative[i], &u64, &fault), RUVLLM_FORMAT, fault, "is no u64");
        assert_fails(rv_gguf_file_u32(file, negative[i], &u32, &fault), RUVLLM_FORMAT, fault, negative[i]);
        assert_int_equal(u64, 5);
    }
}

static void floats_come_from_any_finite_number(void **state)
{
    float f32 = 5;

    (void)state;
    assert_ok(rv_gguf_file_f32(file, "f32", &f32, err));
    assert_true(f32 == 1e-5f);
    assert_ok(rv_gguf_file_f32(file, "f64", &f32, err));
    assert_true(f32 == 0.25f);
    assert_ok(rv_gguf_file_f32(file, "i8", &f32, err));
    assert_true(f32 == -100.0f);
    assert_ok(rv_gguf_file_f32(file, "u64", &f32, err));
    assert_true(f32 == 18446744073709551615.0f);
    assert_fails(rv_gguf_file_f32(file, "f32.nan", &f32, &fault), RUVLLM_FORMAT, fault, "no finite f32");
    assert_fails(rv_gguf_file_f32(file, "f32.inf", &f32, &fault), RUVLLM_FORMAT, fault, "no finite f32");
    assert_fails(rv_gguf_file_f32(file, "f64.huge", &f32, &fault), RUVLLM_FORMAT, fault, "no finite f32");
    assert_fails(rv_gguf_file_f32(file, "yes", &f32, &fault), RUVLLM_FORMAT, fault, "of type bool, not a number");
    assert_true(f32 == 18446744073709551615.0f);
}

static void bools_and_strings_are_read_as_they_are(void **state)
{
    struct rv_str text = {0};
    bool flag = false;

    (void)state;
    assert_ok(rv_gguf_file_bool(file, "yes", &flag, err));
    assert_true(flag);
    assert_ok(rv_gguf_file_bool(file, "no", &flag, err));
    assert_false(flag);
    assert_ok(rv_gguf_file_str(file, "string", &text, err));
    assert_int_equal(text.len, 5);
    assert_memory_equal(text.data, "hello", 5);
    assert_ok(rv_gguf_file_str(file, "string.empty", &text, err));
    assert_int_equal(text.len, 0);
    assert_ok(rv_gguf_file_str(file, "string.bytes", &text, err));
    assert_int_equal(text.len, 3);
    assert_memory_equal(text.data, "a\0\xff", 3);
}

/* The way malformed metadata crashed others: a value read as what it is not. */
static void no_getter_reads_another_type(void **state)
{
    struct rv_str text = {0}, *strings = NULL;
    enum rv_gguf_type type = RV_GGUF_U8;
    int32_t *integers = NULL;
    float f32 = 0, *floats = NULL;
    uint32_t u32 = 0;
    bool flag = false;
    size_t n = 5;

    (void)state;
    assert_fails(rv_gguf_file_u32(file, "string", &u32, &fault), RUVLLM_FORMAT, fault,
                 "metadata 'string' is of type string, not an integer");
    assert_fails(rv_gguf_file_u32(file, "f32", &u32, &fault), RUVLLM_FORMAT, fault, "of type f32, not an integer");
    assert_fails(rv_gguf_file_u32(file, "yes", &u32, &fault), RUVLLM_FORMAT, fault, "of type bool, not an integer");
    assert_fails(rv_gguf_file_u32(file, "array.u32", &u32, &fault), RUVLLM_FORMAT, fault,
                 "metadata 'array.u32' is an array of u32, not an integer");
    assert_fails(rv_gguf_file_f32(file, "array.f32", &f32, &fault), RUVLLM_FORMAT, fault, "not a number");
    assert_fails(rv_gguf_file_f32(file, "string", &f32, &fault), RUVLLM_FORMAT, fault, "not a number");
    assert_fails(rv_gguf_file_bool(file, "u8", &flag, &fault), RUVLLM_FORMAT, fault, "not a bool");
    assert_fails(rv_gguf_file_bool(file, "array.bool", &flag, &fault), RUVLLM_FORMAT, fault, "not a bool");
    assert_fails(rv_gguf_file_str(file, "u64", &text, &fault), RUVLLM_FORMAT, fault, "not a string");
    assert_fails(rv_gguf_file_str(file, "array.string", &text, &fault), RUVLLM_FORMAT, fault, "not a string");
    assert_fails(rv_gguf_file_array(file, "u32", &type, &n, &fault), RUVLLM_FORMAT, fault, "not an array");
    assert_fails(rv_gguf_file_array_str(file, "string", &strings, &n, &fault), RUVLLM_FORMAT, fault, "not an array");
    assert_fails(rv_gguf_file_array_str(file, "array.u8", &strings, &n, &fault), RUVLLM_FORMAT, fault,
                 "an array of u8, not an array of string");
    assert_fails(rv_gguf_file_array_f32(file, "array.string", &floats, &n, &fault), RUVLLM_FORMAT, fault,
                 "not an array of numbers");
    assert_fails(rv_gguf_file_array_f32(file, "array.bool", &floats, &n, &fault), RUVLLM_FORMAT, fault,
                 "not an array of numbers");
    assert_fails(rv_gguf_file_array_i32(file, "array.f32", &integers, &n, &fault), RUVLLM_FORMAT, fault,
                 "not an array of integers");
    assert_fails(rv_gguf_file_array_i32(file, "array.string", &integers, &n, &fault), RUVLLM_FORMAT, fault,
                 "not an array of integers");
    assert_true(n == 5 && !strings && !floats && !integers && !text.data);
}

static void a_missing_key_is_not_found(void **state)
{
    uint32_t u32 = 0;
    size_t n = 0;
    float *floats = NULL;

    (void)state;
    assert_true(rv_gguf_file_has(file, "u32"));
    assert_false(rv_gguf_file_has(file, "u3"));
    assert_false(rv_gguf_file_has(file, "u322"));
    assert_false(rv_gguf_file_has(file, ""));
    assert_fails(rv_gguf_file_u32(file, "llama\n.x", &u32, &fault), RUVLLM_NOT_FOUND, fault,
                 "metadata 'llama?.x' is missing");
    assert_fails(rv_gguf_file_array_f32(file, "zzz", &floats, &n, &fault), RUVLLM_NOT_FOUND, fault, "'zzz' is missing");
}

static void integer_arrays_convert_when_every_element_fits(void **state)
{
    static const struct {
        const char *key;
        int32_t first, last;
        size_t n;
    } good[] = {
        {"array.u8", 0, 255, 2},     {"array.i8", -128, 127, 2},     {"array.u16", 1, 65535, 2},
        {"array.i16", -32768, 2, 2}, {"array.u32", 3, INT32_MAX, 2}, {"array.i32", INT32_MIN, 5, 3},
        {"array.i64", -7, 7, 2},     {"array.bool", 1, 1, 3},
    };
    int32_t *integers;
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_ok(rv_gguf_file_array_i32(file, good[i].key, &integers, &n, err));
        assert_int_equal(n, good[i].n);
        assert_int_equal(integers[0], good[i].first);
        assert_int_equal(integers[n - 1], good[i].last);
        rv_free(integers);
    }
    assert_fails(rv_gguf_file_array_i32(file, "array.u32.large", &integers, &n, &fault), RUVLLM_FORMAT, fault,
                 "'array.u32.large' has a value that is no i32");
    assert_fails(rv_gguf_file_array_i32(file, "array.i64.low", &integers, &n, &fault), RUVLLM_FORMAT, fault,
                 "is no i32");
    assert_fails(rv_gguf_file_array_i32(file, "array.u64", &integers, &n, &fault), RUVLLM_FORMAT, fault, "is no i32");
}

static void float_and_string_arrays_are_copied_whole(void **state)
{
    enum rv_gguf_type type;
    struct rv_str *strings;
    float *floats;
    size_t n;

    (void)state;
    assert_ok(rv_gguf_file_array(file, "array.string", &type, &n, err));
    assert_int_equal(type, RV_GGUF_STRING);
    assert_int_equal(n, 3);
    assert_ok(rv_gguf_file_array_str(file, "array.string", &strings, &n, err));
    assert_int_equal(n, 3);
    assert_memory_equal(strings[0].data, "one", 3);
    assert_int_equal(strings[1].len, 0);
    assert_int_equal(strings[2].len, 5);
    assert_memory_equal(strings[2].data, "three", 5);
    rv_free(strings);
    assert_ok(rv_gguf_file_array_f32(file, "array.f32", &floats, &n, err));
    assert_true(n == 2 && floats[0] == 0.5f && floats[1] == -2.0f);
    rv_free(floats);
    assert_ok(rv_gguf_file_array_f32(file, "array.f64", &floats, &n, err));
    assert_true(n == 1 && floats[0] == 0.125f);
    rv_free(floats);
    assert_fails(rv_gguf_file_array_f32(file, "array.f32.nan", &floats, &n, &fault), RUVLLM_FORMAT, fault,
                 "no finite f32");
    assert_ok(rv_gguf_file_array_f32(file, "array.empty", &floats, &n, err));
    assert_true(n == 0 && floats == NULL);
    assert_ok(rv_gguf_file_array_str(file, "array.string.empty", &strings, &n, err));
    assert_true(n == 0 && strings == NULL);
}

static void tensors_are_found_where_they_were_put(void **state)
{
    const struct rv_gguf_tensor *t = rv_gguf_file_tensor_find(file, "weights");

    (void)state;
    assert_int_equal(rv_gguf_file_version(file), 3);
    assert_int_equal(rv_gguf_file_fd(file), -1);
    assert_ptr_equal(rv_gguf_file_mapping(file), bytes);
    assert_int_equal(rv_gguf_file_n_tensors(file), 3);
    assert_non_null(t);
    assert_ptr_equal(t, rv_gguf_file_tensor(file, 0));
    assert_true(t->n_dims == 2 && t->ne[0] == 3 && t->ne[1] == 2 && t->ne[2] == 1 && t->ne[3] == 1);
    assert_int_equal(t->n_bytes, 24);
    assert_ptr_equal(t->data, bytes + t->offset);
    for (int i = 0; i < 6; i++) {
        float weight;
        memcpy(&weight, (const char *)t->data + 4 * i, 4);
        assert_true(weight == (float)(i + 1));
    }
    t = rv_gguf_file_tensor_find(file, "blocks");
    assert_int_equal(t->n_bytes, 2 * 144 * 2 * 3);
    assert_int_equal(t->offset % 32, 0);
    t = rv_gguf_file_tensor_find(file, "scalar");
    assert_true(t->n_dims == 0 && t->ne[0] == 1 && t->n_bytes == 2);
    assert_int_equal(t->offset + t->n_bytes, rv_gguf_file_n_bytes(file));
    assert_null(rv_gguf_file_tensor_find(file, "weight"));
    assert_null(rv_gguf_file_tensor_find(file, ""));
}

static void only_regular_files_are_opened(void **state)
{
    const char *pipe_path = test_temp_path(".fifo");
    const char *empty = test_temp_path(".gguf");
    struct rv_gguf_file *other = NULL;

    (void)state;
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    test_write_file(empty, "", 0);
    assert_fails(rv_gguf_file_open(&other, pipe_path, &fault), RUVLLM_INVALID, fault, "not a regular file");
    assert_fails(rv_gguf_file_open(&other, "/", &fault), RUVLLM_INVALID, fault, "not a regular file");
    assert_fails(rv_gguf_file_open(&other, "/dev/zero", &fault), RUVLLM_INVALID, fault, "not a regular file");
    assert_fails(rv_gguf_file_open(&other, "/nowhere/x.gguf", &fault), RUVLLM_NOT_FOUND, fault, "cannot open the file");
    assert_fails(rv_gguf_file_open(&other, empty, &fault), RUVLLM_FORMAT, fault, "not a GGUF file");
    assert_null(other);
    rv_gguf_file_close(NULL);
}

/* ggml's reader on a file known to be good is the oracle for what is in it. */
static void agrees_with_ggml(const char *path)
{
    struct gguf_context *oracle = gguf_init_from_file(path, (struct gguf_init_params){.no_alloc = true});
    struct rv_gguf_file *real;
    size_t data_start;

    assert_non_null(oracle);
    data_start = gguf_get_data_offset(oracle);
    assert_ok(rv_gguf_file_open(&real, path, err));
    assert_true(rv_gguf_file_fd(real) >= 0);
    assert_int_equal(rv_gguf_file_version(real), gguf_get_version(oracle));
    assert_int_equal(rv_gguf_file_n_tensors(real), gguf_get_n_tensors(oracle));
    for (int64_t i = 0; i < gguf_get_n_tensors(oracle); i++) {
        const struct rv_gguf_tensor *t = rv_gguf_file_tensor_find(real, gguf_get_tensor_name(oracle, i));

        assert_ptr_equal(t, rv_gguf_file_tensor(real, (size_t)i));
        assert_int_equal(t->type, gguf_get_tensor_type(oracle, i));
        assert_int_equal(t->offset, data_start + gguf_get_tensor_offset(oracle, i));
        assert_int_equal(t->n_bytes, gguf_get_tensor_size(oracle, i));
    }
    for (int64_t i = 0; i < gguf_get_n_kv(oracle); i++) {
        const char *key = gguf_get_key(oracle, i);
        enum rv_gguf_type type;
        struct rv_str text;
        size_t n;

        assert_true(rv_gguf_file_has(real, key));
        if (gguf_get_kv_type(oracle, i) == GGUF_TYPE_STRING) {
            assert_ok(rv_gguf_file_str(real, key, &text, err));
            assert_int_equal(text.len, strlen(gguf_get_val_str(oracle, i)));
            assert_memory_equal(text.data, gguf_get_val_str(oracle, i), text.len);
        } else if (gguf_get_kv_type(oracle, i) == GGUF_TYPE_ARRAY) {
            assert_ok(rv_gguf_file_array(real, key, &type, &n, err));
            assert_int_equal(type, gguf_get_arr_type(oracle, i));
            assert_int_equal(n, gguf_get_arr_n(oracle, i));
        }
    }
    rv_gguf_file_close(real);
    gguf_free(oracle);
}

static void real_models_read_as_ggml_reads_them(void **state)
{
    static const char *const names[] = {"stories260K", "stories15M-f16", "minimind2-26m-f16"};
    char name[64];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(name, sizeof(name), "models/%s.gguf", names[i]);
        test_need_file(test_data(name));
        agrees_with_ggml(test_data(name));
    }
}

static void real_vocabularies_read_as_ggml_reads_them(void **state)
{
    static const char *const names[] = {"deepseek-coder", "gemma-4", "gpt-2", "llama-bpe",
                                        "llama-spm",      "phi-3",   "qwen2"};
    struct rv_gguf_file *real;
    struct rv_str *tokens;
    char name[64];
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(name, sizeof(name), "vocab/ggml/ggml-vocab-%s.gguf", names[i]);
        test_need_file(test_data(name));
        agrees_with_ggml(test_data(name));
        assert_ok(rv_gguf_file_open(&real, test_data(name), err));
        assert_ok(rv_gguf_file_array_str(real, "tokenizer.ggml.tokens", &tokens, &n, err));
        assert_true(n > 30000);
        rv_free(tokens);
        rv_gguf_file_close(real);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsigned_getters_take_any_integer_that_fits),
        cmocka_unit_test(floats_come_from_any_finite_number),
        cmocka_unit_test(bools_and_strings_are_read_as_they_are),
        cmocka_unit_test(no_getter_reads_another_type),
        cmocka_unit_test(a_missing_key_is_not_found),
        cmocka_unit_test(integer_arrays_convert_when_every_element_fits),
        cmocka_unit_test(float_and_string_arrays_are_copied_whole),
        cmocka_unit_test(tensors_are_found_where_they_were_put),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(real_models_read_as_ggml_reads_them),
        cmocka_unit_test(real_vocabularies_read_as_ggml_reads_them),
    };

    return cmocka_run_group_tests(tests, open_sample, close_sample);
}
