/*
 * Writes the corpus of fuzz_gguf: small files that between them reach every branch of the reader. Run it by hand
 * when the format or the reader changes, and commit what it writes:
 *
 *     build/dev/tests/fuzz/make_gguf_corpus tests/fuzz/corpus/gguf
 *
 * The corpus of fuzz_inspect is a part of it.
 */
#include "support/gguf_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *folder;

static void save(struct gguf_writer *w, const char *name)
{
    char path[1024];
    size_t len;
    char *bytes = gguf_writer_finish(w, &len);
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) != 0) {
        fprintf(stderr, "cannot write '%s'\n", path);
        exit(1);
    }
    free(bytes);
}

static void write_scalars(struct gguf_writer *w)
{
    gguf_writer_u8(w, "a", 255);
    gguf_writer_i8(w, "b", -1);
    gguf_writer_u16(w, "c", 65535);
    gguf_writer_i16(w, "d", -2);
    gguf_writer_u32(w, "e", 7);
    gguf_writer_i32(w, "f", -3);
    gguf_writer_f32(w, "g", 1e-5f);
    gguf_writer_bool(w, "h", 1);
    gguf_writer_str(w, "i", "text \xc3\xa9 \xff");
    gguf_writer_u64(w, "j", UINT64_MAX);
    gguf_writer_i64(w, "k", INT64_MIN);
    gguf_writer_f64(w, "l", NAN);
}

static void write_arrays(struct gguf_writer *w)
{
    static const uint64_t zeros[12];

    for (int type = 0; type < RV_GGUF_N_TYPES; type++) {
        char key[3] = {'m', (char)('a' + type), '\0'};

        if (type == RV_GGUF_STRING)
            gguf_writer_array_str(w, key, (const char *const[]){"", "a", "bc", "d"}, 4);
        else if (type != RV_GGUF_ARRAY)
            gguf_writer_array(w, key, (enum rv_gguf_type)type, zeros, type % 2 ? 12 : 3);
    }
}

int main(int argc, char **argv)
{
    static const char data[256];
    struct gguf_writer w;

    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    gguf_writer_init(&w);
    save(&w, "empty.gguf");
    gguf_writer_init(&w);
    write_scalars(&w);
    save(&w, "scalars.gguf");
    gguf_writer_init(&w);
    write_arrays(&w);
    save(&w, "arrays.gguf");
    gguf_writer_init(&w);
    gguf_writer_align(&w, 8);
    gguf_writer_tensor(&w, "a", GGML_TYPE_F32, 2, (int64_t[]){3, 2}, NULL);
    gguf_writer_tensor(&w, "b", GGML_TYPE_Q8_0, 1, (int64_t[]){32}, NULL);
    gguf_writer_tensor(&w, "c", GGML_TYPE_F16, 0, NULL, NULL);
    gguf_writer_tensor(&w, "d", GGML_TYPE_Q4_K, 4, (int64_t[]){256, 1, 1, 1}, NULL);
    save(&w, "tensors.gguf");
    gguf_writer_init(&w);
    w.version = 2;
    gguf_writer_str(&w, "general.architecture", "llama");
    gguf_writer_tensor(&w, "t", GGML_TYPE_F32, 1, (int64_t[]){8}, NULL);
    gguf_writer_raw_tensor(&w, "u", 1, 1, (uint64_t[]){8}, GGML_TYPE_F32, 0);
    gguf_writer_raw_data(&w, data, sizeof(data));
    save(&w, "overlap.gguf");
    gguf_writer_init(&w);
    gguf_writer_raw_tensor(&w, "t", 1, 2, (uint64_t[]){UINT64_C(1) << 32, UINT64_C(1) << 32}, GGML_TYPE_F32, 0);
    gguf_writer_raw_data(&w, data, sizeof(data));
    save(&w, "wrap.gguf");
    gguf_writer_init(&w);
    gguf_writer_u8(&w, "k", 1);
    w.claimed_kvs = UINT64_MAX;
    save(&w, "claims.gguf");
    gguf_writer_init(&w);
    gguf_writer_raw_kv(&w, "k", 1, 1, (uint32_t[]){9, 9, 1, 0, 9, 1, 0}, 28);
    save(&w, "nested.gguf");
    return 0;
}
