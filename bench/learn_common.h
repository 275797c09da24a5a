/*
 * What the rows of bench_learn share. A row is a file learn_row<N>.c with one function; the build finds it. Rows are
 * numbered as in docs/internals/bench-learn.md.
 */
#ifndef RV_BENCH_LEARN_COMMON_H
#define RV_BENCH_LEARN_COMMON_H

#include "learn_figure.h"
#include "learn_lab.h"

typedef void learn_row_fn(struct learn_args *args);

learn_row_fn learn_row0, learn_row1, learn_row2, learn_row3, learn_row4, learn_row5, learn_row6, learn_row7, learn_row8,
    learn_row9, learn_row10, learn_row11, learn_row12, learn_row13, learn_row14, learn_row15, learn_row16;

#endif
