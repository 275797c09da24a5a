/*
 * What serving promises, measured on one model through the public API (and the block pool itself for capacity):
 *
 *     bench_serving MODEL capacity     sequences held at once in 256 MiB, beside what an F16 cache of cells would hold
 *     bench_serving MODEL prefix       time to the first token when 2,000 tokens are shared, and when they are not
 *     bench_serving MODEL latency      a short prompt that comes while 8,000 tokens are read
 *     bench_serving MODEL paged        one sequence over blocks beside the same over cells
 *     bench_serving MODEL migration    decoding with tiers beside decoding in F16 only; the time of converting blocks
 *     bench_serving MODEL needle       a fact in 20 depths of a long text, recalled with tiers and with F16
 */
#include "ruvllm.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "engine/model.h"
#include "engine_run.h"
#include "kv/kv_seq.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_THREADS = 2, ROUNDS = 5 };

static ruvllm_engine *open_engine(const char *path, int32_t context, const struct ruvllm_kv_policy *policy)
{
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_error err;
    ruvllm_engine *engine;

    model.n_threads = N_THREADS;
    model.max_context = context;
    params.model = &model;
    params.kv = policy;
    params.kv_bytes = (uint64_t)2 << 30;
    if (ruvllm_engine_open(&engine, path, &params, &err))
        engine_run_die(path, &err);
    return engine;
}

static struct ruvllm_model_info info_of(ruvllm_engine *engine)
{
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err;

    if (ruvllm_model_info_get(ruvllm_engine_model(engine), &info, &err))
        engine_run_die("info", &err);
    return info;
}

static int32_t *random_tokens(ruvllm_engine *engine, size_t n, uint64_t seed)
{
    int32_t *tokens = malloc(n * sizeof(*tokens));
    int32_t n_vocab = info_of(engine).n_vocab;
    struct rv_rng rng;

    if (!tokens)
        engine_run_die("memory", NULL);
    rv_rng_init(&rng, seed);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)rv_rng_below(&rng, (uint64_t)n_vocab);
    return tokens;
}

static uint64_t submit(ruvllm_engine *engine, const int32_t *tokens, size_t n, int32_t n_answer)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .tokens = tokens, .n_tokens = n};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    struct ruvllm_error err;
    uint64_t id;

    params.max_tokens = n_answer;
    params.ignore_eos = true;
    params.temperature = 0;
    params.repetition_penalty = 1;
    if (ruvllm_engine_submit(engine, &request, &id, &err))
        engine_run_die("submit", &err);
    return id;
}

/* Time to the first token of a request of its own, in milliseconds. */
static double first_ms(ruvllm_engine *engine, const int32_t *tokens, size_t n, int32_t *n_cached)
{
    struct ruvllm_response *r = engine_run_drain(engine, submit(engine, tokens, n, 1));
    double ms = (double)r->prefill_us / 1e3;

    if (n_cached)
        *n_cached = r->cached_tokens;
    ruvllm_response_free(r);
    return ms;
}

/* ---- capacity ------------------------------------------------------------------------------- */

/* Grows one more sequence to n tokens; when blocks run out, squeezes those before it if allowed. */
static bool grow(struct rv_kv_seq *seqs, int32_t i, int32_t n, bool squeezes)
{
    struct rv_kv_seq *seq = &seqs[i];

    while (seq->len < n) {
        int32_t step = n - seq->len < RV_KV_SEQ_STRIDE ? n - seq->len : RV_KV_SEQ_STRIDE;

        for (int32_t j = 0; squeezes && j < i && rv_kv_seq_n_needed(seq, step) > rv_block_pool_n_free(seq->pool); j++)
            (void)rv_kv_seq_squeeze(&seqs[j], rv_kv_seq_n_needed(seq, step));
        if (!rv_kv_seq_reserve(seq, step))
            return false;
        rv_kv_seq_advance(seq, step);
        rv_kv_seq_migrate(seq);
    }
    return true;
}

