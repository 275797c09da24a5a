#include "learn/deep_guard.h"

#include <math.h>

/* So many times in a run at least: with four epochs and weights that follow only at their ends nothing came of it. */
enum { LEAST_ROUNDS = 8 };

/* How far anchors' weight goes in one epoch and in all, and where the guard is to come to, as a share of its limit. */
static const double KL_UP = 4, KL_DOWN = 0.7, KL_LEAST = 1.0 / 64, KL_MOST = 1e6, AIM = 0.9;
/* So many epochs are enough to follow what the guard says at once. With more, each follows it by less. */
static const double LONG_EPOCHS = 20;
/* After what share of the epochs the limit holds without slack. */
static const double TIGHT = 0.6;

int32_t rv_deep_guard_rounds(const struct rv_deep_config *config)
{
    int32_t n = config->n_epochs;

    return n < LEAST_ROUNDS && config->max_guard_kl > 0.0f ? (LEAST_ROUNDS + n - 1) / n : 1;
}

double rv_deep_guard_aim(const struct rv_deep_config *config, double n_done)
{
    double left = fmax(0, 1 - n_done / (TIGHT * config->n_epochs));
    bool is_long = config->n_epochs > LONG_EPOCHS;

    return AIM * (double)config->max_guard_kl * (1 + (is_long ? (double)config->guard_slack * left : 0));
}

/*
 * Anchors weigh more while the guard is moved too far, and less again when there is room. In long runs by less an
 * epoch, and by less where it is asked more often: values follow with a delay, and a weight that grows all the while
 * drives out what was learned.
 */
double rv_deep_guard_scale(const struct rv_deep_config *config, double scale, double guard_kl, double aim)
{
    double follow = fmin(1, LONG_EPOCHS / config->n_epochs) / sqrt(rv_deep_guard_rounds(config));

    if (aim > 0 && isfinite(guard_kl))
        scale *= pow(fmin(fmax(guard_kl / aim, KL_DOWN), KL_UP), follow);
    return fmin(fmax(scale, KL_LEAST), KL_MOST);
}

double rv_deep_guard_share(double kl_first, double guard_kl, double most)
{
    if (guard_kl <= most)
        return 1;
    return kl_first < most ? sqrt((most - kl_first) / (guard_kl - kl_first)) : 0;
}

bool rv_deep_guard_is_lost(double guard_kl, double aim)
{
    return aim > 0 && isfinite(guard_kl) && guard_kl > KL_UP * aim;
}
