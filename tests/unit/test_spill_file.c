/* Blocks that leave the pool come back as they were, or not at all. */
#include "base/log.h"
#include "kv/spill_file.h"
#include "support/kv_fixture.h"
#include "support/spill_fixture.h"
#include "support/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCKS = 16, B = RV_KV_BLOCK_TOKENS };

struct fixture {
    struct rv_block_pool *pool;
    struct rv_spill_file *spill;
    int n_logged;
    char line[512];
};

static void log_to(void *user, ruvllm_log_level level, const char *line)
{
    struct fixture *f = user;

    (void)level;
    f->n_logged++;
    snprintf(f->line, sizeof(f->line), "%s", line);
}

/* Room for n_blocks in full precision. */
static void open_with(struct fixture *f, int32_t n_blocks)
{
    struct rv_spill_file_config config = {.dir = "/tmp"};

    *f = (struct fixture){.pool = kv_fixture_pool(BLOCKS)};
    config.pool = f->pool;
    config.budget = (uint64_t)n_blocks * rv_block_pool_block_bytes(f->pool, RV_KV_BLOCK_F16);
    assert_ok(rv_spill_file_open(&f->spill, &config, err));
    rv_log_set(RUVLLM_LOG_WARN, log_to, f);
}

static void close_all(struct fixture *f)
{
    assert_true(rv_spill_file_check(f->spill));
    assert_true(rv_block_pool_check(f->pool));
    assert_int_equal(rv_spill_file_n_blocks(f->spill), 0);
    assert_int_equal(rv_block_pool_used(f->pool), 0);
    rv_spill_file_close(f->spill);
    rv_block_pool_free(f->pool);
    rv_log_set(RUVLLM_LOG_OFF, NULL, NULL);
}

/* A block of the same token everywhere. */
static int32_t make_block(struct fixture *f, int32_t token, enum rv_kv_block_format format)
{
    int32_t block = rv_block_pool_take(f->pool, RV_KV_BLOCK_F16);

    assert_true(block >= 0);
    for (int32_t i = 0; i < B; i++)
        kv_fixture_write(f->pool, block, i, token);
    if (format != RV_KV_BLOCK_F16)
        rv_block_pool_convert(f->pool, block, format);
    return block;
}

static bool spill(struct fixture *f, struct rv_spill_run *run, int32_t token, enum rv_kv_block_format format)
{
    int32_t block = make_block(f, token, format);
    bool is_spilled = rv_spill_file_put(f->spill, run, block);

    rv_block_pool_unref(f->pool, block);
    assert_true(rv_spill_file_check(f->spill));
    return is_spilled;
}

static void restore(struct fixture *f, struct rv_spill_run *run, int32_t token, enum rv_kv_block_format format)
{
    int32_t block = rv_spill_file_get(f->spill, run);

    assert_true(block >= 0);
    assert_int_equal(rv_block_pool_refs(f->pool, block), 1);
    assert_int_equal(rv_block_pool_format(f->pool, block), format);
    for (int32_t i = 0; i < B; i++)
        assert_int_equal(kv_fixture_read(f->pool, block, i), token);
    rv_block_pool_unref(f->pool, block);
    assert_true(rv_spill_file_check(f->spill));
}

static void blocks_come_back_in_order_and_precision(void **state)
{
    static const enum rv_kv_block_format formats[] = {RV_KV_BLOCK_F16, RV_KV_BLOCK_Q4, RV_KV_BLOCK_Q8};
    struct rv_spill_run a = {0}, b = {0};
    struct fixture f;

    (void)state;
    open_with(&f, 12);
    for (int32_t i = 0; i < 6; i++) {
        assert_true(spill(&f, &a, 1 + i, formats[i % 3]));
        assert_true(spill(&f, &b, 7 + i % 5, formats[i % 2]));
    }
    assert_int_equal(a.n_blocks, 6);
    assert_int_equal(rv_spill_file_n_blocks(f.spill), 12);
    for (int32_t i = 0; i < 6; i++) {
        restore(&f, &a, 1 + i, formats[i % 3]);
        restore(&f, &b, 7 + i % 5, formats[i % 2]);
    }
    assert_int_equal(a.n_blocks + b.n_blocks, 0);
    close_all(&f);
}

