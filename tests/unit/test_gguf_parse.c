/* What the parser refuses, each by the sentence it says, and that sizes agree with arithmetic that cannot overflow. */
#include "base/rng.h"
#include "model/gguf_parse.h"
#include "support/gguf_writer.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide; // what -Wpedantic wants said aloud

/* Finishes the file and asserts that it is refused so. */
static void refused(struct gguf_writer *w, ruvllm_status status, const char *sentence)
{
    struct ruvllm_error err = {0};
    struct rv_gguf_parse parse;
    size_t len;
    char *file = gguf_writer_finish(w, &len);

    assert_fails(rv_gguf_parse_init(&parse, file, len, &err), status, err, sentence);
    rv_gguf_parse_release(&parse);
    free(file);
}

static void accepted(struct gguf_writer *w)
{
    struct rv_gguf_parse parse;
    size_t len;
    char *file = gguf_writer_finish(w, &len);

    assert_ok(rv_gguf_parse_init(&parse, file, len, err));
    rv_gguf_parse_release(&parse);
    free(file);
}

static void a_file_without_the_magic_is_refused(void **state)
{
    struct ruvllm_error err = {0};
    struct rv_gguf_parse parse;
    struct gguf_writer w;

    (void)state;
    gguf_writer_init(&w);
    w.magic[0] = 'X';
    refused(&w, RUVLLM_FORMAT, "not a GGUF file");
    assert_fails(rv_gguf_parse_init(&parse, NULL, 0, &err), RUVLLM_FORMAT, err, "not a GGUF file");
    assert_fails(rv_gguf_parse_init(&parse, "GGUF\3", 5, &err), RUVLLM_FORMAT, err, "file ends within its header");
    assert_fails(rv_gguf_parse_init(&parse, "GGUF\3\0\0\0\0", 9, &err), RUVLLM_FORMAT, err,
                 "file ends within its header");
}

static void versions_two_and_three_are_read_and_no_others(void **state)
{
    static const struct {
        uint32_t version;
        const char *sentence; // NULL: accepted
    } cases[] = {
        {0, "GGUF version 0 is unknown"},
        {1, "GGUF version 1 is not supported"},
        {2, NULL},
        {3, NULL},
        {4, "GGUF version 4 is unknown"},
        {0x02000000, "big-endian"},
        {0x03000000, "big-endian"},
    };
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gguf_writer_init(&w);
        gguf_writer_str(&w, "general.name", "x");
        w.version = cases[i].version;
        if (cases[i].sentence)
            refused(&w, RUVLLM_UNSUPPORTED, cases[i].sentence);
        else
            accepted(&w);
    }
}

static void counts_the_file_has_no_room_for_are_refused(void **state)
{
    static const uint64_t counts[] = {2, 1000, UINT32_MAX, UINT64_MAX / 80 + 1, INT64_MAX, UINT64_MAX - 1};
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        gguf_writer_init(&w);
        gguf_writer_u8(&w, "k", 1);
        w.claimed_kvs = counts[i];
        refused(&w, RUVLLM_FORMAT, "metadata entries, which do not fit into it");
        gguf_writer_init(&w);
        gguf_writer_u8(&w, "k", 1);
        gguf_writer_raw_tensor(&w, "t", 1, 0, NULL, GGML_TYPE_I8, 0);
        w.claimed_tensors = counts[i];
        refused(&w, RUVLLM_FORMAT, "tensors, which do not fit into it");
    }
    /* Room for the descriptions, but not for a byte of data each. */
    gguf_writer_init(&w);
    for (int i = 0; i < 20; i++)
        gguf_writer_raw_tensor(&w, "t", 1, 0, NULL, GGML_TYPE_I8, 0);
    refused(&w, RUVLLM_FORMAT, "file claims 20 tensors, which do not fit into it");
}

