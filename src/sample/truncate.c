/*
 * The cuts. All but min-p are one operation, keep_until(): walk the candidates by falling key until their mass reaches
 * a target, where top-k counts heads (mass 1) and the others weights. Finding where the walk ends takes at most five
 * passes over the set whatever the values: each splits the interval of keys that holds the end into 256 parts.
 *
 * Rejected: sorting (at 150,000 entries it costs fifty times the rest of the sampler), and quickselect (its
 * worst case is in the hands of whoever writes the model file).
 */
#include "sample/truncate.h"

#include "sample/weight.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define PARTS 256
#define PART_BITS 8
#define BLOCK 64

/* Unsigned integers in the order of the floats. */
static uint32_t key_of(float x)
{
    uint32_t bits;

    x += 0.0f; // -0 becomes +0, its equal
    memcpy(&bits, &x, sizeof(bits));
    return bits & UINT32_C(0x80000000) ? ~bits : bits | UINT32_C(0x80000000);
}

static int bit_length(uint32_t x)
{
    int n = 0;

    for (; x; x >>= 1)
        n++;
    return n;
}

/* Where a walk by falling key ends: everything above `key` is kept, and of what equals it as much as is needed. */
struct cut {
    uint32_t key;
    double above; // mass of what lies above key
};

static bool reached(double mass, double target, bool strictly)
{
    return strictly ? mass > target : mass >= target;
}

/*
 * Mass of the candidates with keys in [low, high], by part of that interval. Two tables in turn, since neighbours
 * often fall into one part and would wait for each other's sum.
 */
static void histogram(const struct rv_candidates *set, uint32_t low, uint32_t high, int shift, double mass[PARTS])
{
    double other[PARTS] = {0};
    double *tables[2] = {mass, other};
    uint32_t span = high - low;

    memset(mass, 0, PARTS * sizeof(mass[0]));
    for (size_t i = 0; i < set->n; i++) {
        const struct rv_candidate *c = &set->items[i];

        if (c->key - low <= span) // below low it wraps around
            tables[i & 1][(c->key - low) >> shift] += (double)c->weight;
    }
    for (int i = 0; i < PARTS; i++)
        mass[i] += other[i];
}

/* False when even the whole set does not reach the target. */
static bool find_cut(const struct rv_candidates *set, double target, bool strictly, struct cut *cut)
{
    uint32_t low = UINT32_MAX, high = 0;
    double mass[PARTS];

    for (size_t i = 0; i < set->n; i++) {
        low = set->items[i].key < low ? set->items[i].key : low;
        high = set->items[i].key > high ? set->items[i].key : high;
    }
    cut->above = 0.0;
    while (low <= high) {
        int bits = bit_length(high - low);
        int shift = bits > PART_BITS ? bits - PART_BITS : 0;
        int part = PARTS - 1;

        histogram(set, low, high, shift, mass);
        while (part >= 0 && !reached(cut->above + mass[part], target, strictly))
            cut->above += mass[part--];
        if (part < 0)
            return false;
        low += (uint32_t)part << shift;
        if (shift == 0) {
            cut->key = low;
            return true;
        }
        if (high - low > (UINT32_C(1) << shift) - 1)
            high = low + (UINT32_C(1) << shift) - 1;
    }
    return false;
}

/* Keeps, by falling key and then rising token, just enough candidates that their mass reaches the target. */
static void keep_until(struct rv_candidates *set, double target, bool strictly)
{
    struct cut cut;
    size_t n = 0;
    double ties;

    target = target > 0.0 ? target : 0x1p-1000; // at least one candidate stays
    if (!find_cut(set, target, strictly, &cut))
        return;
    ties = cut.above;
    for (size_t i = 0; i < set->n; i++) {
        const struct rv_candidate *c = &set->items[i];
        bool keep = c->key > cut.key;

        if (c->key == cut.key && !reached(ties, target, strictly)) {
            ties += (double)c->weight;
            keep = true;
        }
        if (keep)
            set->items[n++] = *c;
    }
    set->n = n;
}

