/*
 * The synthetic models everybody uses, by name. `make models` writes them all; the parity suite compares each
 * with libllama; the mutation suite makes them again with one trait off.
 */
#ifndef RV_TESTS_SUPPORT_MAKER_RECIPES_H
#define RV_TESTS_SUPPORT_MAKER_RECIPES_H

#include "support/maker_spec.h"

struct maker_recipe {
    const char *name;      // the file is <name>.gguf
    const char *options;   // as make_model takes them
    const char *mutations; // traits whose absence must be seen, separated by spaces; "": none
    bool for_bench;        // a real model's shape, for timing only
};

size_t maker_recipe_count(void);
const struct maker_recipe *maker_recipe_at(size_t index);
const struct maker_recipe *maker_recipe_find(const char *name);
/* The recipe's spec. */
RV_CHECKED ruvllm_status maker_recipe_spec(const struct maker_recipe *recipe, struct maker_spec *spec,
                                           struct ruvllm_error *err);

#endif
