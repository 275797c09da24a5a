#include "learn_figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_name(const char *kind, const struct learn_args *args, int32_t rank, const char *what)
{
    printf("%s.%d", kind, args->row);
    if (rank > 0)
        printf(".r%d", (int)rank);
    if (what)
        printf(".%s", what);
    printf(".%s", args->model);
}

void learn_figure_print(struct learn_args *args, const struct learn_figure *figure)
{
    double bound = args->is_short ? figure->short_must : figure->must;
    bool is_met = figure->bound == LEARN_FREE || (figure->bound == LEARN_AT_LEAST && figure->value >= bound) ||
                  (figure->bound == LEARN_AT_MOST && figure->value <= bound); // NaN meets nothing

    print_name("learn", args, figure->rank, figure->what);
    printf("=%.6g", figure->value);
    if (figure->se > 0)
        printf(" se=%.3g", figure->se);
    if (figure->bound != LEARN_FREE)
        printf(" must=%s%.6g", figure->bound == LEARN_AT_LEAST ? ">=" : "<=", bound);
    printf(args->is_short && !is_met ? " missed\n" : "\n");
    (void)fflush(stdout);
    args->n_missed += args->is_short && !is_met;
}

void learn_figure_curve(const struct learn_args *args, int32_t rank, const char *what, double x, double value)
{
    print_name("curve", args, rank, what);
    printf("@%g=%.6g\n", x, value);
    (void)fflush(stdout);
}

void learn_figure_apart(struct learn_args *args, void (*run)(struct learn_args *args, void *user), void *user)
{
    enum { BROKEN = 100 }; // what lab_die ends with, and more than can be missed
    int status = 0;
    pid_t child;

    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        args->n_missed = 0;
        run(args, user);
        (void)fflush(stdout);
        _exit(args->n_missed < BROKEN ? args->n_missed : BROKEN);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) >= BROKEN) {
        (void)fprintf(stderr, "learn: a part of the row broke\n");
        exit(1);
    }
    args->n_missed += WEXITSTATUS(status);
}

void learn_figure_name_model(char out[64], const char *path)
{
    static const char *const endings[] = {".gguf", "-f16"};
    const char *slash = strrchr(path, '/');

    (void)snprintf(out, 64, "%s", slash ? slash + 1 : path);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t n = strlen(out), end = strlen(endings[i]);

        if (n > end && strcmp(out + n - end, endings[i]) == 0)
            out[n - end] = '\0';
    }
}

void learn_sample_add(struct learn_sample *sample, double value)
{
    sample->n++;
    sample->sum += value;
    sample->squares += value * value;
}

double learn_sample_mean(const struct learn_sample *sample)
{
    return sample->n > 0 ? sample->sum / sample->n : NAN;
}

double learn_sample_se(const struct learn_sample *sample)
{
    double n = sample->n, mean = learn_sample_mean(sample);
    double variance = n > 1 ? (sample->squares / n - mean * mean) * n / (n - 1) : 0;

    return variance > 0 ? sqrt(variance / n) : 0;
}

static int by_size(const void *x, const void *y)
{
    double a = *(const double *)x, b = *(const double *)y;

    return (a > b) - (a < b);
}

double learn_sample_quantile(double *values, size_t n, double q)
{
    qsort(values, n, sizeof(*values), by_size);
    return values[(size_t)(q * (double)(n - 1) + 0.5)];
}
