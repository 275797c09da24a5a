#include "learn_deep.h"

#include "base/alloc.h"
#include "learn/deep_content.h"
#include "learn/deep_variants.h"
#include "learn/fisher.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    GUARD_EVERY = 4,
    GUARD_BEFORE = 128,
    N_OWN = 96,
    N_OWN_LARGE = 48,
    N_READ = 64, // of the anchors, to know what texts cost a token
    N_FISHER = 16,
    MAX_SAMPLE = 160,
    LARGE_DIMS = 128
};

void deep_open(struct deep_bed *bed, const struct learn_args *args, int32_t n_anchors, int32_t n_anchors_if_large)
{
    struct lab_texts some;
    struct ruvllm_error err;

    *bed = (struct deep_bed){0};
    lab_open(&bed->lab, args->path, args->seed);
    /* One thread: seeds and models run beside each other instead. */
    if (rv_team_open(&bed->team, 1, false, &err))
        lab_die("threads", &err);
    bed->anchors = lab_write_texts(&bed->lab, deep_is_large(bed) ? n_anchors_if_large : n_anchors, LAB_TEXT);
    bed->own = lab_write_texts(&bed->lab, deep_is_large(bed) ? N_OWN_LARGE : N_OWN, LAB_TEXT);
    bed->own_nll = lab_texts_nll(&bed->lab, NULL, &bed->own);
    some = bed->anchors; // borrowed
    some.n = some.n < N_READ ? some.n : N_READ;
    bed->anchor_nll = lab_texts_nll(&bed->lab, NULL, &some);
}

void deep_forget(struct deep_bed *bed)
{
    rv_adapter_unref(bed->adapter);
    free(bed->values);
    free(bed->fisher);
    bed->adapter = NULL;
    bed->values = bed->fisher = NULL;
}

void deep_close(struct deep_bed *bed)
{
    deep_forget(bed);
    lab_free_texts(&bed->anchors);
    lab_free_texts(&bed->own);
    rv_team_close(bed->team);
    lab_close(&bed->lab);
}

int32_t deep_turns(const struct deep_bed *bed, int32_t n_at_once)
{
    int32_t n = bed->anchors.n, n_guard = (n < GUARD_BEFORE ? n : GUARD_BEFORE) / GUARD_EVERY;

    return (n - n_guard) / n_at_once;
}

bool deep_is_large(const struct deep_bed *bed)
{
    return bed->lab.n_dims > LARGE_DIMS;
}

double deep_self(struct deep_bed *bed)
{
    return lab_texts_nll(&bed->lab, bed->adapter, &bed->own) / bed->own_nll - 1;
}

/* ---- runs ------------------------------------------------------------------------------------- */

static struct rv_deep_config config_of(const struct deep_bed *bed, const struct deep_recipe *recipe)
{
    struct rv_deep_config c = rv_deep_config_default();

    c.hparams = &bed->lab.model->hparams;
    c.manifest = &bed->lab.model->manifest;
    c.team = bed->team;
    c.rank = recipe->rank;
    c.alpha = 2 * (float)recipe->rank;
    c.n_epochs = recipe->n_epochs;
    c.patience = 0;
    c.kl_weight = recipe->kl_weight;
    c.held_out = recipe->held_out;
    c.max_tokens = MAX_SAMPLE;
    if (recipe->batch_tokens > 0)
        c.batch_tokens = recipe->batch_tokens;
    c.adamw.step = rv_deep_suited_step(c.hparams);
    c.max_guard_kl = (float)((double)recipe->max_self * bed->anchor_nll);
    c.start = bed->values;
    if (bed->values) {
        c.center = bed->values;
        c.fisher = bed->fisher;
        c.ewc = recipe->ewc;
    }
    return c;
}

static bool is_guard(int32_t i)
{
    return i % GUARD_EVERY == 0 && i < GUARD_BEFORE;
}

static void measure_fisher(struct deep_bed *bed, const struct rv_deep_config *c, const struct rv_trainable *trainable)
{
    struct rv_fisher_config config = {.hparams = c->hparams,
                                      .manifest = c->manifest,
                                      .team = c->team,
                                      .max_state_bytes = c->max_state_bytes,
                                      .seed = 1,
                                      .keep = bed->fisher ? 0.5f : 0.0f};
    struct rv_fisher_text texts[N_FISHER];
    struct rv_trainable copy = *trainable; // gradients are the run's scratch
    struct ruvllm_error err;

    for (int i = 0, n = 0; n < N_FISHER; i++)
        if (!is_guard(i))
            texts[n++] = (struct rv_fisher_text){bed->anchors.tokens + i * LAB_TEXT, LAB_TEXT};
    if (!bed->fisher)
        bed->fisher = lab_need(calloc(copy.n, sizeof(*bed->fisher)));
    if (rv_fisher_measure(&config, &copy, texts, N_FISHER, bed->fisher, &err))
        lab_die("Fisher", &err);
}

