/*
 * The Walsh-Hadamard rotation: spreads outliers of a row over all of it, so that few bits hold it well. Its own
 * inverse, and products of two rows that are both rotated stay what they were.
 */
#ifndef RV_KERNELS_HADAMARD_H
#define RV_KERNELS_HADAMARD_H

#include <stdint.h>

/* Rotates n numbers in place, in runs of the largest power of two that divides n, scaled to keep lengths. */
void rv_hadamard(float *row, int32_t n);

#endif
