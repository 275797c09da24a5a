#include "learn/credit.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

static const double CHANCE = 1.5; // standard errors

ruvllm_status rv_credit_init(struct rv_credit *out, size_t n_vocab, struct ruvllm_error *err)
{
    *out = (struct rv_credit){.n_vocab = n_vocab};
    out->good = rv_calloc(n_vocab, sizeof(*out->good));
    out->bad = rv_calloc(n_vocab, sizeof(*out->bad));
    out->marks = rv_calloc(n_vocab, sizeof(*out->marks));
    if (out->good && out->bad && out->marks)
        return RUVLLM_OK;
    rv_credit_release(out);
    return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate counts of %zu tokens", n_vocab);
}

void rv_credit_release(struct rv_credit *credit)
{
    rv_free(credit->good);
    rv_free(credit->bad);
    rv_free(credit->marks);
    *credit = (struct rv_credit){0};
}

void rv_credit_clear(struct rv_credit *credit, double n_good, double n_bad)
{
    memset(credit->good, 0, credit->n_vocab * sizeof(*credit->good));
    memset(credit->bad, 0, credit->n_vocab * sizeof(*credit->bad));
    memset(credit->marks, 0, credit->n_vocab * sizeof(*credit->marks));
    credit->mark = 0;
    credit->n_good = n_good;
    credit->n_bad = n_bad;
}

void rv_credit_add(struct rv_credit *credit, const int32_t *tokens, int32_t n, bool is_good, float share)
{
    float *counts = is_good ? credit->good : credit->bad;

    credit->mark++;
    for (int32_t i = 0; i < n; i++) {
        size_t token = (size_t)tokens[i];

        if (tokens[i] < 0 || token >= credit->n_vocab || credit->marks[token] == credit->mark)
            continue;
        credit->marks[token] = credit->mark;
        counts[token] += share;
    }
}

float rv_credit_of(const struct rv_credit *credit, int32_t token)
{
    double good, bad, error, z, certain;

    if (token < 0 || (size_t)token >= credit->n_vocab || !(credit->n_good > 0) || !(credit->n_bad > 0))
        return 0;
    good = ((double)credit->good[token] * credit->n_good + 0.5) / (credit->n_good + 1);
    bad = ((double)credit->bad[token] * credit->n_bad + 0.5) / (credit->n_bad + 1);
    error = sqrt(good * (1 - good) / credit->n_good + bad * (1 - bad) / credit->n_bad);
    z = (good - bad) / error;
    certain = 1 - CHANCE * CHANCE / (z * z);
    /* What few good answers have cannot be what most were praised for. */
    return certain > 0 ? (float)((good - bad) * fabs(good - bad) / (good + bad) * certain) : 0;
}

size_t rv_credit_best(const struct rv_credit *credit, int32_t *out, size_t max)
{
    size_t n = 0;

    for (size_t v = 0; v < credit->n_vocab; v++) {
        float of = credit->good[v] > 0 ? rv_credit_of(credit, (int32_t)v) : 0;
        size_t at;

        if (!(of > 0) || (n == max && of <= rv_credit_of(credit, out[n - 1])))
            continue;
        n = n < max ? n + 1 : n;
        for (at = n - 1; at > 0 && rv_credit_of(credit, out[at - 1]) < of; at--)
            out[at] = out[at - 1];
        out[at] = (int32_t)v;
    }
    return n;
}
