/* What is written is read back the same by our reader; unfinished files leave nothing. */
#include "base/alloc.h"
#include "model/gguf_map.h"
#include "model/gguf_parse.h"
#include "model/gguf_write.h"
#include "support/gguf_writer.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ruvllm_error fault;

static struct rv_str str(const char *text)
{
    return (struct rv_str){text, strlen(text)};
}

/* A file with every kind of value, made by the tests' own writer. */
static char *make_sample(size_t *len, uint32_t alignment)
{
    static const char *const words[] = {"one", "", "three"};
    float weights[96];
    struct gguf_writer w;

    for (int i = 0; i < 96; i++)
        weights[i] = (float)i / 7;
    gguf_writer_init(&w);
    gguf_writer_str(&w, "general.architecture", "llama");
    if (alignment != 32)
        gguf_writer_align(&w, alignment);
    gguf_writer_u8(&w, "u8", 200);
    gguf_writer_i16(&w, "i16", -30000);
    gguf_writer_u64(&w, "u64", UINT64_MAX);
    gguf_writer_f32(&w, "f32", 1e-5f);
    gguf_writer_f64(&w, "f64", 0.25);
    gguf_writer_bool(&w, "yes", 1);
    gguf_writer_bytes(&w, "bytes", "a\0\xff", 3);
    gguf_writer_array(&w, "array.i32", RV_GGUF_I32, (int32_t[]){-1, 4, 5}, 3);
    gguf_writer_array(&w, "array.empty", RV_GGUF_F32, NULL, 0);
    gguf_writer_array_str(&w, "array.string", words, 3);
    gguf_writer_tensor(&w, "weights", GGML_TYPE_F32, 2, (int64_t[]){32, 3}, weights);
    gguf_writer_tensor(&w, "odd", GGML_TYPE_F32, 1, (int64_t[]){5}, weights);
    gguf_writer_tensor(&w, "blocks", GGML_TYPE_Q4_K, 3, (int64_t[]){512, 2, 3}, NULL);
    gguf_writer_tensor(&w, "scalar", GGML_TYPE_F16, 0, NULL, NULL);
    return gguf_writer_finish(&w, len);
}

/* Copies a parsed file through the writer, the data in pieces of `piece` bytes. */
static void copy_file(const struct rv_gguf_parse *p, const char *path, size_t piece)
{
    struct rv_gguf_write *w;
    uint64_t n_bytes;

    assert_ok(rv_gguf_write_open(&w, path, (uint32_t)p->alignment, err));
    for (size_t i = 0; i < p->n_kvs; i++) {
        struct rv_gguf_value value = rv_gguf_parse_value(&p->kvs[i]);

        rv_gguf_write_value(w, p->kvs[i].key, p->kvs[i].key_len, &value);
    }
    for (size_t i = 0; i < p->n_tensors; i++)
        assert_ok(rv_gguf_write_tensor(w, p->tensors[i].name, p->tensors[i].type, p->tensors[i].n_dims,
                                       p->tensors[i].ne, err));
    for (size_t i = 0; i < p->n_tensors; i++) {
        for (uint64_t at = 0; at < p->tensors[i].n_bytes; at += piece) {
            uint64_t left = p->tensors[i].n_bytes - at;

            assert_ok(rv_gguf_write_data(w, (const char *)p->tensors[i].data + at, left < piece ? left : piece, err));
        }
    }
    assert_int_not_equal(access(path, F_OK), 0);
    assert_ok(rv_gguf_write_finish(w, &n_bytes, err));
    rv_gguf_write_close(w);
    assert_int_equal(access(path, F_OK), 0);
}

static void assert_same(const struct rv_gguf_parse *a, const struct rv_gguf_parse *b)
{
    assert_int_equal(a->alignment, b->alignment);
    assert_int_equal(a->n_kvs, b->n_kvs);
    assert_int_equal(a->n_tensors, b->n_tensors);
    for (size_t i = 0; i < a->n_kvs; i++) {
        const struct rv_gguf_kv *there = rv_gguf_parse_find(b, a->kvs[i].key, a->kvs[i].key_len);
        struct rv_gguf_value x = rv_gguf_parse_value(&a->kvs[i]), y;

        assert_non_null(there);
        y = rv_gguf_parse_value(there);
        assert_int_equal(x.type, y.type);
        assert_int_equal(x.is_array, y.is_array);
        assert_int_equal(x.n, y.n);
        if (x.type != RV_GGUF_STRING)
            assert_memory_equal(x.bytes, y.bytes, x.n * rv_gguf_value_type_size(x.type));
        for (size_t k = 0; x.type == RV_GGUF_STRING && k < x.n; k++) {
            struct rv_str s = rv_gguf_value_str(x.bytes), t = rv_gguf_value_str(y.bytes);

            assert_int_equal(s.len, t.len);
            assert_memory_equal(s.data, t.data, s.len);
            x.bytes = (const unsigned char *)s.data + s.len;
            y.bytes = (const unsigned char *)t.data + t.len;
        }
    }
    for (size_t i = 0; i < a->n_tensors; i++) {
        const struct rv_gguf_tensor *s = &a->tensors[i], *t = &b->tensors[i];

        assert_int_equal(s->name.len, t->name.len);
        assert_memory_equal(s->name.data, t->name.data, s->name.len);
        assert_int_equal(s->type, t->type);
        assert_int_equal(s->n_dims, t->n_dims);
        assert_memory_equal(s->ne, t->ne, sizeof(s->ne));
        assert_int_equal(s->n_bytes, t->n_bytes);
        assert_memory_equal(s->data, t->data, s->n_bytes);
    }
}

