/*
 * What one answer is worth against another, or against nothing, as a loss. A gain is by how much an answer has become
 * likelier than with the frozen model, log p(answer) - log p0(answer), summed over its tokens.
 */
#ifndef RV_LEARN_PREFERENCE_H
#define RV_LEARN_PREFERENCE_H

#include <stdbool.h>

enum rv_preference_kind {
    RV_PREFERENCE_CHOSEN = 1, // the answer after it was rejected for it
    RV_PREFERENCE_REJECTED,
    RV_PREFERENCE_GOOD,
    RV_PREFERENCE_BAD
};

/* A sequence that is judged as a whole. */
struct rv_preference {
    enum rv_preference_kind kind;
    float weight;     // of its loss; a rejected one has that of the chosen
    float beta;       // how fast a gain is enough: the slope is spent after about 1 / beta nats
    double reference; // the frozen model's log p of it: the sum of weights * log p
};

/*
 * DPO (arXiv 2305.18290, equation 7): -log sigmoid(beta * margin), the margin being the chosen one's gain less the
 * rejected one's. *slope is the derivative by the margin.
 */
double rv_preference_dpo(double beta, double margin, double *slope);
/*
 * KTO (arXiv 2402.01306, equation 8): 1 - sigmoid(beta * (gain - point)) for a good answer, 1 - sigmoid(beta * (point -
 * gain)) for a bad one. *slope is the derivative by the gain; the point, what the model has moved anyway, is taken as a
 * constant.
 */
double rv_preference_kto(double beta, double gain, double point, bool is_good, double *slope);

#endif