static int32_t hold(const struct ruvllm_model_info *info, int32_t n_tokens, int32_t n_shared, bool squeezes)
{
    struct rv_block_pool_config config = {.n_layers = info->n_layers,
                                          .n_kv_heads = info->n_kv_heads,
                                          .head_dim = info->head_dim,
                                          .budget = (size_t)256 << 20};
    struct rv_tier_policy policy = rv_tier_policy_default();
    struct rv_kv_seq seqs[512];
    struct rv_block_pool *pool;
    struct ruvllm_error err;
    int32_t n = 0, n_made = 0;
    bool fits = true;

    if (rv_block_pool_new(&pool, &config, &err))
        engine_run_die("pool", &err);
    while (fits && n < 512) {
        if (rv_kv_seq_init(&seqs[n], pool, &policy, n_tokens, &err))
            engine_run_die("sequence", &err);
        n_made++;
        for (int32_t b = 0; n > 0 && b < n_shared / RV_KV_BLOCK_TOKENS; b++)
            rv_kv_seq_share(&seqs[n], seqs[0].blocks[b]);
        fits = grow(seqs, n, n_tokens, squeezes);
        n += fits;
    }
    for (int32_t i = 0; i < n_made; i++)
        rv_kv_seq_release(&seqs[i]);
    rv_block_pool_free(pool);
    return n;
}

static void capacity(const char *path)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err;
    ruvllm_model *model;
    int32_t lengths[] = {4096, 1024};
    int64_t token_bytes;

    params.vocab_only = true;
    if (ruvllm_model_open(&model, path, &params, &err) || ruvllm_model_info_get(model, &info, &err))
        engine_run_die(path, &err);
    token_bytes = (int64_t)4 * info.n_layers * info.n_kv_heads * info.head_dim;
    for (int i = 0; i < 2; i++) {
        int32_t cells = (int32_t)(((int64_t)256 << 20) / token_bytes / lengths[i]);
        int32_t tiers = hold(&info, lengths[i], 0, false), squeezed = hold(&info, lengths[i], 0, true);

        printf("capacity.%d.f16_cells=%d\n", lengths[i], cells);
        printf("capacity.%d.tiers=%d\n", lengths[i], tiers);
        printf("capacity.%d.tiers.ratio=%.2f\n", lengths[i], (double)tiers / cells);
        printf("capacity.%d.under_pressure=%d\n", lengths[i], squeezed);
        printf("capacity.%d.under_pressure.ratio=%.2f\n", lengths[i], (double)squeezed / cells);
        if (lengths[i] == 1024)
            printf("capacity.1024.shared768.ratio=%.2f\n", (double)hold(&info, 1024, 768, false) / cells);
    }
    ruvllm_model_close(model);
}

/* ---- prefix --------------------------------------------------------------------------------- */

static void prefix(const char *path)
{
    enum { SHARED = 1984, OWN = 36 }; // 62 blocks, and some of its own
    ruvllm_engine *engine = open_engine(path, 2048 + 256, NULL);
    double alone[ROUNDS], again[ROUNDS], meanwhile[ROUNDS];
    int32_t n_cached = 0;

    free(random_tokens(engine, 1, 1));
    for (int i = 0; i < ROUNDS; i++) {
        int32_t *tokens = random_tokens(engine, SHARED + OWN, (uint64_t)i + 10);
        int32_t *own = random_tokens(engine, OWN, (uint64_t)i + 100);
        struct ruvllm_event event = {.struct_size = sizeof(event)};
        struct ruvllm_error err;
        int64_t start = rv_clock_us();
        uint64_t running = submit(engine, tokens, SHARED + OWN, 128);

        if (ruvllm_engine_next_event(engine, running, -1, &event, &err))
            engine_run_die("event", &err);
        alone[i] = (double)(rv_clock_us() - start) / 1e3;
        memcpy(tokens + SHARED, own, OWN * sizeof(*own));
        meanwhile[i] = first_ms(engine, tokens, SHARED + OWN, &n_cached);
        if (n_cached != SHARED)
            engine_run_die("the beginning was not shared", NULL);
        if (ruvllm_engine_cancel(engine, running, &err))
            engine_run_die("cancel", &err);
        tokens[SHARED + 1]++;
        again[i] = first_ms(engine, tokens, SHARED + OWN, &n_cached);
        free(tokens);
        free(own);
    }
    printf("prefix.first_ms=%.1f\n", engine_run_median(alone, ROUNDS));
    printf("prefix.again_ms=%.1f\n", engine_run_median(again, ROUNDS));
    printf("prefix.while_running_ms=%.1f\n", engine_run_median(meanwhile, ROUNDS));
    printf("prefix.again.ratio=%.4f\n", engine_run_median(again, ROUNDS) / engine_run_median(alone, ROUNDS));
    printf("prefix.while_running.ratio=%.4f\n",
           engine_run_median(meanwhile, ROUNDS) / engine_run_median(alone, ROUNDS));
    printf("prefix.cached_tokens=%d\n", n_cached);
    ruvllm_engine_close(engine);
}

