/* Safetensors files: what a good one gives, and that every lie a header can tell is refused by name. */
#include "model/safetensors.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A file in memory: length, header, `n_data` bytes counting up. The caller frees it. */
static unsigned char *make_file(const char *header, size_t header_len, size_t n_data, size_t *len)
{
    uint64_t prefix = header_len;
    unsigned char *bytes = malloc(8 + header_len + n_data + 1);

    assert_non_null(bytes);
    memcpy(bytes, &prefix, 8);
    memcpy(bytes + 8, header, header_len);
    for (size_t i = 0; i < n_data; i++)
        bytes[8 + header_len + i] = (unsigned char)i;
    *len = 8 + header_len + n_data;
    return bytes;
}

static ruvllm_status open_header(const char *header, size_t n_data, struct ruvllm_error *err)
{
    struct rv_safetensors *file;
    size_t len;
    unsigned char *bytes = make_file(header, strlen(header), n_data, &len);
    ruvllm_status rc = rv_safetensors_open_memory(&file, bytes, len, err);

    assert_true((rc == RUVLLM_OK) == (file != NULL));
    rv_safetensors_close(file);
    free(bytes);
    return rc;
}

static void refused(const char *header, size_t n_data, ruvllm_status status, const char *sentence)
{
    struct ruvllm_error fault = {0};

    assert_fails(open_header(header, n_data, &fault), status, fault, sentence);
}

#define ENTRY(name, type, shape, from, to)                                                                             \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static void a_good_file_gives_its_tensors(void **state)
{
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"}," ENTRY(
        "b", "F16", "[2,3]", "4", "16") "," ENTRY("a", "F32", "[]", "0", "4") "}  ";
    struct rv_safetensors *file;
    const struct rv_safetensors_tensor *t;
    size_t len;
    unsigned char *bytes = make_file(header, sizeof(header) - 1, 16, &len);

    (void)state;
    assert_ok(rv_safetensors_open_memory(&file, bytes, len, err));
    assert_int_equal(rv_safetensors_n_tensors(file), 2);
    t = rv_safetensors_find(file, "b");
    assert_non_null(t);
    assert_ptr_equal(t, rv_safetensors_tensor_at(file, 1)); // by place, not by the header's order
    assert_int_equal(t->type, GGML_TYPE_F16);
    assert_int_equal(t->n_dims, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->shape[2], 1);
    assert_int_equal(t->n_bytes, 12);
    assert_ptr_equal(t->data, bytes + len - 12);
    assert_int_equal(rv_safetensors_find(file, "a")->n_dims, 0);
    assert_null(rv_safetensors_find(file, "c"));
    assert_int_equal(rv_safetensors_metadata(file, "format").len, 2);
    assert_memory_equal(rv_safetensors_metadata(file, "format").data, "pt", 2);
    assert_int_equal(rv_safetensors_metadata(file, "none").len, 0);
    assert_int_equal(rv_safetensors_fd(file), -1);
    rv_safetensors_close(file);
    free(bytes);
    assert_int_equal(open_header("{}", 0, NULL), RUVLLM_OK);
}

static void lengths_that_lie_are_refused(void **state)
{
    static const uint64_t lengths[] = {0, 1, 3, 1000, 100000001, UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 63};
    struct ruvllm_error fault = {0};
    struct rv_safetensors *file;

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        unsigned char bytes[10] = {0};

        memcpy(bytes, &lengths[i], 8);
        memcpy(bytes + 8, "{}", 2);
        assert_int_equal(rv_safetensors_open_memory(&file, bytes, sizeof(bytes), &fault), RUVLLM_FORMAT);
        assert_null(file);
        assert_true(fault.message[0] != '\0');
    }
    assert_fails(rv_safetensors_open_memory(&file, "1234567", 7, &fault), RUVLLM_FORMAT, fault, "it has 7 bytes");
    assert_fails(rv_safetensors_open_memory(&file, NULL, 0, &fault), RUVLLM_FORMAT, fault, "it has 0 bytes");
}

static void headers_that_are_no_object_are_refused(void **state)
{
    (void)state;
    refused("[]", 0, RUVLLM_FORMAT, "no JSON object");
    refused("{,}", 0, RUVLLM_FORMAT, "is no JSON");
    refused("{} x", 0, RUVLLM_FORMAT, "is no JSON");
    refused("{\"a\":1}", 0, RUVLLM_FORMAT, "tensor 'a' is not described");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, RUVLLM_FORMAT, "is not described");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":[[[]]]}}", 4, RUVLLM_FORMAT,
            "is not described");
    refused("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, RUVLLM_FORMAT,
            "is not described");
    refused("{\"__metadata__\":[]}", 0, RUVLLM_FORMAT, "'__metadata__' is not an object");
    refused("{\"__metadata__\":{\"a\":1}}", 0, RUVLLM_FORMAT, "no string");
    refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, RUVLLM_FORMAT, "appears twice");
}