static void bad_keys_are_refused(void **state)
{
    static const char rest[] = {0, 0, 0, 0, 7}; // a u8
    struct gguf_writer w;
    char *longest = calloc(1, 65536);

    (void)state;
    memset(longest, 'k', 65536);
    gguf_writer_init(&w);
    gguf_writer_raw_kv(&w, "", 0, 0, rest, sizeof(rest));
    gguf_writer_raw_data(&w, rest, sizeof(rest));
    refused(&w, RUVLLM_FORMAT, "key of metadata entry 0 is empty");
    gguf_writer_init(&w);
    gguf_writer_u8(&w, "first", 1);
    gguf_writer_raw_kv(&w, "key", 3, UINT64_MAX - 3, rest, sizeof(rest));
    refused(&w, RUVLLM_FORMAT, "key of metadata entry 1 runs beyond the end of the file");
    gguf_writer_init(&w);
    gguf_writer_raw_kv(&w, longest, 65536, 65536, rest, sizeof(rest));
    refused(&w, RUVLLM_FORMAT, "key of metadata entry 0 is longer than 65535 bytes");
    gguf_writer_init(&w);
    gguf_writer_raw_kv(&w, longest, 65535, 65535, rest, sizeof(rest));
    accepted(&w);
    gguf_writer_init(&w);
    gguf_writer_u8(&w, "twice", 1);
    gguf_writer_u8(&w, "other", 1);
    gguf_writer_str(&w, "twice", "again");
    refused(&w, RUVLLM_FORMAT, "metadata 'twice' appears twice");
    free(longest);
}

/* An entry 'k' whose bytes from the type on are these 32-bit words. */
static void words(struct gguf_writer *w, const uint32_t *rest, size_t n)
{
    gguf_writer_init(w);
    gguf_writer_raw_kv(w, "k", 1, 1, rest, n * sizeof(*rest));
}

static void bad_values_are_refused(void **state)
{
    struct gguf_writer w;
    uint8_t flags[] = {0, 1, 255, 1};

    (void)state;
    words(&w, (uint32_t[]){13, 0}, 2);
    refused(&w, RUVLLM_FORMAT, "metadata 'k' has an unknown type");
    words(&w, (uint32_t[]){RV_GGUF_ARRAY, UINT32_MAX, 0, 0}, 4);
    refused(&w, RUVLLM_FORMAT, "metadata 'k' has an unknown type");
    words(&w, (uint32_t[]){RV_GGUF_U64, 0}, 2);
    refused(&w, RUVLLM_FORMAT, "metadata 'k' runs beyond the end of the file");
    words(&w, (uint32_t[]){RV_GGUF_ARRAY, RV_GGUF_U8}, 2);
    refused(&w, RUVLLM_FORMAT, "metadata 'k' runs beyond the end of the file");
    words(&w, (uint32_t[]){RV_GGUF_ARRAY, RV_GGUF_ARRAY, 1, 0, RV_GGUF_U8, 0, 0}, 7);
    refused(&w, RUVLLM_FORMAT, "metadata 'k' is an array of arrays");
    words(&w, (uint32_t[]){RV_GGUF_STRING, 100, 0, 0}, 4);
    refused(&w, RUVLLM_FORMAT, "metadata 'k' has a string that runs beyond the end of the file");
    words(&w, (uint32_t[]){RV_GGUF_STRING, UINT32_MAX, UINT32_MAX, 0}, 4);
    refused(&w, RUVLLM_FORMAT, "metadata 'k' has a string that runs beyond the end of the file");
    words(&w, (uint32_t[]){RV_GGUF_ARRAY, RV_GGUF_STRING, 2, 0, 0, 0, UINT32_MAX, UINT32_MAX}, 8);
    refused(&w, RUVLLM_FORMAT, "metadata 'k' has a string that runs beyond the end of the file");
    /* Counts whose product with the element size wraps to something small. */
    words(&w, (uint32_t[]){RV_GGUF_ARRAY, RV_GGUF_U64, 1, 0x20000000, 0, 0}, 6);
    refused(&w, RUVLLM_FORMAT, "metadata 'k' runs beyond the end of the file");
    words(&w, (uint32_t[]){RV_GGUF_ARRAY, RV_GGUF_STRING, UINT32_MAX, UINT32_MAX, 0, 0}, 6);
    refused(&w, RUVLLM_FORMAT, "metadata 'k' runs beyond the end of the file");
    gguf_writer_init(&w);
    gguf_writer_bool(&w, "flag", 2);
    refused(&w, RUVLLM_FORMAT, "metadata 'flag' has a bool that is neither 0 nor 1");
    gguf_writer_init(&w);
    gguf_writer_array(&w, "flags", RV_GGUF_BOOL, flags, 4);
    refused(&w, RUVLLM_FORMAT, "metadata 'flags' has a bool that is neither 0 nor 1");
}

