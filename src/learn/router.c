#include "learn/router.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "store/store_policies.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_TEXT = RV_STORE_POLICY_VALUE_MAX, WORD = 16 };

static const char TITLE[] = "router 1 ";

void rv_router_init(struct rv_router *out, int32_t n_arms)
{
    RV_ASSERT(n_arms >= 2 && n_arms <= RV_ROUTER_MAX_ARMS);
    memset(out, 0, sizeof(*out)); // also what lies between the members: routers are compared as bytes
    out->n_arms = n_arms;
    for (int32_t arm = 0; arm < n_arms; arm++) {
        for (int i = 0; i < RV_ROUTER_TERMS; i++)
            out->arms[arm].inverse[i * (i + 1) / 2 + i] = 1;
    }
}

/* ---- regression ----------------------------------------------------------------------------- */

/*
 * The question's terms: 1, then its first numbers. As they are, of length 1 together, they need more judgements to
 * count than the mean does. Twice as large they learn no sooner and lose more where the question does not matter; half
 * as large they need too long.
 */
static void read_terms(const uint16_t *question, size_t n_dims, double x[RV_ROUTER_TERMS])
{
    size_t n = n_dims < RV_ROUTER_DIMS ? n_dims : RV_ROUTER_DIMS;

    memset(x, 0, RV_ROUTER_TERMS * sizeof(*x));
    x[0] = 1;
    for (size_t i = 0; i < n; i++)
        x[1 + i] = (double)rv_vec_from_bf16(question[i]);
}

/* y = P x, P symmetric */
static void multiply(const double *packed, const double *x, double *y)
{
    for (int i = 0; i < RV_ROUTER_TERMS; i++) {
        y[i] = 0;
        for (int j = 0; j < RV_ROUTER_TERMS; j++)
            y[i] += packed[i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i] * x[j];
    }
}

static double product(const double *x, const double *y)
{
    double sum = 0;

    for (int i = 0; i < RV_ROUTER_TERMS; i++)
        sum += x[i] * y[i];
    return sum;
}

double rv_router_expect(const struct rv_router *router, int32_t arm, const uint16_t *question, size_t n_dims,
                        double *deviation)
{
    const struct rv_router_arm *a = &router->arms[arm];
    double x[RV_ROUTER_TERMS], px[RV_ROUTER_TERMS], square;

    read_terms(question, n_dims, x);
    multiply(a->inverse, x, px);
    square = product(x, px);
    *deviation = square > 0 ? sqrt(square) : 0;
    return 0.5 + product(px, a->sums);
}

int32_t rv_router_choose(const struct rv_router *router, const uint16_t *question, size_t n_dims, double curiosity)
{
    double best = -INFINITY;
    int32_t chosen = 0;

    for (int32_t arm = 0; arm < router->n_arms; arm++) {
        double deviation, hope = rv_router_expect(router, arm, question, n_dims, &deviation);

        hope += curiosity * deviation;
        if (hope > best) {
            best = hope;
            chosen = arm;
        }
    }
    return chosen;
}

/* Sherman and Morrison: (A + x x^T)^-1 = P - P x x^T P / (1 + x^T P x). Qualities are taken as off from 1/2, so that an
 * arm nobody tried is neither good nor bad. */
ruvllm_status rv_router_learn(struct rv_router *router, int32_t arm, const uint16_t *question, size_t n_dims,
                              double quality, struct ruvllm_error *err)
{
    struct rv_router_arm *a;
    double x[RV_ROUTER_TERMS], px[RV_ROUTER_TERMS], divisor;

    if (arm < 0 || arm >= router->n_arms || !(quality >= 0 && quality <= 1))
        return rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA,
                            "a quality lies between 0 and 1 and an arm below %d", (int)router->n_arms);
    a = &router->arms[arm];
    read_terms(question, n_dims, x);
    multiply(a->inverse, x, px);
    divisor = 1 + product(x, px);
    for (int i = 0; i < RV_ROUTER_TERMS; i++) {
        a->sums[i] += (quality - 0.5) * x[i];
        for (int j = 0; j <= i; j++)
            a->inverse[i * (i + 1) / 2 + j] -= px[i] * px[j] / divisor;
    }
    a->n_votes++;
    return RUVLLM_OK;
}

/* ---- as text -------------------------------------------------------------------------------- */

/* The bits of a number as 16 hexadecimal digits: read again they are the same. */
static void put(struct rv_buf *buf, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    rv_buf_addf(buf, "%016" PRIx64, bits);
}

