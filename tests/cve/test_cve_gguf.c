/*
 * The ways model files have broken other readers, rebuilt here as small files of our own. Each must be refused with
 * a sentence, read nothing behind its last byte, and take no more memory than 4 times its size and a megabyte. An
 * id names the report a case stands for; where several share a cause, one file stands for all.
 */
#define _DEFAULT_SOURCE // MAP_ANONYMOUS
#include "alloc_meter.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "model/gguf_file.h"
#include "model/gguf_inspect.h"
#include "support/gguf_writer.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A copy that ends where a page nobody may touch begins. */
struct guarded {
    char *pages;
    size_t n_pages_bytes;
    char *data;
};

static struct guarded guard(const char *bytes, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (len + page - 1) / page * page;
    struct guarded g = {.n_pages_bytes = room + page};

    g.pages = mmap(NULL, g.n_pages_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.pages != MAP_FAILED);
    g.data = g.pages + room - len;
    memcpy(g.data, bytes, len);
    assert_int_equal(mprotect(g.pages + room, page, PROT_NONE), 0);
    return g;
}

static void unguard(struct guarded *g)
{
    munmap(g->pages, g->n_pages_bytes);
}

static ruvllm_status open_metered(struct rv_gguf_file **file, const char *bytes, size_t len, struct ruvllm_error *err)
{
    ruvllm_status rc;
    size_t used;

    alloc_meter_start();
    rc = rv_gguf_file_open_memory(file, bytes, len, err);
    used = alloc_meter_stop();
    if (used > 4 * len + (1 << 20))
        fail_msg("%zu bytes were allocated for a file of %zu", used, len);
    return rc;
}

static void refused_bytes(const char *bytes, size_t len, const char *sentence)
{
    struct ruvllm_error fault = {0};
    struct guarded g = guard(bytes, len);
    struct rv_gguf_file *file = NULL;
    ruvllm_status rc = open_metered(&file, g.data, len, &fault);
    char *json;

    if (rc != RUVLLM_FORMAT && rc != RUVLLM_UNSUPPORTED)
        fail_msg("expected a refusal saying '%s', got %s", sentence, ruvllm_status_name(rc));
    if (!strstr(fault.message, sentence))
        fail_msg("message '%s' lacks '%s'", fault.message, sentence);
    assert_null(file);
    assert_ok(rv_gguf_inspect_memory(g.data, len, &json, err));
    assert_non_null(strstr(json, fault.message));
    rv_free(json);
    unguard(&g);
}

static void refused(struct gguf_writer *w, const char *sentence)
{
    size_t len;
    char *bytes = gguf_writer_finish(w, &len);

    refused_bytes(bytes, len, sentence);
    free(bytes);
}

static void refused_file(const char *name, const char *sentence)
{
    const char *path = test_data(name);
    size_t len;
    char *bytes;

    test_need_file(path);
    bytes = test_read_file(path, &len);
    refused_bytes(bytes, len, sentence);
    free(bytes);
}

/* ---- class 1: sizes that overflow ------------------------------------------------------------ */

static void the_shape_that_wraps_to_no_bytes_is_refused(void **state)
{
    (void)state;
    refused_file("hostile/wrap0.gguf", "tensor 'w' of 4294967296 x 4294967296 x 1 x 1 is impossibly large");
}

static void the_shape_that_wraps_to_negative_bytes_is_refused(void **state)
{
    (void)state;
    refused_file("hostile/wrapneg.gguf", "is impossibly large");
}

/* CVE-2024-21802, CVE-2026-33298: dimensions whose product, or its size in bytes, leaves 64 bits. */
static void dimensions_that_overflow_are_refused(void **state)
{
    static const uint64_t shapes[][4] = {
        {UINT64_C(1) << 62, 4, 1, 1},
        {UINT64_C(1) << 62, 1, 1, 1},
        {UINT64_C(1) << 32, UINT64_C(1) << 31, 1, 1},
        {UINT64_C(1) << 16, UINT64_C(1) << 16, UINT64_C(1) << 16, UINT64_C(1) << 16},
        {3, UINT64_C(0x5555555555555556), 1, 1}, // the product is 2 modulo 2^64
        {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX},
    };
    static const char data[256];
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        gguf_writer_init(&w);
        gguf_writer_raw_tensor(&w, "t", 1, 4, shapes[i], GGML_TYPE_F32, 0);
        gguf_writer_raw_data(&w, data, sizeof(data));
        refused(&w, "is impossibly large");
    }
}

