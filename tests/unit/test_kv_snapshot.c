/* Sessions on disk: what was saved comes back; what is damaged, foreign or half written never does. */
#include "kv/kv_snapshot.h"
#include "support/test.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { N_BLOCKS = 5, TOKENS = RV_KV_BLOCK_TOKENS };

/* Blocks of made-up sizes, all bytes telling which edition they are of. */
struct scene {
    struct rv_kv_snapshot snapshot;
    int32_t tokens[N_BLOCKS * TOKENS];
    uint8_t formats[N_BLOCKS];
    const uint8_t *blocks[N_BLOCKS];
    uint8_t bytes[N_BLOCKS][8192];
};

static const uint64_t block_bytes[RV_KV_BLOCK_N_FORMATS] = {8192, 4352, 2304};
static const struct rv_kv_snapshot_identity identity = {
    .model = 1, .adapter_layers = 2, .chat_template = 3, .tenant = 4};

static void scene_init(struct scene *s, uint8_t edition)
{
    memset(s->bytes, edition, sizeof(s->bytes));
    for (int i = 0; i < N_BLOCKS; i++) {
        s->formats[i] = (uint8_t)(i % RV_KV_BLOCK_N_FORMATS);
        s->blocks[i] = s->bytes[i];
        s->bytes[i][7] = (uint8_t)i;
    }
    for (int i = 0; i < N_BLOCKS * TOKENS; i++)
        s->tokens[i] = i * 3 + edition;
    s->snapshot = (struct rv_kv_snapshot){
        .identity = identity, .n_blocks = N_BLOCKS, .tokens = s->tokens, .formats = s->formats, .blocks = s->blocks};
    memcpy(s->snapshot.block_bytes, block_bytes, sizeof(block_bytes));
}

/* Loads the file and returns its edition, after comparing all of it. */
static uint8_t load(const char *path)
{
    static struct scene expected;
    struct rv_kv_snapshot_file *file;
    const struct rv_kv_snapshot *s;
    uint8_t edition;

    assert_ok(rv_kv_snapshot_load(&file, path, &identity, block_bytes, err));
    s = rv_kv_snapshot_of(file);
    edition = s->blocks[0][0];
    scene_init(&expected, edition);
    assert_int_equal(s->n_blocks, N_BLOCKS);
    assert_memory_equal(s->tokens, expected.tokens, sizeof(expected.tokens));
    for (int i = 0; i < N_BLOCKS; i++) {
        assert_int_equal(s->formats[i], expected.formats[i]);
        assert_memory_equal(s->blocks[i], expected.blocks[i], block_bytes[s->formats[i]]);
    }
    rv_kv_snapshot_close(file);
    return edition;
}

static void what_was_saved_comes_back(void **state)
{
    static struct scene s;
    const char *path = test_temp_path(".session");

    (void)state;
    scene_init(&s, 1);
    assert_ok(rv_kv_snapshot_save(&s.snapshot, path, err));
    assert_int_equal(load(path), 1);
    scene_init(&s, 2);
    assert_ok(rv_kv_snapshot_save(&s.snapshot, path, err));
    assert_int_equal(load(path), 2);
}

static void another_owner_is_refused_by_name(void **state)
{
    static struct scene s;
    const char *path = test_temp_path(".session");
    struct rv_kv_snapshot_identity other = identity;
    struct rv_kv_snapshot_file *file;
    struct ruvllm_error failure;
    uint64_t sizes[RV_KV_BLOCK_N_FORMATS] = {1, 2, 3};

    (void)state;
    scene_init(&s, 1);
    assert_ok(rv_kv_snapshot_save(&s.snapshot, path, err));
    other.model++;
    assert_fails(rv_kv_snapshot_load(&file, path, &other, block_bytes, &failure), RUVLLM_INVALID, failure, "model");
    other = identity;
    other.adapter_layers++;
    assert_fails(rv_kv_snapshot_load(&file, path, &other, block_bytes, &failure), RUVLLM_INVALID, failure, "adapter");
    other = identity;
    other.chat_template++;
    assert_fails(rv_kv_snapshot_load(&file, path, &other, block_bytes, &failure), RUVLLM_INVALID, failure, "template");
    other = identity;
    other.tenant++;
    assert_fails(rv_kv_snapshot_load(&file, path, &other, block_bytes, &failure), RUVLLM_INVALID, failure, "tenant");
    assert_fails(rv_kv_snapshot_load(&file, path, &identity, sizes, &failure), RUVLLM_INVALID, failure, "model");
    assert_fails(rv_kv_snapshot_load(&file, "/nowhere/at/all", &identity, block_bytes, &failure), RUVLLM_NOT_FOUND,
                 failure, "cannot load session");
}

static void damage_anywhere_is_noticed(void **state)
{
    static struct scene s;
    const char *path = test_temp_path(".session");
    struct rv_kv_snapshot out;
    struct ruvllm_error failure;
    struct rv_rng rng;
    size_t len;
    char *file;

    (void)state;
    scene_init(&s, 1);
    assert_ok(rv_kv_snapshot_save(&s.snapshot, path, err));
    file = test_read_file(path, &len);
    rv_rng_init(&rng, 1);
    for (int i = 0; i < 2000; i++) {
        /* Half of the flips in the head, which is short and says most. */
        size_t at = (size_t)rv_rng_below(&rng, i % 2 ? len : 1024);
        char bit = (char)(1 << rv_rng_below(&rng, 8));

        file[at] ^= bit;
        if (rv_kv_snapshot_parse((const uint8_t *)file, len, &out, &failure) == RUVLLM_OK)
            fail_msg("bit %d of byte %zu does not matter", bit, at);
        assert_int_not_equal(failure.message[0], '\0');
        file[at] ^= bit;
    }
    for (int i = 0; i < 500; i++) {
        size_t cut = (size_t)rv_rng_below(&rng, len);
        if (rv_kv_snapshot_parse((const uint8_t *)file, cut, &out, &failure) == RUVLLM_OK)
            fail_msg("cut at %zu does not matter", cut);
    }
    assert_ok(rv_kv_snapshot_parse((const uint8_t *)file, len, &out, err));
    rv_free((void *)(uintptr_t)out.blocks);
    free(file);
}

/* A process that saves over and over is killed at some moment: the file is one edition or the other, whole. */
static void a_kill_while_saving_leaves_a_whole_session(void **state)
{
    static struct scene s;
    const char *path = test_temp_path(".session");
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 2);
    scene_init(&s, 1);
    assert_ok(rv_kv_snapshot_save(&s.snapshot, path, err));
    for (int round = 0; round < 100; round++) {
        const struct timespec pause = {.tv_nsec = (long)rv_rng_below(&rng, 3000000)};
        pid_t child = fork();
        uint8_t edition;

        assert_true(child >= 0);
        if (child == 0) {
            for (uint8_t i = 1;; i = (uint8_t)(i % 200 + 1)) {
                scene_init(&s, i);
                if (rv_kv_snapshot_save(&s.snapshot, path, NULL))
                    _exit(1);
            }
        }
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        edition = load(path);
        assert_true(edition >= 1 && edition <= 200);
        {
            char left[4096];
            snprintf(left, sizeof(left), "%s.%ld.new", path, (long)child);
            (void)unlink(left);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_saved_comes_back),
        cmocka_unit_test(another_owner_is_refused_by_name),
        cmocka_unit_test(damage_anywhere_is_noticed),
        cmocka_unit_test(a_kill_while_saving_leaves_a_whole_session),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
