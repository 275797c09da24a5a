/* Random numbers: xoshiro256**, one stream per owner, the same on every machine for the same seed. */
#ifndef RV_BASE_RNG_H
#define RV_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rv_rng {
    uint64_t state[4];
};

void rv_rng_init(struct rv_rng *rng, uint64_t seed);
uint64_t rv_rng_next(struct rv_rng *rng);
/* Uniform in [0, 1), 53 bits. */
double rv_rng_uniform(struct rv_rng *rng);
/* Uniform in [0, n); n > 0. */
uint64_t rv_rng_below(struct rv_rng *rng, uint64_t n);
/* Standard normal. */
double rv_rng_normal(struct rv_rng *rng);
/* A seed nobody can guess, from the operating system. */
uint64_t rv_rng_seed_from_system(void);
/* One of n (1 or more) by its share in running sums of shares. */
size_t rv_rng_pick(struct rv_rng *rng, const float *sums, size_t n);

#endif