/* CVE-2025-53630, CVE-2026-27940: each tensor's size is possible, their sum wraps. */
static void sizes_whose_sum_overflows_are_refused(void **state)
{
    uint64_t ne = UINT64_C(1) << 60; // 2^62 bytes as F32
    static const char data[512];
    struct gguf_writer w;
    char name[8];

    (void)state;
    gguf_writer_init(&w);
    for (uint64_t i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "t%d", (int)i);
        gguf_writer_raw_tensor(&w, name, 2, 1, &ne, GGML_TYPE_F32, i << 62);
    }
    gguf_writer_raw_data(&w, data, sizeof(data));
    refused(&w, "tensor 't0' ends beyond the end of the file");
}

static void counts_that_overflow_a_table_size_are_refused(void **state)
{
    static const uint64_t counts[] = {UINT64_MAX - 1,      INT64_MAX,           UINT64_MAX / 16 + 2,
                                      UINT64_MAX / 80 + 2, UINT64_MAX / 14 + 1, UINT64_MAX / 25 + 1,
                                      UINT64_C(1) << 32,   UINT64_C(1) << 59};
    static const char data[256];
    uint64_t ne = 1;
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        gguf_writer_init(&w);
        gguf_writer_u32(&w, "key", 1);
        gguf_writer_raw_tensor(&w, "t", 1, 1, &ne, GGML_TYPE_F32, 0);
        gguf_writer_raw_data(&w, data, sizeof(data));
        w.claimed_tensors = counts[i];
        refused(&w, "tensors, which do not fit into it");
        gguf_writer_init(&w);
        gguf_writer_u32(&w, "key", 1);
        gguf_writer_raw_data(&w, data, sizeof(data));
        w.claimed_kvs = counts[i];
        refused(&w, "metadata entries, which do not fit into it");
    }
}

/* ---- class 2: places outside the file -------------------------------------------------------- */

/* CVE-2026-7482, CVE-2026-5757: the shape promises more data than the file has. */
static void a_tensor_larger_than_the_file_is_refused(void **state)
{
    static const uint64_t sizes[] = {65, 1000, 1 << 20, UINT64_C(1) << 40};
    static const char data[256];
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        gguf_writer_init(&w);
        gguf_writer_raw_tensor(&w, "t", 1, 1, &sizes[i], GGML_TYPE_F32, 0);
        gguf_writer_raw_data(&w, data, sizeof(data));
        refused(&w, "tensor 't' ends beyond the end of the file");
    }
}

static void an_offset_beyond_the_file_is_refused(void **state)
{
    static const uint64_t offsets[] = {288, 4096, UINT64_C(1) << 63, UINT64_MAX - 31, UINT64_MAX - 127};
    static const char data[256];
    uint64_t ne = 1;
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        gguf_writer_init(&w);
        gguf_writer_raw_tensor(&w, "t", 1, 1, &ne, GGML_TYPE_F32, offsets[i]);
        gguf_writer_raw_data(&w, data, sizeof(data));
        refused(&w, "tensor 't' begins beyond the end of the file");
    }
}

/* CVE-2024-39720: nothing but the magic. */
static void a_file_of_four_bytes_is_refused(void **state)
{
    (void)state;
    refused_bytes("GGUF", 4, "file ends within its header");
    refused_bytes("", 0, "not a GGUF file");
}

/* ---- class 3: memory by the attacker's choice ------------------------------------------------ */

static void the_file_that_made_ggml_abort_is_refused(void **state)
{
    (void)state;
    refused_file("hostile/poc_alloc.gguf", "tensor 'w' ends beyond the end of the file");
}