/* ---- latency -------------------------------------------------------------------------------- */

static void latency(const char *path)
{
    enum { LONG = 8000, SHORT = 32, STEP = 128 };
    ruvllm_engine *engine = open_engine(path, LONG + 256, NULL);
    struct ruvllm_engine_stats before = {.struct_size = sizeof(before)}, after = before;
    double solo[ROUNDS], step[ROUNDS], during[4 * ROUNDS], worst = 0;
    int32_t *book = random_tokens(engine, LONG, 1);
    struct ruvllm_error err;
    uint64_t reading;
    struct rv_rng rng;

    rv_rng_init(&rng, 3);
    for (int i = 0; i < ROUNDS; i++) {
        int32_t *tokens = random_tokens(engine, STEP, (uint64_t)i + 50);
        solo[i] = first_ms(engine, tokens, SHORT, NULL);
        tokens[0]++;
        step[i] = first_ms(engine, tokens, STEP, NULL);
        free(tokens);
    }
    reading = submit(engine, book, LONG, 1);
    (void)ruvllm_engine_stats_get(engine, &before, &err);
    for (int i = 0; i < 4 * ROUNDS; i++) {
        int32_t *tokens = random_tokens(engine, SHORT, (uint64_t)i + 500);
        const struct timespec pause = {.tv_nsec = (long)rv_rng_below(&rng, 300000000)};

        nanosleep(&pause, NULL);
        during[i] = first_ms(engine, tokens, SHORT, NULL);
        worst = during[i] > worst ? during[i] : worst;
        free(tokens);
    }
    (void)ruvllm_engine_stats_get(engine, &after, &err);
    printf("latency.still_reading=%d\n", after.running);
    printf("latency.solo_ms=%.1f\n", engine_run_median(solo, ROUNDS));
    printf("latency.step128_ms=%.1f\n", engine_run_median(step, ROUNDS));
    printf("latency.mean_step_ms=%.1f\n",
           (double)(after.busy_us - before.busy_us) / 1e3 / (double)(after.steps - before.steps));
    printf("latency.during_ms=%.1f\n", engine_run_median(during, 4 * ROUNDS));
    printf("latency.worst_ms=%.1f\n", worst);
    printf("latency.bound_ms=%.1f\n", 3 * engine_run_median(solo, ROUNDS) + engine_run_median(step, ROUNDS));
    if (ruvllm_engine_cancel(engine, reading, &err))
        engine_run_die("cancel", &err);
    free(book);
    ruvllm_engine_close(engine);
}

/* ---- paged ---------------------------------------------------------------------------------- */

/* The same weights computed over cells and over blocks: two decoders, one row a step. */
struct one_sequence {
    struct ruvllm_model *model;
    struct rv_kv_cache *cells;
    struct rv_block_pool *pool;
    struct rv_kv_seq seq;
    struct rv_decoder *over_cells, *over_blocks;
};

