/* xoshiro256** by Blackman and Vigna (2018), seeded through splitmix64 as its authors advise. */
#define _GNU_SOURCE // getrandom
#include "base/rng.h"

#include <math.h>
#include <sys/random.h>
#include <time.h>

static uint64_t rotl(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

void rv_rng_init(struct rv_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = (seed += UINT64_C(0x9E3779B97F4A7C15));
        z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
        z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
        rng->state[i] = z ^ z >> 31;
    }
}

uint64_t rv_rng_next(struct rv_rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

double rv_rng_uniform(struct rv_rng *rng)
{
    return (double)(rv_rng_next(rng) >> 11) * 0x1p-53;
}

uint64_t rv_rng_below(struct rv_rng *rng, uint64_t n)
{
    uint64_t limit = UINT64_MAX - UINT64_MAX % n; // whole multiples of n only, so that no value is favoured
    uint64_t x;

    do
        x = rv_rng_next(rng);
    while (x >= limit);
    return x % n;
}

double rv_rng_normal(struct rv_rng *rng)
{
    double u = 1.0 - rv_rng_uniform(rng); // in (0, 1], so that the logarithm is finite

    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * rv_rng_uniform(rng));
}

uint64_t rv_rng_seed_from_system(void)
{
    uint64_t seed;
    struct timespec now;

    if (getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed))
        return seed;
    clock_gettime(CLOCK_MONOTONIC, &now); // no entropy source: still different on every call
    return (uint64_t)now.tv_nsec * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)now.tv_sec;
}

size_t rv_rng_pick(struct rv_rng *rng, const float *sums, size_t n)
{
    float mark = (float)rv_rng_uniform(rng) * sums[n - 1];
    size_t low = 0, high = n - 1;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (sums[mid] > mark)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}