/* CVE-2025-0315, CVE-2025-66959, CVE-2025-66960, CVE-2026-65315: lengths and counts without the bytes behind them. */
static void lengths_without_bytes_allocate_nothing(void **state)
{
    static const uint64_t lengths[] = {1000, UINT64_C(1) << 31, UINT64_C(1) << 40, INT64_MAX, UINT64_MAX};
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint32_t text[3] = {RV_GGUF_STRING};
        uint32_t array[5] = {RV_GGUF_ARRAY, 0, 0, 0, 0};

        memcpy(&text[1], &lengths[i], 8);
        memcpy(&array[2], &lengths[i], 8);
        gguf_writer_init(&w);
        gguf_writer_raw_kv(&w, "key", 3, 3, text, sizeof(text));
        refused(&w, "metadata 'key' has a string that runs beyond the end of the file");
        for (uint32_t type = 0; type < RV_GGUF_N_TYPES; type++) {
            if (type == RV_GGUF_ARRAY)
                continue;
            array[1] = type;
            gguf_writer_init(&w);
            gguf_writer_raw_kv(&w, "key", 3, 3, array, sizeof(array));
            refused(&w, "metadata 'key' runs beyond the end of the file");
        }
        gguf_writer_init(&w);
        gguf_writer_raw_kv(&w, "key", 3, lengths[i], text, sizeof(text));
        refused(&w, "key of metadata entry 0 runs beyond the end of the file");
    }
}

/* The counts are the largest that pass the first check; all behind them is rubbish. */
static void the_largest_believable_counts_stay_within_the_memory_bound(void **state)
{
    enum { BYTES = 8 << 20 };
    char *bytes = calloc(1, BYTES);
    uint64_t counts[2] = {0, (BYTES - 24) / 14};

    (void)state;
    memcpy(bytes, "GGUF\3\0\0", 8);
    memcpy(bytes + 8, counts, 16);
    refused_bytes(bytes, BYTES, "key of metadata entry 0 is empty");
    counts[0] = (BYTES - 24 + 31) / (25 + 32);
    counts[1] = 0;
    memcpy(bytes + 8, counts, 16);
    refused_bytes(bytes, BYTES, "name of tensor 0 is empty");
    free(bytes);
}

/* Valid, and as much table for as little file as the format allows. */
static void files_of_the_smallest_entries_stay_within_the_memory_bound(void **state)
{
    struct ruvllm_error err = {0};
    struct rv_gguf_file *file;
    struct gguf_writer w;
    char name[8];
    char *bytes;
    size_t len;

    (void)state;
    if (!alloc_meter_works())
        return; /* a sanitizer's malloc cannot be counted: the plain builds run this */
    gguf_writer_init(&w);
    gguf_writer_align(&w, 8);
    for (int i = 0; i < 200000; i++) {
        snprintf(name, sizeof(name), "%x", i);
        gguf_writer_u8(&w, name, 1);
    }
    for (uint64_t i = 0; i < 100000; i++) {
        snprintf(name, sizeof(name), "%x", (int)i);
        gguf_writer_raw_tensor(&w, name, strlen(name), 0, NULL, GGML_TYPE_I8, i * 8);
        gguf_writer_raw_data(&w, "\0\0\0\0\0\0\0", 8);
    }
    bytes = gguf_writer_finish(&w, &len);
    if (open_metered(&file, bytes, len, &err))
        fail_msg("%s", err.message);
    assert_int_equal(rv_gguf_file_n_tensors(file), 100000);
    assert_non_null(rv_gguf_file_tensor_find(file, "1869f"));
    rv_gguf_file_close(file);
    free(bytes);
}

static void a_real_model_stays_within_the_memory_bound(void **state)
{
    const char *path = test_data("models/stories260K.gguf");
    struct ruvllm_error err = {0};
    struct rv_gguf_file *file;
    size_t len;
    char *bytes;

    (void)state;
    test_need_file(path);
    bytes = test_read_file(path, &len);
    assert_int_equal(open_metered(&file, bytes, len, &err), RUVLLM_OK);
    rv_gguf_file_close(file);
    free(bytes);
}