static void every_byte_comes_back(void **state)
{
    struct rv_spill_run run = {0};
    size_t bytes;
    uint8_t *data;
    int32_t block;
    struct fixture f;

    (void)state;
    open_with(&f, 4);
    bytes = rv_block_pool_block_bytes(f.pool, RV_KV_BLOCK_F16);
    block = rv_block_pool_take(f.pool, RV_KV_BLOCK_F16);
    data = rv_block_pool_data(f.pool, block);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 31 + i / 251);
    assert_true(rv_spill_file_put(f.spill, &run, block));
    rv_block_pool_unref(f.pool, block); // poisoned
    block = rv_spill_file_get(f.spill, &run);
    data = rv_block_pool_data(f.pool, block);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(data[i], (uint8_t)(i * 31 + i / 251));
    rv_block_pool_unref(f.pool, block);
    close_all(&f);
}

static void a_full_file_takes_nothing_more_and_places_are_reused(void **state)
{
    struct rv_spill_run run = {0}, other = {0};
    struct fixture f;
    int32_t n = 0;

    (void)state;
    open_with(&f, 4);
    for (int round = 0; round < 20; round++) {
        while (spill(&f, &run, 1 + n % 9, n % 2 ? RV_KV_BLOCK_Q4 : RV_KV_BLOCK_F16))
            n++;
        assert_false(spill(&f, &other, 1, RV_KV_BLOCK_F16));
        assert_int_equal(other.n_blocks, 0);
        assert_int_equal(run.n_blocks, rv_spill_file_n_blocks(f.spill));
        assert_true(run.n_blocks >= 4);
        if (round % 2)
            rv_spill_file_drop(f.spill, &run);
        else
            rv_spill_file_skip(f.spill, &run);
    }
    rv_spill_file_drop(f.spill, &run);
    assert_int_equal(rv_spill_file_n_failed(f.spill), 0); // being full is no failure
    assert_true(spill_fixture_size() <= (off_t)(4 * rv_block_pool_block_bytes(f.pool, RV_KV_BLOCK_F16)));
    close_all(&f);
}

static void bytes_are_counted_as_the_pool_does(void **state)
{
    struct rv_spill_run run = {0};
    size_t f16, q4;
    struct fixture f;

    (void)state;
    open_with(&f, 8);
    f16 = rv_block_pool_block_bytes(f.pool, RV_KV_BLOCK_F16);
    q4 = rv_block_pool_block_bytes(f.pool, RV_KV_BLOCK_Q4);
    assert_int_equal(rv_spill_file_bytes(f.spill, &run, 0, INT32_MAX), 0);
    assert_true(spill(&f, &run, 1, RV_KV_BLOCK_F16));
    assert_true(spill(&f, &run, 2, RV_KV_BLOCK_Q4));
    assert_true(spill(&f, &run, 3, RV_KV_BLOCK_Q4));
    assert_int_equal(rv_spill_file_bytes(f.spill, &run, 0, INT32_MAX), f16 + 2 * q4);
    assert_int_equal(rv_spill_file_bytes(f.spill, &run, 1, INT32_MAX), 2 * q4);
    assert_int_equal(rv_spill_file_bytes(f.spill, &run, 1, 1), q4);
    assert_int_equal(rv_spill_file_bytes(f.spill, &run, 0, 1), f16);
    assert_int_equal(rv_spill_file_bytes(f.spill, &run, 5, INT32_MAX), 0);
    rv_spill_file_drop(f.spill, &run);
    close_all(&f);
}

static void a_full_pool_leaves_the_run_as_it_is(void **state)
{
    struct rv_spill_run run = {0};
    int32_t blocks[BLOCKS];
    struct fixture f;

    (void)state;
    open_with(&f, 4);
    assert_true(spill(&f, &run, 5, RV_KV_BLOCK_F16));
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = make_block(&f, 1, RV_KV_BLOCK_F16);
    assert_int_equal(rv_spill_file_get(f.spill, &run), -1);
    assert_int_equal(run.n_blocks, 1);
    assert_int_equal(rv_spill_file_n_failed(f.spill), 0);
    for (int i = 0; i < BLOCKS; i++)
        rv_block_pool_unref(f.pool, blocks[i]);
    restore(&f, &run, 5, RV_KV_BLOCK_F16);
    close_all(&f);
}