enum { ONE_CONTEXT = 512, ONE_PROMPT = 64, ONE_ANSWER = 96 };

static void open_one(struct one_sequence *o, const char *path)
{
    struct ruvllm_model_params params = ruvllm_model_params_default();
    struct rv_tier_policy f16 = rv_tier_policy_single(RV_KV_BLOCK_F16);
    struct rv_decoder_config config;
    struct rv_block_pool_config pool;
    struct ruvllm_error err;

    params.n_threads = N_THREADS;
    params.max_context = ONE_CONTEXT;
    if (rv_model_open(&o->model, path, &params, false, &err))
        engine_run_die(path, &err);
    pool = (struct rv_block_pool_config){.n_layers = o->model->hparams.n_layers,
                                         .n_kv_heads = o->model->hparams.n_kv_heads,
                                         .head_dim = o->model->hparams.head_dim};
    pool.budget = rv_block_pool_budget_for(&pool, ONE_CONTEXT / RV_KV_BLOCK_TOKENS);
    config = (struct rv_decoder_config){.hparams = &o->model->hparams,
                                        .weights = &o->model->weights,
                                        .device = o->model->device,
                                        .max_rows = ONE_PROMPT,
                                        .max_context = ONE_CONTEXT};
    if (rv_block_pool_new(&o->pool, &pool, &err) || rv_kv_seq_init(&o->seq, o->pool, &f16, ONE_CONTEXT, &err) ||
        rv_kv_cache_new(&o->cells, &o->model->hparams, o->model->device, ONE_CONTEXT, &err))
        engine_run_die("keys and values", &err);
    config.pool = o->pool;
    if (rv_decoder_new(&o->over_blocks, &config, &err))
        engine_run_die("decoder", &err);
    config.pool = NULL;
    config.kv = o->cells;
    if (rv_decoder_new(&o->over_cells, &config, &err))
        engine_run_die("decoder", &err);
}

static void close_one(struct one_sequence *o)
{
    rv_decoder_free(o->over_cells);
    rv_decoder_free(o->over_blocks);
    rv_kv_cache_free(o->cells);
    rv_kv_seq_release(&o->seq);
    rv_block_pool_free(o->pool);
    rv_model_close(o->model);
}

static void step_one(struct one_sequence *o, bool blocks, const int32_t *tokens, int32_t from, int32_t n)
{
    int32_t pos[ONE_PROMPT], zeros[ONE_PROMPT] = {0}, last = n - 1;
    struct rv_kv_seq *seqs[] = {&o->seq};
    struct rv_batch batch = {
        .n_rows = n, .tokens = tokens + from, .pos = pos, .seq = zeros, .seqs = seqs, .out_rows = &last, .n_out = 1};
    struct ruvllm_error err;
    float *rows;

    for (int32_t i = 0; i < n; i++)
        pos[i] = from + i;
    if (blocks && !rv_kv_seq_reserve(&o->seq, n))
        engine_run_die("no room", NULL);
    if (rv_decoder_run(blocks ? o->over_blocks : o->over_cells, &batch, RV_DECODER_LOGITS, &rows, &err))
        engine_run_die("step", &err);
    if (blocks)
        rv_kv_seq_advance(&o->seq, n);
}

/* Microseconds of the steps after the prompt. */
static double time_one(struct one_sequence *o, bool blocks, const int32_t *tokens)
{
    int64_t start;

    rv_kv_seq_clear(&o->seq);
    rv_kv_cache_seq_trim(o->cells, 0, 0);
    step_one(o, blocks, tokens, 0, ONE_PROMPT);
    start = rv_clock_us();
    for (int32_t i = 0; i < ONE_ANSWER; i++)
        step_one(o, blocks, tokens, ONE_PROMPT + i, 1);
    return (double)(rv_clock_us() - start);
}