static void types_and_shapes_are_checked(void **state)
{
    (void)state;
    refused("{" ENTRY("a", "F8_E4M3", "[4]", "0", "4") "}", 4, RUVLLM_UNSUPPORTED, "type 'F8_E4M3'");
    refused("{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, RUVLLM_FORMAT, "type as a string");
    refused("{" ENTRY("a", "F32", "{}", "0", "4") "}", 4, RUVLLM_FORMAT, "is not a list");
    refused("{" ENTRY("a", "F32", "[1,1,1,1,1]", "0", "4") "}", 4, RUVLLM_UNSUPPORTED, "5 dimensions");
    refused("{" ENTRY("a", "F32", "[-1]", "0", "4") "}", 4, RUVLLM_FORMAT, "no size");
    refused("{" ENTRY("a", "F32", "[1.0]", "0", "4") "}", 4, RUVLLM_FORMAT, "no size");
    refused("{" ENTRY("a", "F32", "[0]", "0", "0") "}", 0, RUVLLM_UNSUPPORTED, "no elements");
    refused("{" ENTRY("a", "F32", "[4294967296,4294967296]", "0", "0") "}", 0, RUVLLM_FORMAT, "impossibly large");
    refused("{" ENTRY("a", "F32", "[4611686018427387904]", "0", "0") "}", 0, RUVLLM_FORMAT, "impossibly large");
    refused("{" ENTRY("a", "F32", "[2]", "0", "4") "}", 4, RUVLLM_FORMAT, "ask for 8");
    refused("{" ENTRY("", "F32", "[1]", "0", "4") "}", 4, RUVLLM_FORMAT, "name has 0 bytes");
    refused("{" ENTRY("a\\u0000b", "F32", "[1]", "0", "4") "}", 4, RUVLLM_FORMAT, "NUL");
}

static void places_cover_the_data_without_overlap_or_hole(void **state)
{
    (void)state;
    refused("{" ENTRY("a", "F32", "[1]", "0", "5") "}", 4, RUVLLM_FORMAT, "outside");
    refused("{" ENTRY("a", "F32", "[1]", "4", "0") "}", 4, RUVLLM_FORMAT, "outside");
    refused("{" ENTRY("a", "F32", "[1]", "18446744073709551612", "18446744073709551615") "}", 4, RUVLLM_FORMAT,
            "outside");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, RUVLLM_FORMAT, "two positions");
    refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}}", 4, RUVLLM_FORMAT, "two positions");
    refused("{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("b", "F32", "[1]", "2", "6") "}", 6, RUVLLM_FORMAT,
            "'b' overlaps");
    refused("{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("b", "F32", "[1]", "0", "4") "}", 4, RUVLLM_FORMAT,
            "overlaps");
    refused("{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("b", "F32", "[1]", "5", "9") "}", 9, RUVLLM_FORMAT,
            "hole before it");
    refused("{" ENTRY("a", "F32", "[1]", "1", "5") "}", 5, RUVLLM_FORMAT, "hole before it");
    refused("{" ENTRY("a", "F32", "[1]", "0", "4") "}", 6, RUVLLM_FORMAT, "2 bytes that belong to no tensor");
    refused("{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("a", "F32", "[1]", "4", "8") "}", 8, RUVLLM_FORMAT,
            "'a' appears twice");
}

/* A header of brackets would be a tree of sixteen times its size. */
static void nesting_costs_neither_stack_nor_memory(void **state)
{
    enum { DEEP = 1000000 };
    struct ruvllm_error fault = {0};
    struct rv_safetensors *file;
    char *header = malloc(DEEP);
    unsigned char *bytes;
    size_t len;

    (void)state;
    assert_non_null(header);
    memset(header, '[', DEEP);
    memcpy(header, "{\"a\":", 5);
    bytes = make_file(header, DEEP, 0, &len);
    assert_fails(rv_safetensors_open_memory(&file, bytes, len, &fault), RUVLLM_FORMAT, fault, "nested too densely");
    free(bytes);
    free(header);
}

