/*
 * What feedback gains and what it costs elsewhere, on a real model, by the code the engine learns with: one row of the
 * table in docs/internals/bench-learn.md, with one seed. Always pairs: the gain, and `self`, by how much the likelihood
 * of text that the model itself wrote falls.
 *
 *     bench_learn MODEL ROW [SEED [short [EXTRA]]]
 *
 * `short` (or `long`) takes seconds and ends with status 1 when a bound is missed that only broken code misses.
 * scripts/bench_learn.py runs all rows with several seeds. Lines are described in learn_figure.h.
 */
#include "learn_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int number;
    learn_row_fn *run;
} rows[] = {
#define ROW(n) {n, learn_row##n},
#include "learn_rows.inc" // written by the build: a line for each learn_row<N>.c
#undef ROW
};

int main(int argc, char **argv)
{
    struct learn_args args = {.program = argv[0]};

    if (argc < 3 || argc > 6) {
        (void)fprintf(stderr, "usage: bench_learn MODEL ROW [SEED [short|long [EXTRA]]]\n");
        return 2;
    }
    args.path = argv[1];
    learn_figure_name_model(args.model, argv[1]);
    args.row = (int)strtol(argv[2], NULL, 10);
    args.seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    args.is_short = argc > 4 && strcmp(argv[4], "short") == 0;
    args.extra = argc > 5 ? argv[5] : NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].number != args.row)
            continue;
        rows[i].run(&args);
        return args.n_missed > 0;
    }
    lab_die("there is no such row", NULL);
}
