/* Where test data lies, and small file helpers. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *join(const char *variable, const char *fallback, const char *name)
{
    static char paths[4][1024];
    static unsigned next;
    char *path = paths[next++ % 4];
    const char *root = getenv(variable);

    snprintf(path, sizeof(paths[0]), "%s/%s", root && *root ? root : fallback, name);
    return path;
}

const char *test_data(const char *name)
{
    return join("RUVLLM_TEST_DATA", "../shared/data", name);
}

const char *test_model(const char *name)
{
    return join("RUVLLM_MODELS_DIR", "models", name);
}

void test_need_file(const char *path)
{
    if (access(path, R_OK) == 0)
        return;
    fprintf(stderr, "\n*** REAL-DATA TEST SKIPPED: '%s' is not there; set RUVLLM_TEST_DATA or run `make models`\n\n",
            path);
    skip();
}

void test_need_data(void)
{
    const char *path = test_data("README.md");

    if (access(path, R_OK) == 0)
        return;
    fprintf(stderr, "\n*** REAL-DATA TEST SKIPPED: '%s' is not there; set RUVLLM_TEST_DATA\n\n", path);
    exit(77);
}

char *test_read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    char *data;
    long size;

    if (!file)
        fail_msg("cannot open '%s'", path);
    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);
    data = malloc((size_t)size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, (size_t)size, file), size);
    data[size] = '\0';
    fclose(file);
    if (len)
        *len = (size_t)size;
    return data;
}

static char temp_paths[64][64];
static unsigned n_temp_paths; // ever handed out; the 64 newest exist

static void remove_temp_files(void)
{
    for (unsigned i = 0; i < n_temp_paths && i < 64; i++)
        remove(temp_paths[i]);
}

const char *test_temp_path(const char *suffix)
{
    char *path = temp_paths[n_temp_paths % 64];

    if (n_temp_paths == 0)
        atexit(remove_temp_files);
    if (n_temp_paths >= 64)
        remove(path);
    n_temp_paths++;
    snprintf(path, sizeof(temp_paths[0]), "%s/ruvllm-%d-%u%s", "/tmp", (int)getpid(), n_temp_paths, suffix);
    return path;
}

void test_write_file(const char *path, const void *data, size_t len)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}
