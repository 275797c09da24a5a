/*
 * The parity suite would notice: for each trait of each architecture, our engine runs a twin of the model in which
 * only that trait is off, libllama the model itself, and the divergence must be at least a hundred times what it is
 * when both run the same, and a hundred times what parity allows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "golden/parity.h"
#include "support/maker_file.h"
#include "support/maker_recipes.h"

enum { N_TOKENS = 512 };

static const double allowed_kl = 1e-4; // what parity lets pass
static const double min_ratio = 100;

struct mutation {
    const struct maker_recipe *recipe;
    char trait[32];
};

static double measure(const char *oracle_path, const char *our_path)
{
    struct parity parity;
    struct divergence sum = {0};
    struct rv_rng rng;
    int32_t tokens[N_TOKENS];

    parity_open(&parity, oracle_path, our_path, N_TOKENS);
    rv_rng_init(&rng, 21);
    for (size_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (int32_t)rv_rng_below(&rng, parity.n_vocab);
    parity_forward(&parity, tokens, N_TOKENS, &sum);
    parity_close(&parity);
    return divergence_mean_kl(&sum);
}

static void losing_the_trait_is_seen(void **state)
{
    const struct mutation *mutation = *state;
    char original[128], twin[128];
    struct maker_spec spec;
    double kl, mutated;

    snprintf(original, sizeof(original), "%s", test_temp_path(".gguf"));
    snprintf(twin, sizeof(twin), "%s", test_temp_path(".gguf"));
    assert_ok(maker_recipe_spec(mutation->recipe, &spec, err));
    assert_ok(maker_file_write(&spec, original, err));
    spec.without = maker_trait_find(mutation->trait);
    assert_int_not_equal(spec.without, 0);
    assert_ok(maker_file_write(&spec, twin, err));
    kl = measure(original, original);
    mutated = measure(original, twin);
    remove(original);
    remove(twin);
    printf("mutation %-24s without %-15s kl %.2e -> %.2e\n", mutation->recipe->name, mutation->trait, kl, mutated);
    fflush(stdout);
    if (!(kl <= allowed_kl))
        fail_msg("already the unchanged model is %.2e away", kl);
    if (!(mutated >= min_ratio * kl && mutated >= min_ratio * allowed_kl))
        fail_msg("losing '%s' changes KL from %.2e to %.2e only", mutation->trait, kl, mutated);
}

/* One case for each trait a recipe names. */
static size_t list_mutations(struct mutation *mutations, size_t cap)
{
    size_t n = 0;

    for (size_t i = 0; i < maker_recipe_count(); i++) {
        const struct maker_recipe *recipe = maker_recipe_at(i);

        for (const char *at = recipe->mutations; *at && n < cap; n++) {
            size_t len = strcspn(at, " ");

            mutations[n].recipe = recipe;
            snprintf(mutations[n].trait, sizeof(mutations[n].trait), "%.*s", (int)len, at);
            at += len + (at[len] == ' ');
        }
    }
    return n;
}

int main(int argc, char **argv)
{
    static struct mutation mutations[64];
    static struct CMUnitTest cases[64];
    static char names[64][64];
    size_t n = list_mutations(mutations, 64), n_cases = 0;

    for (size_t i = 0; i < n; i++) {
        if (argc > 1 && strcmp(argv[1], mutations[i].recipe->name) != 0)
            continue;
        snprintf(names[i], sizeof(names[i]), "%s_without_%s", mutations[i].recipe->name, mutations[i].trait);
        cases[n_cases++] = (struct CMUnitTest){
            .name = names[i], .test_func = losing_the_trait_is_seen, .initial_state = &mutations[i]};
    }
    return _cmocka_run_group_tests("mutation", cases, n_cases, NULL, NULL);
}
