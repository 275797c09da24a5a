/*
 * Some tokens that stand for all the rest of a vocabulary in sums over it. A token that was likely somewhere is drawn
 * more often, and then stands for fewer: sums come out right on average, and vary little from draw to draw.
 *
 * Who fits to a draw should draw often, or it fits the draw. One thread at a time.
 */
#ifndef RV_LEARN_TAIL_DRAW_H
#define RV_LEARN_TAIL_DRAW_H

#include "base/error.h"
#include "base/rng.h"

enum { RV_TAIL_DRAW_MAX = 128 };

struct rv_tail_draw {
    size_t n_vocab;
    uint32_t *counts; // of each token: how often it was noted
    int32_t *noted;   // each note's token
    size_t n_noted;
    size_t cap;
    int32_t tokens[RV_TAIL_DRAW_MAX]; // the draw: each once
    float many[RV_TAIL_DRAW_MAX];     // logarithms of how many tokens each stands for
    size_t n;
};

RV_CHECKED ruvllm_status rv_tail_draw_init(struct rv_tail_draw *out, size_t n_vocab, struct ruvllm_error *err);
void rv_tail_draw_release(struct rv_tail_draw *draw);
/* Forgets what was noted. */
void rv_tail_draw_clear(struct rv_tail_draw *draw);
/* Tokens that were likely somewhere; those that are none are passed over. */
RV_CHECKED ruvllm_status rv_tail_draw_note(struct rv_tail_draw *draw, const int32_t *tokens, size_t n,
                                           struct ruvllm_error *err);
/* A draw. A vocabulary that is no larger than a draw is drawn whole. */
void rv_tail_draw(struct rv_tail_draw *draw, struct rv_rng *rng);

#endif
