/*
 * Architectures are data. One decoder serves all of them; a row of this table says where they differ. A new
 * family is a new row and a test that it matches the reference; nothing else in the code asks which
 * architecture a model has.
 */
#ifndef RV_MODEL_ARCH_H
#define RV_MODEL_ARCH_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum rv_arch_norm { RV_ARCH_NORM_RMS, RV_ARCH_NORM_LAYER };

enum rv_arch_activation { RV_ARCH_SILU, RV_ARCH_GELU };

/* Weights a layer may have besides the ones every layer has; what a row lists as required must be there. */
enum rv_arch_parts {
    RV_ARCH_QK_NORM = 1 << 0,    // normalisation of each query and key head
    RV_ARCH_POST_NORMS = 1 << 1, // normalisation after attention and after the feed-forward network
    RV_ARCH_NORM_BIAS = 1 << 2,
    RV_ARCH_FFN_NORM = 1 << 3, // without it, attention and feed-forward run side by side on the same input
};

struct rv_arch {
    const char *name; // general.architecture
    enum rv_arch_norm norm;
    enum rv_arch_activation activation;
    uint32_t required;      // parts every model of the family has
    uint32_t optional;      // parts some have
    bool rope_neox;         // pairs are half a head apart, not neighbours
    bool scale_embedding;   // by the square root of the width
    bool fused_gate_up;     // ffn_up holds gate and up, one after the other
    bool tied_always;       // the head is the embedding, whatever else the file holds
    bool has_window;        // a sliding window is honoured
    uint32_t window;        // its default length; 0: only if the file names one
    uint32_t window_period; // every n-th layer sees everything, the others the window
    float window_rope_base; // RoPE base of layers with a window, unscaled; 0: as in the others
    bool has_attention_cap; // soft-caps by key, with these defaults
    bool has_final_cap;
    float attention_cap;
    float final_cap;
    int32_t width_scaled_layers; // with this many layers, attention is scaled by width per head instead of head size
};

/* The row of that name, or NULL. */
const struct rv_arch *rv_arch_find(struct rv_str name);
/* All rows, for messages and tests: NULL past the end. */
const struct rv_arch *rv_arch_at(size_t index);

#endif
