/*
 * make_model: writes synthetic GGUF models of any shape.
 *
 *     make_model --arch qwen2 --layers 4 --type q8_0 ... -o out.gguf
 *     make_model --recipe synth-gemma2 [options that follow override it] -o out.gguf
 *     make_model --list
 */
#include <stdio.h>
#include <string.h>

#include "support/maker_file.h"
#include "support/maker_recipes.h"

static int usage(void)
{
    printf("make_model --arch NAME [options] -o FILE\n"
           "make_model --recipe NAME [--vocab-from FILE] [--without TRAIT] -o FILE\n"
           "make_model --list\n\n");
    maker_spec_help();
    return 2;
}

static int list_recipes(void)
{
    for (size_t i = 0; i < maker_recipe_count(); i++)
        printf("%s\n", maker_recipe_at(i)->name);
    return 0;
}

/* A recipe, then the few options that make sense on top of one. */
static ruvllm_status spec_from_recipe(struct maker_spec *spec, int argc, char **argv, struct ruvllm_error *err)
{
    const struct maker_recipe *recipe = argc > 1 ? maker_recipe_find(argv[1]) : NULL;
    ruvllm_status rc;

    if (!recipe)
        return rv_fail(err, RUVLLM_NOT_FOUND, "no recipe of that name; --list names them");
    rc = maker_recipe_spec(recipe, spec, err);
    for (int i = 2; rc == RUVLLM_OK && i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--vocab-from") == 0 && strlen(argv[i + 1]) < sizeof(spec->vocab_from))
            snprintf(spec->vocab_from, sizeof(spec->vocab_from), "%s", argv[i + 1]);
        else if (strcmp(argv[i], "--without") == 0 && maker_trait_find(argv[i + 1]))
            spec->without |= maker_trait_find(argv[i + 1]);
        else
            rc = rv_fail(err, RUVLLM_INVALID, "cannot put '%s %s' on a recipe", argv[i], argv[i + 1]);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct ruvllm_error err = {0};
    struct maker_spec spec;
    ruvllm_status rc;

    if (argc == 2 && strcmp(argv[1], "--list") == 0)
        return list_recipes();
    if (argc < 4 || strcmp(argv[argc - 2], "-o") != 0)
        return usage();
    if (strcmp(argv[1], "--recipe") == 0)
        rc = spec_from_recipe(&spec, argc - 3, argv + 1, &err);
    else
        rc = maker_spec_parse(&spec, argc - 3, argv + 1, &err);
    if (rc == RUVLLM_OK)
        rc = maker_file_write(&spec, argv[argc - 1], &err);
    if (rc == RUVLLM_OK)
        return 0;
    fprintf(stderr, "make_model: %s\n", err.message);
    return 1;
}