/* Block by block: in a real row hardly any holds a candidate, and asking a whole block is vector code. */
void rv_truncate_gather(struct rv_candidates *set, const float *logits, const float *weights, size_t n_vocab,
                        float floor)
{
    float least = floor > 0.0f ? floor : 0x1p-126f;
    size_t n = 0;

    for (size_t start = 0; start < n_vocab; start += BLOCK) {
        size_t end = n_vocab - start < BLOCK ? n_vocab : start + BLOCK;
        int found = 0;

        for (size_t i = start; i < end; i++)
            found |= weights[i] >= least;
        for (size_t i = start; found && i < end; i++) {
            if (weights[i] >= least)
                set->items[n++] = (struct rv_candidate){.token = (int32_t)i, .logit = logits[i], .weight = weights[i]};
        }
    }
    set->n = n;
}

float rv_truncate_top_p_floor(float p, double total, size_t n)
{
    /* A little lower than the bound, so that rounding never decides. */
    return (float)(0.999 * (1.0 - (double)p) * total / (double)n);
}

/* Cuts a full set to its best k and returns the least logit left. */
static float refill(struct rv_candidates *set, size_t k)
{
    float least = INFINITY;

    keep_until(set, (double)k, false);
    for (size_t i = 0; i < set->n; i++)
        least = set->items[i].logit < least ? set->items[i].logit : least;
    return least;
}

/*
 * The set fills with what beats the threshold; when it is full, the best k stay and the worst of them becomes the
 * threshold. Each refill drops at least half, so the whole is linear even in a row that keeps rising; in a real one
 * almost every logit fails the comparison.
 */
void rv_truncate_top_k(struct rv_candidates *set, const float *logits, size_t n_vocab, size_t k)
{
    float threshold = -INFINITY;

    set->n = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        if (!(logits[i] > threshold) || logits[i] == INFINITY) // NaN fails, and so do equals: a lower id is in already
            continue;
        if (set->n == set->cap)
            threshold = refill(set, k);
        set->items[set->n++] =
            (struct rv_candidate){.token = (int32_t)i, .key = key_of(logits[i]), .logit = logits[i], .weight = 1.0f};
    }
    keep_until(set, (double)k, false);
}

double rv_truncate_weigh(struct rv_candidates *set, float max, float scale)
{
    for (size_t i = 0; i < set->n; i++)
        set->items[i].weight = rv_weight_at(set->items[i].logit, max, scale);
    return rv_truncate_total(set);
}

double rv_truncate_total(const struct rv_candidates *set)
{
    double total = 0.0;

    for (size_t i = 0; i < set->n; i++)
        total += (double)set->items[i].weight;
    return total;
}

/*
 * A token's information content is log2(total) + depth bits and the entropy is its mean under the weights, so
 * log2(total) falls out of the difference and no logarithm is needed.
 */
void rv_truncate_typical(struct rv_candidates *set, float p, float max, float scale)
{
    double total = 0.0, sum = 0.0, mean;

    for (size_t i = 0; i < set->n; i++) {
        double weight = (double)set->items[i].weight;
        float depth = rv_weight_depth(set->items[i].logit, max, scale);
        double product = weight * (double)depth;

        memcpy(&set->items[i].key, &depth, sizeof(depth)); // kept there until the mean is known
        total += weight;
        sum += product;
    }
    mean = sum / total;
    for (size_t i = 0; i < set->n; i++) {
        float depth;

        memcpy(&depth, &set->items[i].key, sizeof(depth));
        set->items[i].key = ~key_of((float)fabs((double)depth - mean));
    }
    keep_until(set, (double)p * total, true);
}

void rv_truncate_top_p(struct rv_candidates *set, float p, double total)
{
    for (size_t i = 0; i < set->n; i++)
        set->items[i].key = key_of(set->items[i].logit);
    keep_until(set, (double)p * total, false);
}

void rv_truncate_min_p(struct rv_candidates *set, float p)
{
    float best = 0.0f, least;
    size_t n = 0;

    for (size_t i = 0; i < set->n; i++)
        best = set->items[i].weight > best ? set->items[i].weight : best;
    least = p * best;
    for (size_t i = 0; i < set->n; i++) {
        if (set->items[i].weight >= least)
            set->items[n++] = set->items[i];
    }
    set->n = n;
}
