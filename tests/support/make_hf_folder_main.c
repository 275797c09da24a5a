/* make_hf_folder MODEL.gguf FOLDER [SHARDS]: writes a model of F32, F16 or BF16 as a Hugging Face folder. */
#include "support/hf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int main(int argc, char **argv)
{
    struct hf_writer_options options = {0};

    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: make_hf_folder MODEL.gguf FOLDER [SHARDS]\n");
        return 2;
    }
    options.n_shards = argc == 4 ? (int)strtol(argv[3], NULL, 10) : 1;
    mkdir(argv[2], 0777); // one that is there is written into; if it cannot be, writing says so
    hf_writer_model(argv[1], argv[2], &options);
    return 0;
}
