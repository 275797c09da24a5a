/* Eigenvalues and vectors of small symmetric matrices, by Jacobi's rotations. */
#ifndef RV_LEARN_SMALL_EIGEN_H
#define RV_LEARN_SMALL_EIGEN_H

enum { RV_SMALL_EIGEN_MAX = 32 };

/*
 * m (n x n, symmetric, row after row) becomes diagonal; row i of `vectors` (n x n) belongs to values[i]; the largest
 * value first. n is at most RV_SMALL_EIGEN_MAX.
 */
void rv_small_eigen(double *m, int n, double *values, double *vectors);

#endif
