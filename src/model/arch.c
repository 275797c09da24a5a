/*
 * The table of architectures. Facts are from the model families' own releases, checked against the
 * reference engine by tests/golden/test_parity.c.
 *
 * Two deliberate readings: a `llama` file that names a sliding window (Mistral 7B v0.1) and a `phi3` file that
 * does are run without it, as the reference engine does, because the converted files name windows that the
 * models were not trained with.
 */
#include "model/arch.h"

#include <string.h>

static const struct rv_arch table[] = {
    /* Llama 2 and 3.x, Mistral, TinyLlama, SmolLM2 */
    {.name = "llama", .required = RV_ARCH_FFN_NORM},
    /* Qwen 2 and 2.5: biases on q, k, v are found by their tensors */
    {.name = "qwen2", .required = RV_ARCH_FFN_NORM, .rope_neox = true},
    {.name = "qwen3", .required = RV_ARCH_FFN_NORM | RV_ARCH_QK_NORM, .rope_neox = true},
    /* Phi-3, Phi-3.5 and Phi-4-mini */
    {.name = "phi3", .required = RV_ARCH_FFN_NORM, .rope_neox = true, .fused_gate_up = true},
    {.name = "gemma2",
     .activation = RV_ARCH_GELU,
     .required = RV_ARCH_FFN_NORM | RV_ARCH_POST_NORMS,
     .rope_neox = true,
     .scale_embedding = true,

     .tied_always = true,
     .has_window = true,
     .window = 4096,
     .window_period = 2,
     .has_attention_cap = true,
     .has_final_cap = true,
     .attention_cap = 50.0f,
     .final_cap = 30.0f,
     .width_scaled_layers = 46},
    {.name = "gemma3",
     .activation = RV_ARCH_GELU,
     .required = RV_ARCH_FFN_NORM | RV_ARCH_POST_NORMS | RV_ARCH_QK_NORM,
     .rope_neox = true,
     .scale_embedding = true,

     .has_window = true,
     .window_period = 6,
     .window_rope_base = 10000.0f,
     .has_final_cap = true,
     .width_scaled_layers = 62},
    /* StableLM and StableLM 2; the 12B one normalises q and k and has no second norm */
    {.name = "stablelm",
     .norm = RV_ARCH_NORM_LAYER,
     .required = RV_ARCH_NORM_BIAS,
     .optional = RV_ARCH_QK_NORM | RV_ARCH_FFN_NORM,
     .rope_neox = true},
};

const struct rv_arch *rv_arch_find(struct rv_str name)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strlen(table[i].name) == name.len && memcmp(table[i].name, name.data, name.len) == 0)
            return &table[i];
    }
    return NULL;
}

const struct rv_arch *rv_arch_at(size_t index)
{
    return index < sizeof(table) / sizeof(table[0]) ? &table[index] : NULL;
}