static void round_trip(uint32_t alignment, size_t piece)
{
    const char *path = test_temp_path(".gguf");
    struct rv_gguf_parse before, after;
    struct rv_gguf_map map;
    size_t len;
    char *sample = make_sample(&len, alignment);

    assert_ok(rv_gguf_parse_init(&before, sample, len, err));
    assert_int_equal(before.alignment, alignment);
    copy_file(&before, path, piece);
    assert_ok(rv_gguf_map_open(&map, path, err));
    assert_ok(rv_gguf_parse_init(&after, map.data, map.len, err));
    assert_same(&before, &after);
    rv_gguf_parse_release(&before);
    rv_gguf_parse_release(&after);
    rv_gguf_map_close(&map);
    unlink(path);
    free(sample);
}

static void everything_is_read_back(void **state)
{
    (void)state;
    round_trip(32, 1 << 20);
    round_trip(32, 7);
    round_trip(8, 64);
    round_trip(4096, 1000);
}

static void a_file_without_tensors_is_good(void **state)
{
    const char *path = test_temp_path(".gguf");
    struct rv_gguf_write *w;
    struct rv_gguf_file *file;
    uint64_t n_bytes;
    uint32_t number = 0;
    struct rv_str text;

    (void)state;
    assert_ok(rv_gguf_write_open(&w, path, 32, err));
    rv_gguf_write_u32(w, "a.number", 77);
    rv_gguf_write_str(w, "a.text", "hello");
    assert_ok(rv_gguf_write_finish(w, &n_bytes, err));
    rv_gguf_write_close(w);
    assert_ok(rv_gguf_file_open(&file, path, err));
    assert_int_equal(rv_gguf_file_n_bytes(file), n_bytes);
    assert_int_equal(rv_gguf_file_n_tensors(file), 0);
    assert_string_equal(rv_gguf_file_main_type(file), "");
    assert_ok(rv_gguf_file_u32(file, "a.number", &number, err));
    assert_int_equal(number, 77);
    assert_ok(rv_gguf_file_str(file, "a.text", &text, err));
    assert_int_equal(text.len, 5);
    rv_gguf_file_close(file);
    unlink(path);
}

static void what_is_not_finished_leaves_nothing(void **state)
{
    const char *path = test_temp_path(".gguf");
    char partial[4096];
    float row[32] = {0};
    struct rv_gguf_write *w;

    (void)state;
    snprintf(partial, sizeof(partial), "%s.partial", path);
    test_write_file(path, "old", 3);
    assert_ok(rv_gguf_write_open(&w, path, 32, err));
    assert_ok(rv_gguf_write_tensor(w, str("t"), GGML_TYPE_F32, 2, (int64_t[]){32, 2, 1, 1}, err));
    assert_ok(rv_gguf_write_data(w, row, sizeof(row), err));
    assert_int_equal(access(partial, F_OK), 0);
    rv_gguf_write_close(w);
    assert_int_not_equal(access(partial, F_OK), 0);
    free(test_read_file(path, &(size_t){0}));
    unlink(path);
    rv_gguf_write_close(NULL);
}

static void a_row_that_is_no_whole_blocks_is_refused(void **state)
{
    const char *path = test_temp_path(".gguf");
    struct rv_gguf_write *w;

    (void)state;
    assert_ok(rv_gguf_write_open(&w, path, 32, err));
    assert_fails(rv_gguf_write_tensor(w, str("narrow"), GGML_TYPE_Q4_K, 1, (int64_t[]){288, 1, 1, 1}, &fault),
                 RUVLLM_INVALID, fault, "'narrow'");
    rv_gguf_write_close(w);
}

static void a_folder_that_is_not_there_is_an_error(void **state)
{
    struct rv_gguf_write *w;

    (void)state;
    assert_fails(rv_gguf_write_open(&w, "/nonexistent/x.gguf", 32, &fault), RUVLLM_NOT_FOUND, fault, "cannot create");
    assert_null(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read_back),
        cmocka_unit_test(a_file_without_tensors_is_good),
        cmocka_unit_test(what_is_not_finished_leaves_nothing),
        cmocka_unit_test(a_row_that_is_no_whole_blocks_is_refused),
        cmocka_unit_test(a_folder_that_is_not_there_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