static void names_in_messages_are_printable_and_short(void **state)
{
    char expected[80];
    struct gguf_writer w;
    char name[101];

    (void)state;
    gguf_writer_init(&w);
    gguf_writer_bool(&w, "a\n\x1b[31m\x7f\xffz", 2);
    refused(&w, RUVLLM_FORMAT, "metadata 'a??[31m??z' has");
    memset(name, 'n', 100);
    name[100] = '\0';
    snprintf(expected, sizeof(expected), "metadata '%.64s...'", name);
    gguf_writer_init(&w);
    gguf_writer_bool(&w, name, 2);
    refused(&w, RUVLLM_FORMAT, expected);
}

static void alignment_must_be_a_sane_power_of_two(void **state)
{
    static const uint32_t bad[] = {0, 1, 4, 7, 33, 48, (1 << 20) + 1, 1 << 21, UINT32_MAX};
    static const uint32_t good[] = {8, 16, 32, 64, 4096, 1 << 20};
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        gguf_writer_init(&w);
        gguf_writer_u32(&w, "general.alignment", bad[i]);
        refused(&w, RUVLLM_FORMAT, "not a power of two between 8 and 1048576");
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        gguf_writer_init(&w);
        gguf_writer_align(&w, good[i]);
        gguf_writer_tensor(&w, "a", GGML_TYPE_F32, 1, (int64_t[]){3}, NULL);
        gguf_writer_tensor(&w, "b", GGML_TYPE_F32, 1, (int64_t[]){5}, NULL);
        accepted(&w);
    }
    gguf_writer_init(&w);
    gguf_writer_str(&w, "general.alignment", "32");
    refused(&w, RUVLLM_FORMAT, "metadata 'general.alignment' is not a u32");
    gguf_writer_init(&w);
    gguf_writer_array(&w, "general.alignment", RV_GGUF_U32, &good[2], 1);
    refused(&w, RUVLLM_FORMAT, "metadata 'general.alignment' is not a u32");
}

/* One described tensor over a data section of 1 KiB. */
static void tensor(struct gguf_writer *w, const char *name, size_t name_len, uint32_t n_dims, const uint64_t *ne,
                   uint32_t type, uint64_t offset)
{
    static const char kilobyte[1024];

    gguf_writer_init(w);
    gguf_writer_raw_tensor(w, name, name_len, n_dims, ne, type, offset);
    gguf_writer_raw_data(w, kilobyte, sizeof(kilobyte));
}

static void bad_tensor_names_are_refused(void **state)
{
    char name[65];
    uint64_t one = 1;
    struct gguf_writer w;

    (void)state;
    memset(name, 'n', 64);
    name[64] = '\0';
    tensor(&w, name, 0, 1, &one, GGML_TYPE_F32, 0);
    refused(&w, RUVLLM_FORMAT, "name of tensor 0 is empty");
    tensor(&w, name, 64, 1, &one, GGML_TYPE_F32, 0);
    refused(&w, RUVLLM_FORMAT, "name of tensor 0 is longer than 63 bytes");
    tensor(&w, name, 63, 1, &one, GGML_TYPE_F32, 0);
    accepted(&w);
    tensor(&w, "a\0b", 3, 1, &one, GGML_TYPE_F32, 0);
    refused(&w, RUVLLM_FORMAT, "name of tensor 0 has a NUL byte in it");
    gguf_writer_init(&w);
    for (int i = 0; i < 3; i++)
        gguf_writer_tensor(&w, i == 1 ? "other" : "same", GGML_TYPE_F32, 1, (int64_t[]){1}, NULL);
    refused(&w, RUVLLM_FORMAT, "tensor 'same' appears twice");
}

