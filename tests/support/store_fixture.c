#include "support/store_fixture.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char paths[8][96];
static unsigned n_paths;

void store_remove(const char *path)
{
    char name[128];

    for (size_t i = 0; i < 3; i++) {
        static const char *const ends[] = {"", "-wal", "-shm"};

        snprintf(name, sizeof(name), "%s%s", path, ends[i]);
        remove(name);
    }
}

static void remove_folder(const char *path)
{
    char folder[96], pattern[128];
    glob_t spools;

    store_remove(path);
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    snprintf(pattern, sizeof(pattern), "%s/ruvllm/spool-*.db", folder);
    if (glob(pattern, 0, NULL, &spools) == 0) {
        for (size_t i = 0; i < spools.gl_pathc; i++)
            store_remove(spools.gl_pathv[i]);
        globfree(&spools);
    }
    *strrchr(pattern, '/') = '\0';
    remove(pattern);
    remove(folder);
}

static void remove_all(void)
{
    for (unsigned i = 0; i < 8 && i < n_paths; i++)
        remove_folder(paths[i]);
}

static const char *new_path(const char *base)
{
    char *path = paths[n_paths % 8];

    if (n_paths == 0)
        atexit(remove_all);
    if (n_paths >= 8)
        remove_folder(path);
    n_paths++;
    snprintf(path, sizeof(paths[0]), "%s/ruvllm-store-%d-%u", base, (int)getpid(), n_paths);
    assert_int_equal(mkdir(path, 0700), 0);
    strncat(path, "/store.db", sizeof(paths[0]) - strlen(path) - 1);
    return path;
}

const char *store_temp_path(void)
{
    return new_path("/tmp");
}

const char *store_memory_path(void)
{
    return new_path(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
}

bool store_is_postgres(void)
{
    return getenv("RUVLLM_TEST_POSTGRES") != NULL;
}

static void run(const char *command)
{
    if (system(command) != 0)
        fail_msg("'%s' failed", command);
}

static void control_postgres(const char *verb)
{
    char command[1024];

    snprintf(command, sizeof(command), "python3 '%s' %s '%s'", RUVLLM_WITH_POSTGRES, verb,
             getenv("RUVLLM_TEST_POSTGRES_FOLDER"));
    run(command);
}

void store_postgres_stop(void)
{
    control_postgres("stop");
}

void store_postgres_start(void)
{
    control_postgres("start");
}

void store_postgres_freeze(void)
{
    control_postgres("freeze");
}

void store_postgres_thaw(void)
{
    control_postgres("thaw");
}

const char *store_temp_url(void)
{
    static char urls[8][256];
    static unsigned n_urls;
    char command[512], state[96];
    const char *pattern = getenv("RUVLLM_TEST_POSTGRES"), *path = store_temp_path();
    char *url = urls[n_urls % 8];
    int before = pattern ? (int)(strchr(pattern, '@') - pattern) : 0;

    if (!pattern)
        return path;
    n_urls++;
    snprintf(state, sizeof(state), "%.*s", (int)(strrchr(path, '/') - path), path);
    setenv("XDG_STATE_HOME", state, 1);
    snprintf(command, sizeof(command), "psql -q -h '%s' -U ruvllm -d postgres -c 'CREATE DATABASE t%d_%u'",
             getenv("RUVLLM_TEST_POSTGRES_FOLDER"), (int)getpid(), n_urls);
    run(command);
    snprintf(url, sizeof(urls[0]), "%.*st%d_%u%s", before, pattern, (int)getpid(), n_urls, pattern + before + 1);
    return url;
}

ruvllm_store *store_open(const char *path)
{
    ruvllm_store *store;

    assert_ok(ruvllm_store_open(&store, path, NULL, err));
    return store;
}

void store_make_key(ruvllm_store *store, const char *tenant, char key[RUVLLM_KEY_SIZE], struct ruvllm_key_info *info)
{
    struct ruvllm_key_params params = ruvllm_key_params_default();
    struct ruvllm_key_info ours = {.struct_size = sizeof(ours)};

    params.tenant = tenant;
    assert_ok(ruvllm_keys_create(store, &params, key, &ours, err));
    if (info)
        *info = ours;
}

ruvllm_key_verdict store_check(ruvllm_store *store, const char *key, struct ruvllm_key_info *info)
{
    ruvllm_key_verdict verdict;

    if (info)
        info->struct_size = sizeof(*info);
    assert_ok(ruvllm_keys_check(store, key, strlen(key), &verdict, info, err));
    return verdict;
}

struct ruvllm_witness store_witness(int32_t i, const char *tenant, const char *model)
{
    return (struct ruvllm_witness){.struct_size = sizeof(struct ruvllm_witness),
                                   .time_us = 1700000000000000 + i,
                                   .tenant = tenant,
                                   .key_id = "abcdefgh",
                                   .request_id = "req-1",
                                   .model = model,
                                   .endpoint = "/v1/chat/completions",
                                   .finish_reason = "stop",
                                   .adapter_generation = 3,
                                   .status = 200,
                                   .prompt_tokens = i,
                                   .cached_tokens = 2,
                                   .generated_tokens = 4,
                                   .queue_us = 5,
                                   .prefill_us = 6,
                                   .decode_us = 7,
                                   .total_us = 18};
}

static bool add_row(struct store_rows *rows, const char *a, const char *b, const char *c)
{
    size_t used = strlen(rows->text);

    snprintf(rows->text + used, sizeof(rows->text) - used, "%s %s%s%s\n", a, b, *c ? " " : "", c);
    rows->n++;
    return rows->n != rows->stop_after;
}

bool store_row_key(void *user, const struct ruvllm_key_info *key)
{
    return add_row(user, key->tenant, key->name, "");
}

bool store_row_witness(void *user, const struct ruvllm_witness *entry)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", entry->prompt_tokens);
    return add_row(user, entry->tenant, entry->model, number);
}

bool store_row_session(void *user, const struct ruvllm_session *session)
{
    assert_null(session->messages);
    return add_row(user, session->tenant, session->id, session->title);
}
