/*
 * Recipes. Windows and original rope lengths are shrunk so that a context of 512 goes far beyond both; gains are
 * tuned with libllama so that the mean entropy over random tokens lies between 0.5 and 3 nats and every trait
 * listed moves the distributions (the parity and mutation suites assert both). Types are spread over the models.
 */
#include "support/maker_recipes.h"

#include <string.h>

static const struct maker_recipe recipes[] = {
    {"synth-llama3",
     "--arch llama --type f16 --rope-scaling llama3 --rope-factor 8 --rope-original 128 --rope-base 500000",
     "rope-factors attn-scale", false},
    {"synth-llama-linear", "--arch llama --type q4_K --rope-scaling linear --rope-factor 4 --rope-original 128",
     "rope-factors", false},
    {"synth-mistral", "--arch llama --type q8_0 --head-dim 128 --window 64 --rope-base 1000000", "", false},
    {"synth-smollm2", "--arch llama --type bf16 --tied --heads 6 --embd 192 --head-dim 32 --kv-heads 2", "", false},
    {"synth-qwen2", "--arch qwen2 --type f16 --rope-base 1000000", "qkv-bias attn-scale", false},
    {"synth-qwen2-yarn",
     "--arch qwen2 --type q8_0 --tied --rope-scaling yarn --rope-factor 4 --rope-original 128 --rope-base 1000000",
     "rope-factors qkv-bias", false},
    {"synth-qwen3", "--arch qwen3 --type q8_0 --rope-base 1000000", "qk-norm attn-scale", false},
    {"synth-qwen3-wide", "--arch qwen3 --type q4_K_M --layers 8 --head-dim 96 --rope-base 1000000", "attn-scale",
     false},
    {"synth-phi3", "--arch phi3 --type f16 --kv-heads 4 --rope-scaling longrope --rope-factor 4 --rope-original 256",
     "rope-factors rope-magnitude attn-scale", false},
    {"synth-phi4",
     "--arch phi3 --type q4_0 --tied --rot 48 --rope-scaling longrope --rope-factor 4 --rope-original 256",
     "rope-factors rope-magnitude", false},
    {"synth-gemma2",
     "--arch gemma2 --type f16 --layers 6 --window 64 --attn-softcap 4 --attn-gain 4 --final-softcap 20 --logit-gain 8",
     "window attn-softcap final-softcap post-norm attn-scale embd-scale", false},
    {"synth-gemma3",
     "--arch gemma3 --type q4_0 --layers 7 --kv-heads 1 --window 64 --rope-base 1000000 --rope-base-local 10000"
     " --rope-scaling linear --rope-factor 8",
     "window rope-factors local-rope qk-norm post-norm attn-scale embd-scale", false},
    {"synth-stablelm", "--arch stablelm --type q4_K --qkv-bias --kv-heads 4 --rot 16",
     "qkv-bias norm-bias partial-rotary", false},
    {"synth-stablelm-parallel", "--arch stablelm --type f32 --parallel --head-norm --rot 16",
     "qk-norm norm-bias parallel partial-rotary", false},
    {"smollm2-135m-q8_0",
     "--arch llama --type q8_0 --tied --layers 30 --embd 576 --heads 9 --kv-heads 3 --head-dim 64 --ffn 1536"
     " --vocab 50257 --ctx 8192 --rope-base 100000",
     "", true},
    {"qwen2.5-0.5b-q8_0",
     "--arch qwen2 --type q8_0 --tied --layers 24 --embd 896 --heads 14 --kv-heads 2 --head-dim 64 --ffn 4864"
     " --vocab 151936 --ctx 32768 --rope-base 1000000",
     "", true},
    {"qwen2.5-1.5b-q4_k_m",
     "--arch qwen2 --type q4_K_M --tied --layers 28 --embd 1536 --heads 12 --kv-heads 2 --head-dim 128 --ffn 8960"
     " --vocab 151936 --ctx 32768 --rope-base 1000000 --unique-rows 512",
     "", true},
};

size_t maker_recipe_count(void)
{
    return sizeof(recipes) / sizeof(recipes[0]);
}

const struct maker_recipe *maker_recipe_at(size_t index)
{
    return &recipes[index];
}

const struct maker_recipe *maker_recipe_find(const char *name)
{
    for (size_t i = 0; i < maker_recipe_count(); i++)
        if (strcmp(recipes[i].name, name) == 0)
            return &recipes[i];
    return NULL;
}

ruvllm_status maker_recipe_spec(const struct maker_recipe *recipe, struct maker_spec *spec, struct ruvllm_error *err)
{
    char text[512];
    char *argv[64];
    int argc = 0;
    size_t len = strlen(recipe->options);

    RV_ASSERT(len < sizeof(text));
    memcpy(text, recipe->options, len + 1);
    for (char *at = text; *at && argc < 64;) {
        argv[argc++] = at;
        at += strcspn(at, " ");
        if (*at)
            *at++ = '\0';
    }
    return maker_spec_parse(spec, argc, argv, err);
}
