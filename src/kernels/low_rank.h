/*
 * Matrices as products of two narrow ones, in double: M = sum over r of b_r a_r', with b_r of n_out and a_r of n_in
 * numbers. Sums of such products are products again; the best approximation of a smaller rank is found without ever
 * forming M.
 */
#ifndef RV_KERNELS_LOW_RANK_H
#define RV_KERNELS_LOW_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rv_low_rank {
    size_t n_out;
    size_t n_in;
    size_t rank;
    double *b; // [rank][n_out]
    double *a; // [rank][n_in]
};

/* What an approximation lost: squared Frobenius norms. */
struct rv_low_rank_loss {
    double dropped;
    double total;
};

/* Zeros. False when there is no memory, as from all of these; it is empty then. */
bool rv_low_rank_init(struct rv_low_rank *product, size_t n_out, size_t n_in, size_t rank);
void rv_low_rank_release(struct rv_low_rank *product);

/* Frobenius inner product of two of the same size. */
double rv_low_rank_dot(const struct rv_low_rank *x, const struct rv_low_rank *y);
/* Row `i` of M: n_in numbers. */
void rv_low_rank_row(const struct rv_low_rank *product, size_t i, double *out);

/*
 * The best approximation of at most this rank, in place: thin QR of both factors, then the singular values of the small
 * matrix between them (one-sided Jacobi). b and a get the square root of each singular value.
 */
bool rv_low_rank_truncate(struct rv_low_rank *product, size_t rank, struct rv_low_rank_loss *loss);
/*
 * A full matrix [n_out][n_in] to a product of at most this rank. Exact where the rank is nearly that of the matrix;
 * else by subspace iteration from a random start (Halko, Martinsson and Tropp, arXiv 0909.4061, algorithm 4.4), the
 * same for the same seed. The loss is that of the result, not of the best one.
 */
bool rv_low_rank_from_matrix(struct rv_low_rank *out, const float *matrix, size_t n_out, size_t n_in, size_t rank,
                             uint64_t seed, struct rv_low_rank_loss *loss);

#endif
