/*
 * What learning costs those who are served: 16 streams decode, on an engine that captures and learns from votes that
 * arrive at 10 a second, each on the disk, and on an engine that does not; in turn, round after round. Then the disk
 * alone, beside the engine that does not learn. Then the same streams beside a training run of idle priority in the
 * engine that learns, and without one.
 *
 *     bench_votes MODEL [ROUNDS [STORE]]
 *
 *     votes.tok_s_ratio.<model>=0.985     the median over rounds of learning over not learning; votes.*.tok_s the rates
 *     votes.step_p99_ms.on.<model>=41.2   of the time between two steps of the engine; likewise p50, and off
 *     votes.step_p99_more_ms.<model>=0.3  the difference
 *     votes.ack_p99_ms.<model>=3.1        the feedback call, with its commit; likewise p50; votes.a_second how many
 * came votes.disk_p99_ms.<model>=2.5       about as many bytes written over, and fdatasync, as often, beside the store
 *     votes.deep_ratio.<model>=0.93       tokens a second beside a training run, over those without
 *
 * STORE is a file that stays, so that a large model need not write its first texts again.
 */
#include "learn_figure.h"
#include "learn_host.h"
#include "learn_lab.h"

#include "base/clock.h"
#include "ruvllm_train.h"
#include "temp_path.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    N_STREAMS = 16,
    PROMPT = 8,
    ANSWER = 96,
    VOTE_US = 100000,
    MAX_ROUNDS = 32,
    MAX_STEPS = 4096,
    MAX_VOTES = 8192,
    EVENT_BYTES = 16384, // about what an event is
    N_PLACES = 256,      // in the file that the disk alone is measured by
    N_RESAMPLES = 400
};

/* Times of steps, told by the engine's thread, also a moment after the last answer was read. */
struct clock {
    int64_t us[MAX_STEPS];
    atomic_int n;
};

/* What is being served, and what is voted on meanwhile: the answers of the round before. */
struct floor {
    struct host *host;
    char tenants[N_STREAMS][32];
    uint64_t voted[N_STREAMS]; // ids of finished answers
    atomic_bool is_over;
    int n_votes;
    double ack_ms[MAX_VOTES];
    struct clock clocks[2]; // of this round and of the one before, which may still tick
    double rates[MAX_ROUNDS];
    double gaps_ms[MAX_STEPS]; // between steps, of all rounds
    int n_gaps;
    int gaps_before[MAX_ROUNDS + 1]; // of each round: how many are of earlier ones
    int64_t served_us;
    void (*act)(struct floor *f, int i); // ten times a second; NULL: nothing
    int file;
};

static void on_event(void *user, uint64_t id)
{
    struct clock *c = user;

    (void)id;
    if (atomic_load(&c->n) < MAX_STEPS)
        c->us[atomic_fetch_add(&c->n, 1)] = rv_clock_us();
}

static void vote(struct floor *f, int i)
{
    (void)host_vote(f->host, f->tenants[i % N_STREAMS], f->voted[i % N_STREAMS], (i / N_STREAMS) % 2);
}

static void write_over(struct floor *f, int i)
{
    static char bytes[EVENT_BYTES];

    memset(bytes, i, sizeof(bytes));
    if (pwrite(f->file, bytes, sizeof(bytes), (off_t)(i % N_PLACES) * EVENT_BYTES) != EVENT_BYTES || fdatasync(f->file))
        lab_die("the disk", NULL);
}

static void *keep_acting(void *arg)
{
    struct floor *f = arg;
    int64_t next = rv_clock_us() + VOTE_US;

    for (int i = 0; !atomic_load(&f->is_over); i++) {
        int64_t wait = next - rv_clock_us(), start;
        struct timespec pause = {.tv_nsec = (wait > 0 ? wait : 0) * 1000};

        nanosleep(&pause, NULL);
        next += VOTE_US;
        if (atomic_load(&f->is_over) || f->n_votes == MAX_VOTES)
            break;
        start = rv_clock_us();
        f->act(f, i);
        f->ack_ms[f->n_votes++] = (double)(rv_clock_us() - start) / 1e3;
    }
    return NULL;
}