static void the_meter_itself_counts(void **state)
{
    void *volatile block;

    (void)state;
    if (!alloc_meter_works())
        return; /* a sanitizer's malloc cannot be counted: the plain builds run this */
    alloc_meter_start();
    block = malloc(1000);
    block = realloc(block, 5000);
    free(block);
    block = calloc(10, 10);
    assert_int_equal(alloc_meter_stop(), 6100);
    free(block);
}

/* Opens a small file, copies its arrays and describes it; the status of the first call that failed. */
static ruvllm_status use_file(const char *bytes, size_t len, struct ruvllm_error *err)
{
    struct rv_gguf_file *file = NULL;
    struct rv_str *strings = NULL;
    int32_t *integers = NULL;
    float *floats = NULL;
    char *json = NULL;
    size_t n;
    ruvllm_status rc = rv_gguf_file_open_memory(&file, bytes, len, err);

    if (!rc)
        rc = rv_gguf_file_array_str(file, "words", &strings, &n, err);
    if (!rc)
        rc = rv_gguf_file_array_f32(file, "numbers", &floats, &n, err);
    if (!rc)
        rc = rv_gguf_file_array_i32(file, "numbers", &integers, &n, err);
    if (!rc)
        rc = rv_gguf_inspect_memory(bytes, len, &json, err);
    rv_free(json);
    rv_free(strings);
    rv_free(integers);
    rv_free(floats);
    rv_gguf_file_close(file);
    return rc;
}

/* The first call fails, then the second, and so on until all succeed. Only sorting can do without its memory. */
static void missing_memory_is_said_whichever_call_it_hits(void **state)
{
    struct gguf_writer w;
    size_t len, nth, n_refused = 0;
    char *bytes;

    (void)state;
    if (!alloc_meter_works())
        return; /* a sanitizer's malloc cannot be counted: the plain builds run this */
    gguf_writer_init(&w);
    gguf_writer_array_str(&w, "words", (const char *const[]){"one", "two\xff"}, 2);
    gguf_writer_array(&w, "numbers", RV_GGUF_I32, (int32_t[]){1, 2, 3, 4, 5, 6, 7, 8, 9}, 9);
    gguf_writer_str(&w, "\xff", "text");
    gguf_writer_tensor(&w, "a\xff", GGML_TYPE_F32, 1, (int64_t[]){3}, NULL);
    gguf_writer_tensor(&w, "b", GGML_TYPE_F32, 1, (int64_t[]){3}, NULL);
    bytes = gguf_writer_finish(&w, &len);
    for (nth = 1;; nth++) {
        struct ruvllm_error err = {0};
        ruvllm_status rc;

        alloc_meter_fail_at(nth);
        rc = use_file(bytes, len, &err);
        if (!alloc_meter_failed())
            break;
        if (rc && (rc != RUVLLM_NO_MEMORY || !strstr(err.message, "cannot allocate")))
            fail_msg("call %zu: %s '%s'", nth, ruvllm_status_name(rc), err.message);
        n_refused += rc != RUVLLM_OK;
    }
    assert_true(n_refused >= 15);
    assert_ok(use_file(bytes, len, err));
    free(bytes);
}

/* ---- class 4: types that are not what they seem ---------------------------------------------- */

/* CVE-2025-0317 and CVE-2024-8063 divided by what a file said; here that is the alignment and the block size. */
static void nothing_is_divided_by_zero(void **state)
{
    static const uint32_t types[] = {4, 5, 31, 32, 33, 36, 37, 38};
    static const char data[256];
    uint64_t ne = 32;
    struct gguf_writer w;

    (void)state;
    gguf_writer_init(&w);
    gguf_writer_u32(&w, "general.alignment", 0);
    gguf_writer_tensor(&w, "t", GGML_TYPE_F32, 1, (int64_t[]){4}, NULL);
    refused(&w, "metadata 'general.alignment' is 0, not a power of two");
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        gguf_writer_init(&w);
        gguf_writer_raw_tensor(&w, "t", 1, 1, &ne, types[i], 0);
        gguf_writer_raw_data(&w, data, sizeof(data));
        refused(&w, "which ggml does not know");
    }
    gguf_writer_init(&w);
    gguf_writer_raw_tensor(&w, "t", 1, 2, (uint64_t[]){32, 0}, GGML_TYPE_Q8_0, 0);
    gguf_writer_raw_data(&w, data, sizeof(data));
    refused(&w, "tensor 't' has a dimension of 0");
}