ruvllm_status rv_router_write(const struct rv_router *router, char **text, size_t *len, struct ruvllm_error *err)
{
    struct rv_buf buf;
    ruvllm_status rc;

    *text = NULL;
    rv_buf_init(&buf, MAX_TEXT);
    rv_buf_add_str(&buf, TITLE);
    rv_buf_addf(&buf, "%d ", (int)router->n_arms);
    for (int32_t arm = 0; arm < router->n_arms; arm++) {
        const struct rv_router_arm *a = &router->arms[arm];

        put(&buf, (double)a->n_votes);
        for (int i = 0; i < RV_ROUTER_PACKED; i++)
            put(&buf, a->inverse[i]);
        for (int i = 0; i < RV_ROUTER_TERMS; i++)
            put(&buf, a->sums[i]);
    }
    rc = rv_buf_status(&buf, "a router", err);
    if (!rc)
        *text = rv_buf_take(&buf, len);
    rv_buf_release(&buf);
    return rc;
}

struct cursor {
    const char *at, *end;
    bool is_bad;
};

static double get(struct cursor *c)
{
    uint64_t bits = 0;
    double x;

    if (c->end - c->at < WORD) {
        c->is_bad = true;
        return 0;
    }
    for (int i = 0; i < WORD; i++) {
        char digit = *c->at++;
        bool is_letter = digit >= 'a' && digit <= 'f';

        if (!is_letter && (digit < '0' || digit > '9'))
            c->is_bad = true;
        bits = bits << 4 | (uint64_t)((is_letter ? digit - 'a' + 10 : digit - '0') & 15);
    }
    memcpy(&x, &bits, sizeof(x));
    if (!isfinite(x) || fabs(x) > 1e15) // nothing of a router is, and it stays finite in all that is done with it
        c->is_bad = true;
    return c->is_bad ? 0 : x;
}

ruvllm_status rv_router_read(struct rv_router *out, const char *text, size_t len, struct ruvllm_error *err)
{
    size_t title = sizeof(TITLE) - 1;
    struct cursor c = {.at = text, .end = text + len};

    memset(out, 0, sizeof(*out));
    if (len >= title + 2 && memcmp(text, TITLE, title) == 0 && text[title + 1] == ' ')
        out->n_arms = text[title] - '0';
    if (out->n_arms < 2 || out->n_arms > RV_ROUTER_MAX_ARMS)
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA, "this is not a router");
    c.at += title + 2;
    for (int32_t arm = 0; arm < out->n_arms; arm++) {
        struct rv_router_arm *a = &out->arms[arm];
        double n_votes = get(&c);

        a->n_votes = n_votes >= 0 ? (int64_t)n_votes : 0;
        c.is_bad = c.is_bad || n_votes < 0;
        for (int i = 0; i < RV_ROUTER_PACKED; i++)
            a->inverse[i] = get(&c);
        for (int i = 0; i < RV_ROUTER_TERMS; i++)
            a->sums[i] = get(&c);
    }
    if (c.is_bad || c.at != c.end)
        return rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_SONA, "a router is damaged");
    return RUVLLM_OK;
}

ruvllm_status rv_router_load(struct rv_router *out, struct ruvllm_store *store, const char *tenant, const char *name,
                             int32_t n_arms, struct ruvllm_error *err)
{
    bool found;
    char *text;
    ruvllm_status rc = rv_store_policies_get(store, tenant, name, &text, &found, err);

    if (!rc && !found)
        rv_router_init(out, n_arms);
    if (!rc && found)
        rc = rv_router_read(out, text, strlen(text), err);
    rv_free(text);
    if (!rc && out->n_arms != n_arms)
        rc = rv_fail_kind(err, RUVLLM_INVALID, RUVLLM_ERROR_SONA, "policy '%s' is a router of %d arms, not %d", name,
                          (int)out->n_arms, (int)n_arms);
    return rc ? rv_fail_in(err, rc, "cannot read a tenant's router") : RUVLLM_OK;
}

ruvllm_status rv_router_save(const struct rv_router *router, struct ruvllm_store *store, const char *tenant,
                             const char *name, struct ruvllm_error *err)
{
    char *text;
    size_t len = 0;
    ruvllm_status rc = rv_router_write(router, &text, &len, err);

    if (!rc)
        rc = rv_store_policies_put(store, tenant, name, text, len, err);
    rv_free(text);
    return rc;
}
