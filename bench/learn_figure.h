/*
 * Figures of the rows of bench_learn: one line each, with what the table demands of it.
 *
 *     learn.<row>[.r<rank>][.<what>].<model>=<value>[ se=<standard error>][ must=<= or >=bound]
 *     curve.<row>[.r<rank>].<what>.<model>@<x>=<value>
 *
 * A standard error is given where runs with other seeds are only more samples of the same; scripts/bench_learn.py then
 * takes them together, and otherwise looks at how runs differ.
 */
#ifndef RV_BENCH_LEARN_FIGURE_H
#define RV_BENCH_LEARN_FIGURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a row is run with. */
struct learn_args {
    const char *program; // this one, for rows that start it again
    const char *path;    // of the model
    char model[64];      // its name in figures
    int row;
    uint64_t seed;
    bool is_short;     // in a few seconds: with bounds that only broken code misses, on any machine
    const char *extra; // what else was given; NULL
    int n_missed;      // bounds, in a short run
};

enum learn_bound { LEARN_FREE, LEARN_AT_LEAST, LEARN_AT_MOST };

struct learn_figure {
    int32_t rank;     // 0: not said
    const char *what; // NULL: the row's main figure
    double value;
    double se; // 0: not known
    enum learn_bound bound;
    double must;       // of the table
    double short_must; // in a short run
};

void learn_figure_print(struct learn_args *args, const struct learn_figure *figure);
void learn_figure_curve(const struct learn_args *args, int32_t rank, const char *what, double x, double value);

/*
 * Runs something in a copy of this process, which ends with it: so several things can begin from one state. Only while
 * there is one thread.
 */
void learn_figure_apart(struct learn_args *args, void (*run)(struct learn_args *args, void *user), void *user);

/* A file's name without folder, ending, and the precision that says nothing. */
void learn_figure_name_model(char out[64], const char *path);

/* Mean and standard error of what is added. */
struct learn_sample {
    int n;
    double sum, squares;
};

void learn_sample_add(struct learn_sample *sample, double value);
double learn_sample_mean(const struct learn_sample *sample);
double learn_sample_se(const struct learn_sample *sample);

/* The q-th part of n values, which it sorts: 0.5 is the median. */
double learn_sample_quantile(double *values, size_t n, double q);

#endif
