/*
 * Row 25 and rows 1 to 3 of the classes, for safetensors: what overflowed, lay outside or asked for memory in readers
 * of other formats, put into a header of this one. Each is refused with a sentence, nothing behind the last byte is
 * read, and memory stays within 16 times the header and a megabyte.
 */
#define _DEFAULT_SOURCE // MAP_ANONYMOUS
#include "alloc_meter.h"
#include "base/rng.h"
#include "model/safetensors.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Opens a copy that ends where a page nobody may touch begins. */
static ruvllm_status open_guarded(const unsigned char *bytes, size_t len, size_t header, struct ruvllm_error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (len + page - 1) / page * page, used;
    unsigned char *pages = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct rv_safetensors *file;
    ruvllm_status rc;

    assert_true(pages != MAP_FAILED);
    memcpy(pages + room - len, bytes, len);
    assert_int_equal(mprotect(pages + room, page, PROT_NONE), 0);
    alloc_meter_start();
    rc = rv_safetensors_open_memory(&file, pages + room - len, len, err);
    used = alloc_meter_stop();
    if (used > 16 * header + (1 << 20))
        fail_msg("%zu bytes were allocated for a header of %zu", used, header);
    assert_true((rc == RUVLLM_OK) == (file != NULL));
    rv_safetensors_close(file);
    munmap(pages, room + page);
    return rc;
}

static ruvllm_status open_header(const char *header, size_t header_len, size_t n_data, struct ruvllm_error *err)
{
    unsigned char *bytes = calloc(1, 8 + header_len + n_data);
    uint64_t prefix = header_len;
    ruvllm_status rc;

    assert_non_null(bytes);
    memcpy(bytes, &prefix, 8);
    memcpy(bytes + 8, header, header_len);
    rc = open_guarded(bytes, 8 + header_len + n_data, header_len, err);
    free(bytes);
    return rc;
}

static void shapes_that_overflow_are_refused(void **state)
{
    static const char *const shapes[] = {"[4294967296,4294967296]",
                                         "[2147483648,2147483648,4]",
                                         "[9223372036854775807]",
                                         "[9223372036854775808]",
                                         "[18446744073709551615]",
                                         "[4611686018427387905]",
                                         "[65536,65536,65536,65536]",
                                         "[-1,-4]",
                                         "[1e3]",
                                         "[99999999999999999999999]"};

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct ruvllm_error fault = {0};
        char header[256];

        snprintf(header, sizeof(header), "{\"a\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[0,4]}}", shapes[i]);
        assert_int_equal(open_header(header, strlen(header), 4, &fault), RUVLLM_FORMAT);
        assert_true(fault.message[0] != '\0');
    }
}

static void places_outside_the_file_are_refused(void **state)
{
    static const char *const places[] = {"[0,5]",
                                         "[4,8]",
                                         "[18446744073709551612,0]",
                                         "[18446744073709551612,18446744073709551615]",
                                         "[-4,0]",
                                         "[1,4]",
                                         "[0,4,8]",
                                         "[]",
                                         "{}",
                                         "[9223372036854775804,9223372036854775808]"};

    (void)state;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct ruvllm_error fault = {0};
        char header[256];

        snprintf(header, sizeof(header), "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":%s}}", places[i]);
        assert_int_equal(open_header(header, strlen(header), 4, &fault), RUVLLM_FORMAT);
        assert_true(fault.message[0] != '\0');
    }
}

static void small_files_cannot_ask_for_much_memory(void **state)
{
    static const char *const fills[] = {"[", "{\"a\":", "[],", "\"\":0,", "1,", "\"a\":{},"};
    enum { LEN = 400000 };
    char *header = malloc(LEN);

    (void)state;
    assert_non_null(header);
    for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++) {
        size_t len = strlen(fills[i]);
        struct ruvllm_error fault = {0};

        memcpy(header, "{\"a\":[", 6);
        for (size_t at = 6; at < LEN; at++)
            header[at] = fills[i][(at - 6) % len];
        if (i == 3 || i == 5) // members, not elements
            header[0] = '{', header[1] = ' ', memset(header + 1, ' ', 5);
        assert_int_equal(open_header(header, LEN, 0, &fault), RUVLLM_FORMAT);
    }
    free(header);
}

static void names_cannot_forge_log_lines(void **state)
{
    static const char header[] = "{\"a\\n\\u001b[31mfatal\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}";
    struct ruvllm_error fault = {0};

    (void)state;
    assert_int_equal(open_header(header, sizeof(header) - 1, 4, &fault), RUVLLM_FORMAT);
    assert_null(strchr(fault.message, '\n'));
    assert_null(strchr(fault.message, '\x1b'));
}

/* A good file with bytes changed at random: a clean answer each time. */
static void mutations_are_clean(void **state)
{
    static const char good[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                               "\"x\":{\"dtype\":\"F16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
                               "\"y\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[12,16]}}";
    unsigned char bytes[8 + sizeof(good) - 1 + 16] = {0};
    uint64_t prefix = sizeof(good) - 1;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 25);
    for (int round = 0; round < 3000; round++) {
        struct ruvllm_error fault = {0};
        int n = 1 + (int)(rv_rng_next(&rng) % 4);
        ruvllm_status rc;

        memcpy(bytes, &prefix, 8);
        memcpy(bytes + 8, good, sizeof(good) - 1);
        for (int i = 0; i < n; i++)
            bytes[rv_rng_next(&rng) % sizeof(bytes)] = (unsigned char)rv_rng_next(&rng);
        rc = open_guarded(bytes, sizeof(bytes), sizeof(good), &fault);
        assert_true(rc == RUVLLM_OK || rc == RUVLLM_FORMAT || rc == RUVLLM_UNSUPPORTED);
        assert_true(rc == RUVLLM_OK || fault.message[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_that_overflow_are_refused),
        cmocka_unit_test(places_outside_the_file_are_refused),
        cmocka_unit_test(small_files_cannot_ask_for_much_memory),
        cmocka_unit_test(names_cannot_forge_log_lines),
        cmocka_unit_test(mutations_are_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