static void paged(const char *path)
{
    int32_t tokens[ONE_PROMPT + ONE_ANSWER];
    struct one_sequence one = {0};
    double ratios[ROUNDS];
    struct rv_rng rng;

    open_one(&one, path);
    rv_rng_init(&rng, 900);
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
        tokens[i] = (int32_t)rv_rng_below(&rng, (uint64_t)one.model->hparams.n_vocab);
    for (int i = -1; i < ROUNDS; i++) { // the first one warms up; who goes first changes
        double first = time_one(&one, i % 2 == 0, tokens), second = time_one(&one, i % 2 != 0, tokens);

        if (i >= 0)
            ratios[i] = i % 2 == 0 ? second / first : first / second;
    }
    printf("paged.one_sequence.ratio=%.4f\n", engine_run_median(ratios, ROUNDS));
    close_one(&one);
}

/* ---- migration ------------------------------------------------------------------------------ */

/* Tokens a second of four sequences that decode through ages at which blocks move. */
static double decode_rate(ruvllm_engine *engine, uint64_t seed)
{
    enum { N = 4, PROMPT = 400, ANSWER = 256 };
    int32_t *tokens = random_tokens(engine, PROMPT, seed);
    int64_t decode_us = 0;
    uint64_t ids[N];

    for (int i = 0; i < N; i++) {
        tokens[0] = i + 5;
        ids[i] = submit(engine, tokens, PROMPT, ANSWER);
    }
    for (int i = 0; i < N; i++) {
        struct ruvllm_response *r = engine_run_drain(engine, ids[i]);
        decode_us = r->decode_us > decode_us ? r->decode_us : decode_us;
        ruvllm_response_free(r);
    }
    free(tokens);
    return 1e6 * N * ANSWER / (double)decode_us;
}

static double convert_us(const struct ruvllm_model_info *info)
{
    struct rv_block_pool_config config = {.n_layers = info->n_layers,
                                          .n_kv_heads = info->n_kv_heads,
                                          .head_dim = info->head_dim,
                                          .budget = (size_t)128 << 20};
    struct rv_block_pool *pool;
    struct ruvllm_error err;
    int64_t start;
    int32_t blocks[64];

    if (rv_block_pool_new(&pool, &config, &err))
        engine_run_die("pool", &err);
    for (int i = 0; i < 64; i++) {
        blocks[i] = rv_block_pool_take(pool, RV_KV_BLOCK_F16);
        memset(rv_block_pool_data(pool, blocks[i]), 0x2C, rv_block_pool_block_bytes(pool, RV_KV_BLOCK_F16));
    }
    start = rv_clock_us();
    for (int i = 0; i < 64; i++) {
        rv_block_pool_convert(pool, blocks[i], RV_KV_BLOCK_Q8);
        rv_block_pool_convert(pool, blocks[i], RV_KV_BLOCK_Q4);
    }
    start = rv_clock_us() - start;
    for (int i = 0; i < 64; i++)
        rv_block_pool_unref(pool, blocks[i]);
    rv_block_pool_free(pool);
    return (double)start / 64;
}

static void migration(const char *path)
{
    struct ruvllm_kv_policy f16 = ruvllm_kv_policy_default(), tiers = f16;
    double rates[2][ROUNDS], ratios[ROUNDS], us;
    ruvllm_engine *engines[2];

    f16.cold = RUVLLM_PRECISION_FP16;
    tiers.hot_tokens = 128;
    tiers.warm_tokens = 128;
    engines[0] = open_engine(path, 1024, &f16);
    engines[1] = open_engine(path, 1024, &tiers);
    for (int i = 0; i < ROUNDS; i++) {
        for (int j = 0; j < 2; j++)
            rates[(i + j) % 2][i] = decode_rate(engines[(i + j) % 2], (uint64_t)i + 1);
        ratios[i] = rates[1][i] / rates[0][i];
    }
    {
        struct ruvllm_model_info info = info_of(engines[0]);
        us = convert_us(&info);
    }
    printf("migration.convert_us=%.0f\n", us);
    printf("migration.decode.f16=%.2f\n", engine_run_median(rates[0], ROUNDS));
    printf("migration.decode.tiers=%.2f\n", engine_run_median(rates[1], ROUNDS));
    printf("migration.decode.ratio=%.4f\n", engine_run_median(ratios, ROUNDS));
    /* Each of the four sequences converts a block twice in 32 of its tokens. */
    printf("migration.share_of_decode=%.4f\n", us / 32 * engine_run_median(rates[0], ROUNDS) / 1e6);
    ruvllm_engine_close(engines[0]);
    ruvllm_engine_close(engines[1]);
}

