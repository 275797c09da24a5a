/*
 * Row 5: a domain the model does not know, by 64 corrected samples of it: how much likelier the rest of the domain
 * becomes, and how much less likely what the model writes itself. The domain is a part of Shakespeare; samples and what
 * is measured are far apart in it. Controls: nothing learned (the base), and corrections whose words are shuffled.
 */
#include "learn_lessons.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_SAMPLES = 64,
    N_SHORT = 16,
    N_POINTS = 4,
    PROMPT = 16,
    SAMPLE = 112,
    N_HELD = 24,
    RANK = 8,
    MAX_BYTES = 120000
};

static const char *const FILE_NAME = "text/tinyshakespeare.txt";

struct domain {
    int32_t *tokens;
    int32_t n;
};

static char *read_file(size_t offset)
{
    const char *folder = getenv("RUVLLM_TEST_DATA");
    char path[1024], *text = lab_need(malloc(MAX_BYTES + 1));
    size_t n;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", folder ? folder : "data", FILE_NAME);
    file = fopen(path, "rb");
    if (!file || fseek(file, (long)offset, SEEK_SET))
        lab_die("cannot open text/tinyshakespeare.txt: set RUVLLM_TEST_DATA", NULL);
    n = fread(text, 1, MAX_BYTES, file);
    (void)fclose(file);
    text[n] = '\0';
    return text;
}

/* As many tokens as are needed, from a place of the file on. */
static struct domain open_domain(const struct lessons *l, size_t offset, int32_t n_tokens)
{
    struct domain d = {.tokens = lab_need(malloc((size_t)n_tokens * sizeof(int32_t)))};
    char *text = read_file(offset);

    d.n = lessons_tokens(l, text, false, d.tokens, n_tokens);
    free(text);
    if (d.n < n_tokens)
        lab_die("the text is too short", NULL);
    return d;
}

/* A sample behind the token that every text begins with. */
static void take_sample(const struct lessons *l, const struct domain *d, int32_t i, int32_t *tokens)
{
    int32_t bos = rv_vocab_bos(l->lab.model->vocab);

    tokens[0] = bos >= 0 ? bos : 0;
    memcpy(tokens + 1, d->tokens + i * SAMPLE, SAMPLE * sizeof(*tokens));
}

static double held_nll(struct lessons *l, const struct domain *d, int n)
{
    int32_t tokens[SAMPLE + 1];
    double sum = 0;

    for (int32_t i = 0; i < n; i++) {
        take_sample(l, d, i, tokens);
        sum += lessons_nll(l, tokens, SAMPLE + 1, PROMPT);
    }
    return sum / n;
}

/* Samples from number `first` up to `end`. */
static void teach(struct lessons *l, const struct domain *d, int first, int end, bool shuffled)
{
    int32_t tokens[SAMPLE + 1];

    for (int32_t i = first; i < end; i++) {
        take_sample(l, d, i, tokens);
        for (uint32_t k = SAMPLE; shuffled && k > PROMPT; k--) {
            uint32_t other = PROMPT + (uint32_t)rv_rng_below(&l->lab.rng, k - PROMPT + 1);
            int32_t token = tokens[k];

            tokens[k] = tokens[other];
            tokens[other] = token;
        }
        lessons_correct(l, tokens, PROMPT, SAMPLE + 1);
    }
}

static void print(struct learn_args *args, const char *what, double value, enum learn_bound bound, double must,
                  double short_must)
{
    learn_figure_print(
        args, &(struct learn_figure){
                  .rank = RANK, .what = what, .value = value, .bound = bound, .must = must, .short_must = short_must});
}

void learn_row5(struct learn_args *args)
{
    int n = args->is_short ? N_SHORT : N_SAMPLES;
    struct domain taught, held;
    struct lessons l;
    double base, now = 0, self = 0;

    lessons_open(&l, args, RANK);
    taught = open_domain(&l, 2000 + 10000 * (size_t)(args->seed % 16), n * SAMPLE);
    held = open_domain(&l, 600000, N_HELD * SAMPLE);
    base = held_nll(&l, &held, N_HELD);
    print(args, "base", base, LEARN_FREE, 0, 0);
    learn_figure_curve(args, RANK, "held", 0, 0);
    learn_figure_curve(args, RANK, "self", 0, 0);
    for (int i = 1; i <= N_POINTS; i++) {
        teach(&l, &taught, n / N_POINTS * (i - 1), n / N_POINTS * i, false);
        now = held_nll(&l, &held, N_HELD) / base - 1;
        self = lessons_self(&l);
        learn_figure_curve(args, RANK, "held", n / N_POINTS * i, now);
        learn_figure_curve(args, RANK, "self", n / N_POINTS * i, self);
    }
    print(args, NULL, now, LEARN_AT_MOST, -0.12, -0.02);
    print(args, "self", self, LEARN_AT_MOST, 0.015, 0.03);
    print(args, "keys", rv_memory_n_keys(l.now.memory), LEARN_FREE, 0, 0);
    lessons_forget(&l, RANK);
    teach(&l, &taught, 0, n, true);
    print(args, "shuffled", held_nll(&l, &held, N_HELD) / base - 1, LEARN_FREE, 0, 0);
    lessons_close(&l);
    free(taught.tokens);
    free(held.tokens);
}