static void a_key_the_reader_itself_uses_is_not_trusted_to_have_its_type(void **state)
{
    static const struct {
        uint32_t words[6];
        size_t n;
    } values[] = {
        {{RV_GGUF_U64, 32, 0}, 3},
        {{RV_GGUF_I32, 32}, 2},
        {{RV_GGUF_F32, 0x42000000}, 2},
        {{RV_GGUF_STRING, 0, 0}, 3},
        {{RV_GGUF_ARRAY, RV_GGUF_U32, 0, 0}, 4},
        {{RV_GGUF_ARRAY, RV_GGUF_U32, 1, 0, 32}, 5},
    };
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        gguf_writer_init(&w);
        gguf_writer_raw_kv(&w, "general.alignment", 17, 17, values[i].words, values[i].n * 4);
        refused(&w, "metadata 'general.alignment' is not a u32");
    }
}

/* CVE-2025-0313, CVE-2024-12055: numbers that become an index into a table of types. */
static void type_numbers_outside_their_table_are_refused(void **state)
{
    static const uint32_t numbers[] = {13, 14, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
    static const char data[256];
    uint64_t ne = 4;
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        uint32_t value[] = {numbers[i], 0, 0};
        uint32_t array[] = {RV_GGUF_ARRAY, numbers[i], 1, 0, 0, 0};

        gguf_writer_init(&w);
        gguf_writer_raw_kv(&w, "k", 1, 1, value, sizeof(value));
        refused(&w, "metadata 'k' has an unknown type");
        gguf_writer_init(&w);
        gguf_writer_raw_kv(&w, "k", 1, 1, array, sizeof(array));
        refused(&w, "metadata 'k' has an unknown type");
        gguf_writer_init(&w);
        gguf_writer_raw_tensor(&w, "t", 1, 1, &ne, numbers[i] < 256 ? GGML_TYPE_COUNT : numbers[i], 0);
        gguf_writer_raw_data(&w, data, sizeof(data));
        refused(&w, "which ggml does not know");
    }
}

/* CVE-2024-32878, CVE-2025-0312: a read that failed half-way left something behind that was used or freed. */
static void a_second_entry_cut_off_leaves_the_first_one_well(void **state)
{
    struct gguf_writer w;
    size_t len;
    char *bytes;

    (void)state;
    gguf_writer_init(&w);
    gguf_writer_str(&w, "general.architecture", "llama");
    gguf_writer_array_str(&w, "tokens", (const char *const[]){"one", "two", "three"}, 3);
    gguf_writer_str(&w, "general.name", "name");
    bytes = gguf_writer_finish(&w, &len);
    for (size_t cut = 24; cut < len; cut++)
        refused_bytes(bytes, cut, cut < 66 ? "file" : " beyond the end of the file");
    free(bytes);
}

static void arrays_in_arrays_are_refused_however_deep(void **state)
{
    uint32_t nested[4000];
    struct gguf_writer w;

    (void)state;
    nested[0] = RV_GGUF_ARRAY;
    for (size_t i = 1; i + 2 < 4000; i += 3) {
        nested[i] = RV_GGUF_ARRAY;
        nested[i + 1] = 1;
        nested[i + 2] = 0;
    }
    gguf_writer_init(&w);
    gguf_writer_raw_kv(&w, "k", 1, 1, nested, sizeof(nested));
    refused(&w, "metadata 'k' is an array of arrays");
}

/* ---- a real model, cut short ----------------------------------------------------------------- */