static void bad_shapes_are_refused(void **state)
{
    struct gguf_writer w;

    (void)state;
    tensor(&w, "t", 1, 5, (uint64_t[]){1, 1, 1, 1, 1}, GGML_TYPE_F32, 0);
    refused(&w, RUVLLM_FORMAT, "tensor 't' has 5 dimensions, at most 4 are possible");
    tensor(&w, "t", 1, 2, (uint64_t[]){4, 0}, GGML_TYPE_F32, 0);
    refused(&w, RUVLLM_FORMAT, "tensor 't' has a dimension of 0");
    tensor(&w, "t", 1, 2, (uint64_t[]){4, UINT64_MAX}, GGML_TYPE_F32, 0);
    refused(&w, RUVLLM_FORMAT, "tensor 't' has a dimension of -1");
    tensor(&w, "t", 1, 2, (uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 32}, GGML_TYPE_F32, 0);
    refused(&w, RUVLLM_FORMAT, "tensor 't' of 4294967296 x 4294967296 x 1 x 1 is impossibly large");
    tensor(&w, "t", 1, 1, (uint64_t[]){INT64_MAX}, GGML_TYPE_F32, 0);
    refused(&w, RUVLLM_FORMAT, "is impossibly large");
    tensor(&w, "t", 1, 1, (uint64_t[]){33}, GGML_TYPE_Q8_0, 0);
    refused(&w, RUVLLM_FORMAT, "tensor 't' has rows of 33 elements, not whole blocks of 32 as q8_0 needs");
    tensor(&w, "t", 1, 0, NULL, GGML_TYPE_F32, 0);
    accepted(&w);
}

static void types_ggml_does_not_hold_are_refused(void **state)
{
    static const uint32_t bad[] = {4, 5, 31, 32, 33, 36, 37, 38, GGML_TYPE_COUNT, INT32_MAX, UINT32_MAX};
    uint64_t ne = 256;
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        tensor(&w, "t", 1, 1, &ne, bad[i], 0);
        refused(&w, RUVLLM_UNSUPPORTED, "which ggml does not know");
    }
}

static void misplaced_tensors_are_refused(void **state)
{
    uint64_t ne = 8;
    struct gguf_writer w;

    (void)state;
    tensor(&w, "t", 1, 1, &ne, GGML_TYPE_F32, 992);
    accepted(&w);
    tensor(&w, "t", 1, 1, &ne, GGML_TYPE_F32, 16);
    refused(&w, RUVLLM_FORMAT, "tensor 't' lies at offset 16, no multiple of 32");
    tensor(&w, "t", 1, 1, &ne, GGML_TYPE_F32, 1024);
    refused(&w, RUVLLM_FORMAT, "tensor 't' ends beyond the end of the file");
    tensor(&w, "t", 1, 1, &ne, GGML_TYPE_F32, 1056);
    refused(&w, RUVLLM_FORMAT, "tensor 't' begins beyond the end of the file");
    tensor(&w, "t", 1, 1, &ne, GGML_TYPE_F32, UINT64_MAX - 31);
    refused(&w, RUVLLM_FORMAT, "tensor 't' begins beyond the end of the file");
    ne = 257;
    tensor(&w, "t", 1, 1, &ne, GGML_TYPE_F32, 0);
    refused(&w, RUVLLM_FORMAT, "tensor 't' ends beyond the end of the file");
}