/* ---- needle --------------------------------------------------------------------------------- */

/* A long text of harmless sentences with one fact at some depth, and the beginning of a sentence that needs it. */
static char *needle_text(int depth, int n_depths, int code)
{
    static const char *const hay[] = {"The river was calm that morning and nobody was in a hurry. ",
                                      "Some of the houses had red roofs, and others had none at all. ",
                                      "A man sold bread at the corner, as his father had done before him. ",
                                      "In the afternoon it rained a little, and the streets were empty. "};
    enum { N_SENTENCES = 88 };
    char *text = calloc(N_SENTENCES + 4, 100), *end = text;

    if (!text)
        engine_run_die("memory", NULL);
    for (int i = 0; i < N_SENTENCES; i++) {
        if (i == depth * N_SENTENCES / n_depths)
            end += snprintf(end, 100, "The secret number of the old gate is %d. ", code);
        end += snprintf(end, 100, "%s", hay[i % 4]);
    }
    snprintf(end, 100, "The secret number of the old gate is");
    return text;
}

static bool recalls(ruvllm_engine *engine, const char *text, int code)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request request = {
        .struct_size = sizeof(request), .input = &input, .params = &params, .no_shared_prefix = true};
    struct ruvllm_response *r;
    struct ruvllm_error err;
    char expected[16];
    uint64_t id;
    bool found;

    params.max_tokens = 8;
    params.temperature = 0;
    params.repetition_penalty = 1;
    if (ruvllm_engine_submit(engine, &request, &id, &err))
        engine_run_die("submit", &err);
    r = engine_run_drain(engine, id);
    snprintf(expected, sizeof(expected), "%d", code);
    found = strstr(r->text, expected) != NULL;
    ruvllm_response_free(r);
    return found;
}

static void needle(const char *path)
{
    enum { N_DEPTHS = 20 };
    struct ruvllm_kv_policy f16 = ruvllm_kv_policy_default();
    ruvllm_engine *engines[2];
    int n_found[2] = {0}, n_equal = 0;

    f16.cold = RUVLLM_PRECISION_FP16;
    engines[0] = open_engine(path, 2048, &f16);
    engines[1] = open_engine(path, 2048, NULL);
    for (int depth = 0; depth < N_DEPTHS; depth++) {
        int code = 1000 + depth * 397 % 9000;
        char *text = needle_text(depth, N_DEPTHS, code);
        bool a = recalls(engines[0], text, code), b = recalls(engines[1], text, code);

        n_found[0] += a;
        n_found[1] += b;
        n_equal += a == b;
        fprintf(stderr, "%c%c ", a ? '+' : '-', b ? '+' : '-');
        free(text);
    }
    fprintf(stderr, "\n");
    printf("needle.f16=%d\nneedle.tiers=%d\nneedle.equal=%d\nneedle.depths=%d\n", n_found[0], n_found[1], n_equal,
           N_DEPTHS);
    ruvllm_engine_close(engines[0]);
    ruvllm_engine_close(engines[1]);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const char *path);
    } parts[] = {{"capacity", capacity}, {"prefix", prefix},       {"latency", latency},
                 {"paged", paged},       {"migration", migration}, {"needle", needle}};

    for (size_t i = 0; argc == 3 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strcmp(argv[2], parts[i].name) == 0) {
            parts[i].run(argv[1]);
            return 0;
        }
    }
    fprintf(stderr, "usage: bench_serving MODEL capacity|prefix|latency|paged|migration|needle\n");
    return 2;
}