static void submit_all(struct floor *f, uint64_t round, struct clock *clock, uint64_t *ids)
{
    for (int i = 0; i < N_STREAMS; i++) {
        struct host_ask ask = {.tenant = f->tenants[i],
                               .seed = round * N_STREAMS + (uint64_t)i,
                               .n_prompt = PROMPT,
                               .n_answer = ANSWER,
                               .temperature = 1,
                               .n_logprobs = -1};

        if (i == N_STREAMS - 1) { // who comes last has all the others beside it
            ask.on_event = on_event;
            ask.user = clock;
        }
        ids[i] = host_submit(f->host, &ask);
    }
}

/* One round of 16 answers: tokens a second, and the times between steps. A round below 0 only warms up. */
static void serve(struct floor *f, int round)
{
    struct clock *clock = &f->clocks[(round + 1) % 2];
    uint64_t ids[N_STREAMS];
    int64_t start;
    bool acts = f->act && round >= 0;
    pthread_t actor;

    atomic_store(&clock->n, 0);
    atomic_store(&f->is_over, false);
    if (acts && pthread_create(&actor, NULL, keep_acting, f))
        lab_die("thread", NULL);
    start = rv_clock_us();
    submit_all(f, (uint64_t)round + 1, clock, ids); // from 0 on
    for (int i = 0; i < N_STREAMS; i++)
        ruvllm_response_free(host_wait(f->host, ids[i]));
    if (round >= 0) {
        int n = atomic_load(&clock->n);

        f->rates[round] = 1e6 * N_STREAMS * ANSWER / (double)(rv_clock_us() - start);
        f->served_us += rv_clock_us() - start;
        for (int i = 1; i < n && f->n_gaps < MAX_STEPS; i++)
            f->gaps_ms[f->n_gaps++] = (double)(clock->us[i] - clock->us[i - 1]) / 1e3;
        f->gaps_before[round + 1] = f->n_gaps;
    }
    atomic_store(&f->is_over, true);
    if (acts)
        pthread_join(actor, NULL);
    memcpy(f->voted, ids, sizeof(ids));
}

/* ---- beside a training run ------------------------------------------------------------------ */

/* A run that stands still between its steps while it is not wanted, so that it has to begin only once. */
struct training {
    struct host *host;
    const char *tenant;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_wanted, is_waiting, is_over; // guarded by lock
};

static bool on_progress(void *user, const struct ruvllm_train_progress *progress)
{
    struct training *t = user;
    bool goes_on;

    (void)progress;
    pthread_mutex_lock(&t->lock);
    t->is_waiting = true;
    pthread_cond_broadcast(&t->changed);
    while (!t->is_wanted && !t->is_over)
        pthread_cond_wait(&t->changed, &t->lock);
    t->is_waiting = false;
    goes_on = !t->is_over;
    pthread_mutex_unlock(&t->lock);
    return goes_on;
}

static void *train(void *arg)
{
    struct training *t = arg;
    struct ruvllm_train_params params = ruvllm_deep_train_params_default();
    struct ruvllm_deep_params deep = ruvllm_deep_params_default();
    struct ruvllm_deep_report report = {.struct_size = sizeof(report), .train = {.struct_size = sizeof(report.train)}};
    struct ruvllm_error err = {0};

    params.n_epochs = 1000; // it is stopped
    params.patience = 0;
    params.batch_tokens = 128; // short steps: it stands still only between them
    params.on_progress = on_progress;
    params.user = t;
    deep.train = &params;
    deep.is_idle = true;
    if (ruvllm_engine_learn_deep(t->host->engine, t->tenant, &deep, &report, &err))
        lab_die("training run", &err);
    if (!report.train.was_stopped)
        lab_die("the training run ended by itself", NULL);
    return NULL;
}