static void overlapping_tensors_are_refused_in_whatever_order_they_stand(void **state)
{
    static const uint64_t offsets[][3] = {{0, 32, 64}, {64, 32, 0}, {32, 0, 64}};
    static const char kilobyte[1024];
    uint64_t ne = 9; // 36 bytes: four more than the space between
    struct gguf_writer w;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (uint64_t n = 8; n <= ne; n++) {
            gguf_writer_init(&w);
            gguf_writer_raw_tensor(&w, "a", 1, 1, &n, GGML_TYPE_F32, offsets[i][0]);
            gguf_writer_raw_tensor(&w, "b", 1, 1, &n, GGML_TYPE_F32, offsets[i][1]);
            gguf_writer_raw_tensor(&w, "c", 1, 1, &n, GGML_TYPE_F32, offsets[i][2]);
            gguf_writer_raw_data(&w, kilobyte, sizeof(kilobyte));
            if (n == ne)
                refused(&w, RUVLLM_FORMAT, "overlap");
            else
                accepted(&w);
        }
    }
    gguf_writer_init(&w);
    gguf_writer_raw_tensor(&w, "a", 1, 1, &ne, GGML_TYPE_F32, 0);
    gguf_writer_raw_tensor(&w, "b", 1, 1, &ne, GGML_TYPE_F32, 0);
    gguf_writer_raw_data(&w, kilobyte, sizeof(kilobyte));
    refused(&w, RUVLLM_FORMAT, "overlap");
}

/* Every prefix: the message differs with where it was cut, but there always is one. */
static void every_beginning_of_a_file_is_refused(void **state)
{
    const char *const words_of[] = {"one", "two", "three"};
    struct gguf_writer w;
    size_t len;
    char *file;

    (void)state;
    gguf_writer_init(&w);
    gguf_writer_str(&w, "general.architecture", "llama");
    gguf_writer_array_str(&w, "tokens", words_of, 3);
    /* Names so long that the count of tensors stays believable when the second description is cut. */
    gguf_writer_tensor(&w, "a.rather.long.name.for.a.tensor.of.two.dimensions", GGML_TYPE_F32, 2, (int64_t[]){4, 2},
                       NULL);
    gguf_writer_tensor(&w, "another.long.name.for.a.tensor.of.one.dimension", GGML_TYPE_Q8_0, 1, (int64_t[]){64}, NULL);
    file = gguf_writer_finish(&w, &len);
    for (size_t cut = 0; cut < len; cut++) {
        struct ruvllm_error err = {0};
        struct rv_gguf_parse parse;
        char *part = malloc(cut ? cut : 1);

        memcpy(part, file, cut);
        assert_int_equal(rv_gguf_parse_init(&parse, part, cut, &err), RUVLLM_FORMAT);
        assert_true(strlen(err.message) > 10);
        rv_gguf_parse_release(&parse);
        free(part);
    }
    free(file);
}

/* Bytes of a tensor by 128-bit arithmetic; 0 for a shape that must be refused. */
static wide reference_bytes(enum ggml_type type, const int64_t ne[4])
{
    wide elements = 1, limit = (wide)INT64_MAX, bytes;
    int64_t block = ggml_blck_size(type);

    if (block == 0 || ggml_type_size(type) == 0 || ne[0] % block != 0)
        return 0;
    for (int i = 0; i < 4; i++) {
        if (ne[i] < 1)
            return 0;
        elements *= (uint64_t)ne[i]; // below 2^63 * 2^63 as long as it is checked each time
        if (elements > limit)
            return 0;
    }
    bytes = elements / (uint64_t)block * ggml_type_size(type);
    return bytes > limit ? 0 : bytes;
}

/* Small, around powers of two, or anything: sizes near the edges are the ones that went wrong elsewhere. */
static int64_t random_dimension(struct rv_rng *rng)
{
    switch (rv_rng_below(rng, 4)) {
    case 0:
        return (int64_t)rv_rng_below(rng, 5);
    case 1:
        return (int64_t)(rv_rng_below(rng, 64) * 32);
    case 2:
        return (int64_t)((UINT64_C(1) << rv_rng_below(rng, 63)) + rv_rng_below(rng, 3) - 1);
    default:
        return (int64_t)(rv_rng_next(rng) >> rv_rng_below(rng, 64));
    }
}