static void what_was_written_reads_back(void **state)
{
    static const float floats[6] = {0, 1, 2, 3, 4, 5};
    static const uint16_t halves[2] = {0x3C00, 0x4000};
    const struct rv_safetensors_tensor tensors[] = {
        {.name = {"w\"\\\n\xC3\xA9", 6},
         .type = GGML_TYPE_F32,
         .n_dims = 2,
         .shape = {2, 3, 1, 1},
         .n_bytes = 24,
         .data = floats},
        {.name = {"h", 1}, .type = GGML_TYPE_BF16, .n_dims = 1, .shape = {2, 1, 1, 1}, .n_bytes = 4, .data = halves},
    };
    const struct rv_safetensors_note notes[] = {{{"format", 6}, {"pt", 2}}};
    const char *path = test_temp_path(".safetensors");
    struct rv_safetensors *file;
    const struct rv_safetensors_tensor *t;

    (void)state;
    assert_ok(rv_safetensors_write_noted(path, tensors, 2, notes, 1, err));
    assert_ok(rv_safetensors_open(&file, path, err));
    assert_int_equal(rv_safetensors_n_tensors(file), 2);
    t = rv_safetensors_find(file, "w\"\\\n\xC3\xA9");
    assert_non_null(t);
    assert_memory_equal(t->data, floats, sizeof(floats));
    assert_int_equal((uintptr_t)t->data % 8, 0);
    assert_memory_equal(rv_safetensors_find(file, "h")->data, halves, sizeof(halves));
    assert_int_equal(rv_safetensors_metadata(file, "format").len, 2);
    assert_true(rv_safetensors_fd(file) >= 0);
    rv_safetensors_close(file);
}

static void what_cannot_be_read_is_not_written(void **state)
{
    static const float number = 1;
    struct rv_safetensors_tensor twice[2] = {
        {.name = {"a", 1}, .type = GGML_TYPE_F32, .n_dims = 1, .shape = {1, 1, 1, 1}, .n_bytes = 4, .data = &number}};
    const char *path = test_temp_path(".safetensors");
    struct ruvllm_error fault = {0};

    (void)state;
    twice[1] = twice[0];
    assert_fails(rv_safetensors_write(path, twice, 2, &fault), RUVLLM_INVALID, fault, "'a' is given twice");
    twice[0].n_bytes = 8;
    assert_fails(rv_safetensors_write(path, twice, 1, &fault), RUVLLM_INVALID, fault, "does not have the bytes");
    twice[1].type = GGML_TYPE_Q4_0;
    assert_fails(rv_safetensors_write(path, twice + 1, 1, &fault), RUVLLM_INVALID, fault, "a type");
    twice[1].type = GGML_TYPE_F32;
    twice[1].name = (struct rv_str){"\xFF", 1};
    assert_fails(rv_safetensors_write(path, twice + 1, 1, &fault), RUVLLM_INVALID, fault, "cannot be a tensor's name");
    twice[1].name = (struct rv_str){"__metadata__", 12};
    assert_fails(rv_safetensors_write(path, twice + 1, 1, &fault), RUVLLM_INVALID, fault, "cannot be a tensor's name");
    assert_int_not_equal(access(path, F_OK), 0);
    assert_fails(rv_safetensors_write("/nowhere/a.safetensors", NULL, 0, &fault), RUVLLM_NOT_FOUND, fault,
                 "cannot create");
}

/* Cut anywhere, a good file is a clean error. */
static void every_truncation_is_refused(void **state)
{
    static const char header[] = "{" ENTRY("a", "F32", "[2]", "0", "8") "," ENTRY("b", "F16", "[2]", "8", "12") "}";
    struct rv_safetensors *file;
    size_t len;
    unsigned char *bytes = make_file(header, sizeof(header) - 1, 12, &len);

    (void)state;
    for (size_t cut = 0; cut < len; cut++) {
        struct ruvllm_error fault = {0};
        unsigned char *part = malloc(cut + 1);

        assert_non_null(part);
        memcpy(part, bytes, cut);
        assert_int_equal(rv_safetensors_open_memory(&file, part, cut, &fault), RUVLLM_FORMAT);
        assert_true(fault.message[0] != '\0');
        free(part);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_gives_its_tensors),
        cmocka_unit_test(lengths_that_lie_are_refused),
        cmocka_unit_test(headers_that_are_no_object_are_refused),
        cmocka_unit_test(types_and_shapes_are_checked),
        cmocka_unit_test(places_cover_the_data_without_overlap_or_hole),
        cmocka_unit_test(nesting_costs_neither_stack_nor_memory),
        cmocka_unit_test(what_was_written_reads_back),
        cmocka_unit_test(what_cannot_be_read_is_not_written),
        cmocka_unit_test(every_truncation_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