static void want(struct training *t, bool is_wanted, bool is_over)
{
    pthread_mutex_lock(&t->lock);
    t->is_wanted = is_wanted;
    t->is_over = is_over;
    pthread_cond_broadcast(&t->changed);
    while (!is_wanted && !is_over && !t->is_waiting)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

static void serve_beside(struct floor *floors, int n_rounds)
{
    struct training t = {.host = floors[1].host,
                         .tenant = floors[1].tenants[0],
                         .lock = PTHREAD_MUTEX_INITIALIZER,
                         .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;

    if (pthread_create(&thread, NULL, train, &t))
        lab_die("thread", NULL);
    for (int i = 0; i < n_rounds; i++) {
        want(&t, false, false); // also until its first step is done
        serve(&floors[0], i);
        want(&t, true, false);
        serve(&floors[1], i);
    }
    want(&t, false, true);
    pthread_join(thread, NULL);
}

static void report_beside(const char *model, struct floor *floors, int n_rounds)
{
    double ratios[MAX_ROUNDS], p99[2];

    for (int i = 0; i < n_rounds; i++)
        ratios[i] = floors[1].rates[i] / floors[0].rates[i];
    for (int side = 0; side < 2; side++)
        p99[side] = learn_sample_quantile(floors[side].gaps_ms, (size_t)floors[side].n_gaps, 0.99);
    printf("votes.deep_ratio.%s=%.4f\n", model, learn_sample_quantile(ratios, (size_t)n_rounds, 0.5));
    printf("votes.deep_step_p99_more_ms.%s=%.3f\n", model, p99[1] - p99[0]);
}

static void name_tenants(struct floor *f)
{
    for (int i = 0; i < N_STREAMS; i++)
        (void)snprintf(f->tenants[i], sizeof(f->tenants[i]), "v%lld-%d", (long long)rv_clock_us(), i);
}

/* The p99 of steps of some rounds, each as often as it was drawn. */
static double p99_of(const struct floor *f, const int *rounds, int n_rounds)
{
    static double gaps[MAX_STEPS];
    size_t n = 0;

    for (int i = 0; i < n_rounds; i++) {
        for (int at = f->gaps_before[rounds[i]]; at < f->gaps_before[rounds[i] + 1] && n < MAX_STEPS; at++)
            gaps[n++] = f->gaps_ms[at];
    }
    return n ? learn_sample_quantile(gaps, n, 0.99) : 0;
}

/* The standard error of the difference of p99, by drawing rounds again (bootstrap). Before the gaps are sorted. */
static double p99_error(const struct floor *floors, int n_rounds)
{
    double sum = 0, squares = 0;
    struct rv_rng rng;

    rv_rng_init(&rng, 1);
    for (int i = 0; i < N_RESAMPLES; i++) {
        int rounds[MAX_ROUNDS];
        double more;

        for (int k = 0; k < n_rounds; k++)
            rounds[k] = (int)rv_rng_below(&rng, (uint64_t)n_rounds);
        more = p99_of(&floors[1], rounds, n_rounds) - p99_of(&floors[0], rounds, n_rounds);
        sum += more;
        squares += more * more;
    }
    return sqrt(fmax(0, squares / N_RESAMPLES - sum / N_RESAMPLES * (sum / N_RESAMPLES)));
}

/* What was done ten times a second; nothing where rounds were too short for that. */
static void report_acts(const char *model, const char *what, struct floor *f, const char *must)
{
    size_t n = (size_t)f->n_votes;

    if (n == 0)
        return;
    printf("votes.%s_p50_ms.%s=%.3f\n", what, model, learn_sample_quantile(f->ack_ms, n, 0.5));
    printf("votes.%s_p99_ms.%s=%.3f%s\n", what, model, learn_sample_quantile(f->ack_ms, n, 0.99), must);
}

static void report(const char *model, struct floor *floors, int n_rounds)
{
    static const char *const sides[] = {"off", "on"};
    double ratios[MAX_ROUNDS], p99[2], error = p99_error(floors, n_rounds);

    for (int i = 0; i < n_rounds; i++)
        ratios[i] = floors[1].rates[i] / floors[0].rates[i];
    printf("votes.tok_s_ratio.%s=%.4f must=>=0.97\n", model, learn_sample_quantile(ratios, (size_t)n_rounds, 0.5));
    for (int side = 0; side < 2; side++) {
        struct floor *f = &floors[side];
        double p50 = learn_sample_quantile(f->gaps_ms, (size_t)f->n_gaps, 0.5);

        p99[side] = learn_sample_quantile(f->gaps_ms, (size_t)f->n_gaps, 0.99);
        printf("votes.tok_s.%s.%s=%.2f\n", sides[side], model, learn_sample_quantile(f->rates, (size_t)n_rounds, 0.5));
        printf("votes.step_p50_ms.%s.%s=%.3f\n", sides[side], model, p50);
        printf("votes.step_p99_ms.%s.%s=%.3f\n", sides[side], model, p99[side]);
    }
    printf("votes.step_p99_more_ms.%s=%.3f se=%.3f must=<=1\n", model, p99[1] - p99[0], error);
    printf("votes.a_second.%s=%.2f\n", model, 1e6 * floors[1].n_votes / (double)floors[1].served_us);
    report_acts(model, "ack", &floors[1], " must=<=5");
}

/* The disk alone, which is the store's, beside the same streams. */
static void measure_disk(const char *model, struct host *host, const char *store, int n_rounds)
{
    static struct floor f;
    char path[1024];

    if (!store)
        temp_path_of(path, sizeof(path), "bench_votes_XXXXXX"); // where the store is, too
    else if (snprintf(path, sizeof(path), "%s-disk_XXXXXX", store) >= (int)sizeof(path))
        lab_die("the store's name is too long", NULL);
    f.host = host;
    f.act = write_over;
    f.file = mkstemp(path);
    if (f.file < 0)
        lab_die(path, NULL);
    (void)unlink(path);
    for (int i = 0; i < N_PLACES; i++)
        write_over(&f, i);
    name_tenants(&f);
    for (int i = 0; i < n_rounds; i++)
        serve(&f, i);
    (void)close(f.file);
    report_acts(model, "disk", &f, "");
}

int main(int argc, char **argv)
{
    struct host_config config = {
        .store = argc > 3 ? argv[3] : NULL, .context = 160, .n_streams = N_STREAMS, .n_threads = 2};
    int n_rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 7;
    static struct floor floors[2], beside[2];
    struct host hosts[2];
    char model[64];

    if (argc < 2 || n_rounds < 1 || n_rounds > MAX_ROUNDS) {
        (void)fprintf(stderr, "usage: bench_votes MODEL [ROUNDS [STORE]]\n");
        return 2;
    }
    config.path = argv[1];
    learn_figure_name_model(model, argv[1]);
    for (int side = 0; side < 2; side++) {
        config.learns = side == 1;
        host_open(&hosts[side], &config);
        floors[side].host = &hosts[side];
        name_tenants(&floors[side]);
    }
    floors[1].act = vote;
    for (int i = -1; i < n_rounds; i++) { // the first one warms up and leaves answers to vote on
        for (int turn = 0; turn < 2; turn++) {
            int side = (i + 1 + turn) % 2;

            serve(&floors[side], i);
        }
    }
    report(model, floors, n_rounds);
    measure_disk(model, &hosts[0], config.store, n_rounds);
    for (int side = 0; side < 2; side++) {
        beside[side].host = &hosts[1];
        memcpy(beside[side].tenants, floors[1].tenants, sizeof(floors[1].tenants));
    }
    (void)fflush(stdout);
    serve_beside(beside, n_rounds);
    report_beside(model, beside, n_rounds);
    host_close(&hosts[0]);
    host_close(&hosts[1]);
    return 0;
}
