#include "learn/preference.h"

#include <math.h>

/* Without overflow on either side. */
static double sigmoid(double x)
{
    double e = exp(-fabs(x));

    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

double rv_preference_dpo(double beta, double margin, double *slope)
{
    double x = beta * margin;

    *slope = -beta * sigmoid(-x);
    return x >= 0 ? log1p(exp(-x)) : log1p(exp(x)) - x;
}

double rv_preference_kto(double beta, double gain, double point, bool is_good, double *slope)
{
    double sign = is_good ? 1 : -1, share = sigmoid(sign * beta * (gain - point));

    *slope = -sign * beta * share * (1 - share);
    return 1 - share;
}
