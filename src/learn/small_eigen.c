#include "learn/small_eigen.h"

#include <math.h>

enum { MAX_SWEEPS = 40 };

/* Turns rows and columns p and q so that m[p][q] becomes 0. */
static void turn(double *m, int n, double *vectors, int p, int q)
{
    double theta = (m[q * n + q] - m[p * n + p]) / (2 * m[p * n + q]);
    double t = (theta >= 0 ? 1 : -1) / (fabs(theta) + sqrt(theta * theta + 1));
    double c = 1 / sqrt(t * t + 1), s = t * c;

    for (int i = 0; i < n; i++) {
        double x = m[i * n + p], y = m[i * n + q];

        m[i * n + p] = c * x - s * y;
        m[i * n + q] = s * x + c * y;
    }
    for (int i = 0; i < n; i++) {
        double x = m[p * n + i], y = m[q * n + i];

        m[p * n + i] = c * x - s * y;
        m[q * n + i] = s * x + c * y;
    }
    for (int i = 0; i < n; i++) {
        double x = vectors[p * n + i], y = vectors[q * n + i];

        vectors[p * n + i] = c * x - s * y;
        vectors[q * n + i] = s * x + c * y;
    }
}

static double off_diagonal(const double *m, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            sum += i == j ? 0 : m[i * n + j] * m[i * n + j];
    }
    return sum;
}

static void sort(double *values, double *vectors, int n)
{
    for (int i = 1; i < n; i++) {
        for (int j = i; j > 0 && values[j] > values[j - 1]; j--) {
            double value = values[j];

            values[j] = values[j - 1];
            values[j - 1] = value;
            for (int k = 0; k < n; k++) {
                double x = vectors[j * n + k];

                vectors[j * n + k] = vectors[(j - 1) * n + k];
                vectors[(j - 1) * n + k] = x;
            }
        }
    }
}

void rv_small_eigen(double *m, int n, double *values, double *vectors)
{
    double size = off_diagonal(m, n);

    for (int i = 0; i < n; i++) {
        size += m[i * n + i] * m[i * n + i];
        for (int j = 0; j < n; j++)
            vectors[i * n + j] = i == j;
    }
    for (int sweep = 0; sweep < MAX_SWEEPS && off_diagonal(m, n) > 1e-30 * size; sweep++) {
        for (int p = 0; p < n; p++) {
            for (int q = p + 1; q < n; q++) {
                if (m[p * n + q] != 0)
                    turn(m, n, vectors, p, q);
            }
        }
    }
    for (int i = 0; i < n; i++)
        values[i] = m[i * n + i];
    sort(values, vectors, n);
}