static void changed_bytes_are_not_taken_for_a_block(void **state)
{
    struct rv_spill_run good = {0}, bad = {0};
    struct fixture f;

    (void)state;
    open_with(&f, 4);
    assert_true(spill(&f, &bad, 5, RV_KV_BLOCK_F16));
    assert_true(spill(&f, &good, 6, RV_KV_BLOCK_Q8));
    spill_fixture_damage(0, 1);
    assert_int_equal(rv_spill_file_get(f.spill, &bad), -1);
    assert_int_equal(rv_spill_file_get(f.spill, &bad), -1);
    assert_int_equal(rv_spill_file_n_failed(f.spill), 2);
    assert_int_equal(f.n_logged, 1);
    assert_non_null(strstr(f.line, "other bytes than were written"));
    assert_int_equal(rv_block_pool_used(f.pool), 0);
    rv_spill_file_drop(f.spill, &bad);
    restore(&f, &good, 6, RV_KV_BLOCK_Q8);
    close_all(&f);
}

static void a_file_that_cannot_be_read_or_written_only_counts(void **state)
{
    struct rv_spill_run run = {0};
    struct fixture f;
    int kept;

    (void)state;
    open_with(&f, 4);
    assert_true(spill(&f, &run, 5, RV_KV_BLOCK_F16));
    kept = spill_fixture_break();
    assert_int_equal(rv_spill_file_get(f.spill, &run), -1);
    assert_false(spill(&f, &run, 6, RV_KV_BLOCK_F16));
    assert_int_equal(run.n_blocks, 1);
    assert_int_equal(rv_spill_file_n_failed(f.spill), 2);
    assert_int_equal(f.n_logged, 1);
    assert_non_null(strstr(f.line, "cannot read from the spill file"));
    spill_fixture_mend(kept);
    restore(&f, &run, 5, RV_KV_BLOCK_F16);
    close_all(&f);
}

/* As a full disk does, in the middle of a block. */
static void a_write_that_ends_early_takes_no_place(void **state)
{
    struct rv_spill_run run = {0};
    struct rlimit old, small;
    struct fixture f;

    (void)state;
    open_with(&f, 8);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 2 * rv_block_pool_block_bytes(f.pool, RV_KV_BLOCK_F16) + 4096;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_true(spill(&f, &run, 1, RV_KV_BLOCK_F16));
    assert_true(spill(&f, &run, 2, RV_KV_BLOCK_F16));
    assert_false(spill(&f, &run, 3, RV_KV_BLOCK_F16));
    assert_int_equal(run.n_blocks, 2);
    assert_int_equal(rv_spill_file_n_failed(f.spill), 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_non_null(strstr(f.line, "cannot write to the spill file"));
    assert_true(spill(&f, &run, 3, RV_KV_BLOCK_F16));
    for (int32_t i = 0; i < 3; i++)
        restore(&f, &run, 1 + i, RV_KV_BLOCK_F16);
    close_all(&f);
}

static void the_file_has_no_name_and_is_its_owners(void **state)
{
    struct stat info;
    struct fixture f;

    (void)state;
    open_with(&f, 4);
    assert_int_equal(fstat(spill_fixture_fd(), &info), 0);
    assert_int_equal(info.st_nlink, 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    close_all(&f);
}

static void what_cannot_be_opened_is_an_error(void **state)
{
    struct rv_spill_file_config config = {.pool = kv_fixture_pool(2), .dir = "/tmp/there/is/no/such/folder"};
    struct ruvllm_error failure;
    struct rv_spill_file *spill_file;

    (void)state;
    config.budget = 1 << 20;
    assert_fails(rv_spill_file_open(&spill_file, &config, &failure), RUVLLM_NOT_FOUND, failure, "no/such/folder");
    config.dir = "/dev/null";
    assert_fails(rv_spill_file_open(&spill_file, &config, &failure), RUVLLM_IO, failure, "cannot make a spill file");
    config.dir = "/tmp";
    config.budget = 100;
    assert_fails(rv_spill_file_open(&spill_file, &config, &failure), RUVLLM_INVALID, failure, "no room for a block");
    config.budget = UINT64_MAX;
    assert_fails(rv_spill_file_open(&spill_file, &config, &failure), RUVLLM_INVALID, failure, "places");
    assert_null(spill_file);
    rv_block_pool_free(config.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_come_back_in_order_and_precision),
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(a_full_file_takes_nothing_more_and_places_are_reused),
        cmocka_unit_test(bytes_are_counted_as_the_pool_does),
        cmocka_unit_test(a_full_pool_leaves_the_run_as_it_is),
        cmocka_unit_test(changed_bytes_are_not_taken_for_a_block),
        cmocka_unit_test(a_file_that_cannot_be_read_or_written_only_counts),
        cmocka_unit_test(a_write_that_ends_early_takes_no_place),
        cmocka_unit_test(the_file_has_no_name_and_is_its_owners),
        cmocka_unit_test(what_cannot_be_opened_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