/* Where the last tensor ends: what lies behind is padding, which may be missing. */
static size_t end_of_tensors(const char *bytes, size_t len, size_t *data_start)
{
    struct rv_gguf_file *file;
    size_t end = 0;

    *data_start = len;
    assert_ok(rv_gguf_file_open_memory(&file, bytes, len, err));
    for (size_t i = 0; i < rv_gguf_file_n_tensors(file); i++) {
        const struct rv_gguf_tensor *t = rv_gguf_file_tensor(file, i);

        end = t->offset + t->n_bytes > end ? t->offset + t->n_bytes : end;
        *data_start = t->offset < *data_start ? t->offset : *data_start;
    }
    rv_gguf_file_close(file);
    return end;
}

static void a_clean_refusal(ruvllm_status rc, const struct ruvllm_error *err, size_t cut)
{
    if (rc != RUVLLM_FORMAT || strlen(err->message) < 10)
        fail_msg("cut at %zu: %s '%s'", cut, ruvllm_status_name(rc), err->message);
}

static void a_model_cut_anywhere_is_refused(void **state)
{
    const char *path = test_data("models/stories260K.gguf");
    const char *cut_path = test_temp_path(".gguf");
    struct rv_gguf_file *file;
    size_t len, end, data_start;
    struct rv_rng rng;
    char *bytes;

    (void)state;
    test_need_file(path);
    bytes = test_read_file(path, &len);
    end = end_of_tensors(bytes, len, &data_start);
    rv_rng_init(&rng, 20);
    for (int i = 0; i < 1000; i++) {
        struct ruvllm_error err = {0};
        /* Every other cut goes through the small part in front, where the parser works. */
        size_t cut = (size_t)rv_rng_below(&rng, i % 2 ? data_start : end);
        char *part = malloc(cut ? cut : 1);

        memcpy(part, bytes, cut);
        a_clean_refusal(rv_gguf_file_open_memory(&file, part, cut, &err), &err, cut);
        free(part);
        if (i % 10 == 0 || i % 10 == 1) {
            struct guarded g = guard(bytes, cut);
            a_clean_refusal(rv_gguf_file_open_memory(&file, g.data, cut, &err), &err, cut);
            unguard(&g);
        }
        if (i % 20 == 0 || i % 20 == 1) {
            test_write_file(cut_path, bytes, cut);
            a_clean_refusal(rv_gguf_file_open(&file, cut_path, &err), &err, cut);
        }
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shape_that_wraps_to_no_bytes_is_refused),
        cmocka_unit_test(the_shape_that_wraps_to_negative_bytes_is_refused),
        cmocka_unit_test(dimensions_that_overflow_are_refused),
        cmocka_unit_test(sizes_whose_sum_overflows_are_refused),
        cmocka_unit_test(counts_that_overflow_a_table_size_are_refused),
        cmocka_unit_test(a_tensor_larger_than_the_file_is_refused),
        cmocka_unit_test(an_offset_beyond_the_file_is_refused),
        cmocka_unit_test(a_file_of_four_bytes_is_refused),
        cmocka_unit_test(the_file_that_made_ggml_abort_is_refused),
        cmocka_unit_test(lengths_without_bytes_allocate_nothing),
        cmocka_unit_test(the_largest_believable_counts_stay_within_the_memory_bound),
        cmocka_unit_test(files_of_the_smallest_entries_stay_within_the_memory_bound),
        cmocka_unit_test(a_real_model_stays_within_the_memory_bound),
        cmocka_unit_test(the_meter_itself_counts),
        cmocka_unit_test(missing_memory_is_said_whichever_call_it_hits),
        cmocka_unit_test(nothing_is_divided_by_zero),
        cmocka_unit_test(a_key_the_reader_itself_uses_is_not_trusted_to_have_its_type),
        cmocka_unit_test(type_numbers_outside_their_table_are_refused),
        cmocka_unit_test(a_second_entry_cut_off_leaves_the_first_one_well),
        cmocka_unit_test(arrays_in_arrays_are_refused_however_deep),
        cmocka_unit_test(a_model_cut_anywhere_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