static void keep(struct deep_bed *bed, const struct rv_deep_config *c, const struct rv_trainable *trainable)
{
    struct ruvllm_error err;

    rv_adapter_unref(bed->adapter);
    if (rv_deep_content_adapter(trainable, c->hparams, c->manifest, &bed->adapter, &err))
        lab_die("adapter", &err);
    measure_fisher(bed, c, trainable);
    if (!bed->values)
        bed->values = lab_need(malloc(trainable->n * sizeof(*bed->values)));
    memcpy(bed->values, trainable->values, trainable->n * sizeof(*bed->values));
}

/* The samples, and anchors behind them. */
static struct rv_deep_sample *list(const struct deep_bed *bed, const struct rv_deep_sample *samples, size_t n,
                                   int32_t n_turns)
{
    struct rv_deep_sample *all = lab_need(calloc(n + (size_t)bed->anchors.n, sizeof(*all)));

    memcpy(all, samples, n * sizeof(*all));
    for (int32_t i = 0; i < bed->anchors.n; i++)
        all[n + (size_t)i] = (struct rv_deep_sample){.tokens = bed->anchors.tokens + i * LAB_TEXT,
                                                     .n = LAB_TEXT,
                                                     .is_anchor = true,
                                                     .is_guard = is_guard(i),
                                                     .turn = n_turns > 1 ? i % n_turns : 0,
                                                     .n_turns = n_turns};
    return all;
}

bool deep_train(struct deep_bed *bed, const struct rv_deep_sample *samples, size_t n, const struct deep_recipe *recipe)
{
    struct rv_deep_sample *all = list(bed, samples, n, recipe->n_turns);
    struct rv_deep_config c = config_of(bed, recipe);
    struct rv_deep_variants_config more = {.run = &c,
                                           .vocab = bed->lab.model->vocab,
                                           .n_each = recipe->n_variants * recipe->n_epochs,
                                           .n_at_once = recipe->n_variants > 0 ? recipe->n_variants : 1};
    struct rv_deep_variants variants;
    struct rv_deep_result result;
    struct ruvllm_error err;
    struct rv_deep *deep;

    if (rv_deep_variants_init(&variants, &more, all, n + (size_t)bed->anchors.n, &err))
        lab_die("variants", &err);
    if (rv_deep_open(&deep, &c, variants.items, variants.n, &err) || rv_deep_run(deep, &result, &err))
        lab_die("training", &err);
    if (result.best_epoch >= 0)
        keep(bed, &c, rv_deep_trainable(deep));
    rv_deep_close(deep);
    rv_deep_variants_release(&variants);
    free(all);
    return result.best_epoch >= 0;
}

/* ---- domains ---------------------------------------------------------------------------------- */

static char *read_file(const char *name, size_t offset, size_t n)
{
    const char *folder = getenv("RUVLLM_TEST_DATA");
    char path[1024], *text = lab_need(malloc(n + 1));
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/text/%s", folder ? folder : "data", name);
    file = fopen(path, "rb");
    if (!file || fseek(file, (long)offset, SEEK_SET))
        lab_die("cannot open a text of the test data: set RUVLLM_TEST_DATA", NULL);
    n = fread(text, 1, n, file);
    (void)fclose(file);
    text[n] = '\0';
    return text;
}

void deep_domain_open(struct deep_domain *domain, const struct deep_bed *bed, const char *file, size_t offset,
                      int32_t n, int32_t episode)
{
    const struct rv_vocab *vocab = bed->lab.model->vocab;
    char *text = read_file(file, offset, (size_t)n * DEEP_SAMPLE * 8); // no tokens are longer than that on average
    int32_t bos = rv_vocab_bos(vocab), *ids;
    struct ruvllm_error err;
    size_t n_ids;

    *domain = (struct deep_domain){.n = n};
    domain->tokens = lab_need(malloc((size_t)n * (DEEP_SAMPLE + 1) * sizeof(int32_t)));
    domain->samples = lab_need(calloc((size_t)n, sizeof(*domain->samples)));
    if (rv_vocab_encode(vocab, text, strlen(text), NULL, 0, &ids, &n_ids, &err))
        lab_die("tokens", &err);
    if (n_ids < (size_t)n * DEEP_SAMPLE)
        lab_die("the text is too short", NULL);
    for (int i = 1; i <= DEEP_SAMPLE; i++)
        domain->weights[i] = 1.0f;
    for (int32_t i = 0; i < n; i++) {
        int32_t *row = domain->tokens + i * (DEEP_SAMPLE + 1);

        row[0] = bos >= 0 ? bos : 0;
        memcpy(row + 1, ids + i * DEEP_SAMPLE, DEEP_SAMPLE * sizeof(*row));
        domain->samples[i] = (struct rv_deep_sample){
            .tokens = row, .n = DEEP_SAMPLE + 1, .weights = domain->weights, .episode = episode + i};
    }
    rv_free(ids);
    free(text);
}

void deep_domain_close(struct deep_domain *domain)
{
    free(domain->tokens);
    free(domain->samples);
}

double deep_domain_nll(struct deep_bed *bed, const struct deep_domain *domain)
{
    double sum = 0;

    for (int32_t i = 0; i < domain->n; i++)
        sum += lab_nll(&bed->lab, bed->adapter, domain->samples[i].tokens, DEEP_SAMPLE + 1, 1);
    return sum / domain->n;
}