static void sizes_equal_the_128_bit_reference_or_are_refused(void **state)
{
    size_t n_accepted = 0, n_refused = 0;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 1);
    for (int i = 0; i < 500000; i++) {
        enum ggml_type type = (enum ggml_type)rv_rng_below(&rng, GGML_TYPE_COUNT);
        int64_t ne[4] = {1, 1, 1, 1};
        uint64_t n_bytes = 0;
        wide expected;
        bool ok;

        for (uint64_t j = 0, n = rv_rng_below(&rng, 5); j < n; j++)
            ne[j] = random_dimension(&rng);
        if (rv_rng_below(&rng, 2) && ggml_blck_size(type))
            ne[0] -= ne[0] % ggml_blck_size(type);
        expected = reference_bytes(type, ne);
        ok = rv_gguf_parse_tensor_bytes(type, ne, &n_bytes);
        if (ok != (expected != 0) || (wide)n_bytes != expected)
            fail_msg("type %d of %lld x %lld x %lld x %lld gives %llu", (int)type, (long long)ne[0], (long long)ne[1],
                     (long long)ne[2], (long long)ne[3], (unsigned long long)n_bytes);
        n_accepted += ok;
        n_refused += !ok;
    }
    assert_true(n_accepted > 50000);
    assert_true(n_refused > 50000);
}

/* The same through whole files: what is accepted has the reference's size, what does not fit the file is not. */
static void sizes_in_files_equal_the_128_bit_reference_or_are_refused(void **state)
{
    static const char data[4096];
    size_t n_accepted = 0;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 2);
    for (int i = 0; i < 20000; i++) {
        enum ggml_type type = (enum ggml_type)rv_rng_below(&rng, GGML_TYPE_COUNT);
        uint32_t n_dims = (uint32_t)rv_rng_below(&rng, 5);
        int64_t ne[4] = {1, 1, 1, 1};
        uint64_t raw[4];
        struct rv_gguf_parse parse;
        struct gguf_writer w;
        size_t len;
        char *file;
        wide expected;

        for (uint32_t j = 0; j < n_dims; j++)
            ne[j] = rv_rng_below(&rng, 3) ? 1 + (int64_t)rv_rng_below(&rng, 40) : random_dimension(&rng);
        if (rv_rng_below(&rng, 2) && n_dims && ggml_blck_size(type))
            ne[0] = ggml_blck_size(type) * (1 + (int64_t)rv_rng_below(&rng, 3));
        memcpy(raw, ne, sizeof(raw));
        gguf_writer_init(&w);
        gguf_writer_raw_tensor(&w, "t", 1, n_dims, raw, (uint32_t)type, 0);
        gguf_writer_raw_data(&w, data, sizeof(data));
        file = gguf_writer_finish(&w, &len);
        expected = reference_bytes(type, ne);
        if (rv_gguf_parse_init(&parse, file, len, NULL) == RUVLLM_OK) {
            assert_true((wide)parse.tensors[0].n_bytes == expected);
            assert_true(expected <= sizeof(data));
            n_accepted++;
        } else {
            assert_true(expected == 0 || expected > sizeof(data));
        }
        rv_gguf_parse_release(&parse);
        free(file);
    }
    assert_true(n_accepted > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_without_the_magic_is_refused),
        cmocka_unit_test(versions_two_and_three_are_read_and_no_others),
        cmocka_unit_test(counts_the_file_has_no_room_for_are_refused),
        cmocka_unit_test(bad_keys_are_refused),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(names_in_messages_are_printable_and_short),
        cmocka_unit_test(alignment_must_be_a_sane_power_of_two),
        cmocka_unit_test(bad_tensor_names_are_refused),
        cmocka_unit_test(bad_shapes_are_refused),
        cmocka_unit_test(types_ggml_does_not_hold_are_refused),
        cmocka_unit_test(misplaced_tensors_are_refused),
        cmocka_unit_test(overlapping_tensors_are_refused_in_whatever_order_they_stand),
        cmocka_unit_test(every_beginning_of_a_file_is_refused),
        cmocka_unit_test(sizes_equal_the_128_bit_reference_or_are_refused),
        cmocka_unit_test(sizes_in_files_equal_the_128_bit_reference_or_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
