/*
 * Row 9: a process that serves, learns and votes is killed again and again. Each life reads what the lives before have
 * left, says at which generation it is and with which bits, and then acknowledges its own votes in the same way. So a
 * life that begins behind the last acknowledgement has lost something, one that is further ahead than the one vote that
 * may have been under way has applied something twice, and one that has other bits did not replay the same.
 *
 * EXTRA is what a life is started with: the store's file, a space, and the tenant.
 */
#include "learn_common.h"
#include "learn_host.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_GENERATIONS = 1 << 16, MAX_ARGS = 160 };

struct word {
    int64_t generation; // also ticks of the background loop make some
    int64_t n_votes;
    uint64_t hash;
};

/* ---- a life ---------------------------------------------------------------------------------- */

static struct word look(struct host *host, const char *tenant)
{
    struct ruvllm_learned_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err;
    struct word word;

    if (ruvllm_engine_learned(host->engine, tenant, &info, &err))
        lab_die("what was learned", &err);
    word.hash = host_hash(host, tenant, &word.generation);
    word.n_votes = info.n_votes; // nobody else votes meanwhile
    return word;
}

static struct word say(struct host *host, const char *tenant)
{
    struct word word = look(host, tenant);

    if (write(STDOUT_FILENO, &word, sizeof(word)) != sizeof(word))
        _exit(1);
    return word;
}

static void live(const struct learn_args *args)
{
    struct host_config config = {.path = args->path, .learns = true, .context = 128};
    struct host_ask ask = {.seed = args->seed, .n_prompt = 8, .n_answer = 24, .temperature = 1, .n_logprobs = -1};
    char store[MAX_ARGS], *tenant;
    struct host host;
    uint64_t id;

    (void)snprintf(store, sizeof(store), "%s", args->extra);
    tenant = strchr(store, ' ');
    if (!tenant)
        lab_die("a life needs a store and a tenant", NULL);
    *tenant++ = '\0';
    config.store = store;
    ask.tenant = tenant;
    host_open(&host, &config);
    ask.seed += (uint64_t)say(&host, tenant).n_votes; // what earlier lives asked is judged so often that it is settled
    for (int i = 0;; i++) {
        if (i % 8 == 0) {
            ask.seed++;
            ruvllm_response_free(host_ask(&host, &ask, &id));
        }
        (void)host_vote(&host, tenant, id, (double)((i * 7) % 11) / 10);
        (void)say(&host, tenant);
    }
}

/* ---- who kills ------------------------------------------------------------------------------- */

struct record {
    uint64_t hashes[MAX_GENERATIONS]; // that were said; 0: none was
    int64_t last;                     // generation that was acknowledged
    int64_t last_votes;               // that were
    int n_lost, n_doubled, n_other_bits;
    int n_same_bits;                     // lives that began at an acknowledged generation, with its bits
    int64_t n_acknowledged, n_unchanged; // votes, and those after which the bits are as before
};

static void note_beginning(struct record *r, const struct word *w)
{
    r->n_lost += w->generation < r->last || w->n_votes < r->last_votes;
    r->n_doubled += w->n_votes > r->last_votes + 1;
    if (w->generation < MAX_GENERATIONS && r->hashes[w->generation]) {
        r->n_same_bits += r->hashes[w->generation] == w->hash;
        r->n_other_bits += r->hashes[w->generation] != w->hash;
    }
}

static void note(struct record *r, const struct word *w)
{
    if (w->generation >= MAX_GENERATIONS)
        lab_die("too many generations", NULL);
    if (w->generation > 0 && r->hashes[w->generation - 1])
        r->n_unchanged += r->hashes[w->generation - 1] == w->hash;
    r->hashes[w->generation] = w->hash;
    r->last = w->generation > r->last ? w->generation : r->last;
    r->last_votes = w->n_votes > r->last_votes ? w->n_votes : r->last_votes;
    r->n_acknowledged++;
}

static pid_t start_life(const struct learn_args *args, const char *extra, int *out)
{
    char row[16], seed[32];
    char *const argv[] = {(char *)(uintptr_t)args->program,
                          (char *)(uintptr_t)args->path,
                          row,
                          seed,
                          "long",
                          (char *)(uintptr_t)extra,
                          NULL};
    int ends[2];
    pid_t child;

    (void)snprintf(row, sizeof(row), "%d", args->row);
    (void)snprintf(seed, sizeof(seed), "%llu", (unsigned long long)args->seed);
    if (pipe(ends) != 0)
        lab_die("pipe", NULL);
    child = fork();
    if (child < 0)
        lab_die("fork", NULL);
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(ends[1]);
    *out = ends[0];
    return child;
}

/* Kills some time after `n` words were heard, then hears what was on its way. */
static void run_life(const struct learn_args *args, const char *extra, struct record *r, int n, long wait_us)
{
    const struct timespec wait = {.tv_nsec = wait_us * 1000};
    struct word word;
    int out, status, heard = 0;
    pid_t child = start_life(args, extra, &out);

    while (read(out, &word, sizeof(word)) == sizeof(word)) {
        if (heard == 0)
            note_beginning(r, &word);
        else
            note(r, &word);
        if (++heard == n) {
            nanosleep(&wait, NULL);
            kill(child, SIGKILL);
        }
    }
    close(out);
    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || heard < n)
        lab_die("a life ended by itself", NULL);
}

static void print(struct learn_args *args, const struct record *r, int n_kills)
{
    const struct {
        const char *what;
        double value;
        bool must_be_none;
    } figures[] = {{"lost", r->n_lost, true},
                   {"applied_twice", r->n_doubled, true},
                   {"other_bits", r->n_other_bits, true},
                   {"kills", n_kills, false},
                   {"acknowledged", (double)r->n_acknowledged, false}};

    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        learn_figure_print(args, &(struct learn_figure){.what = figures[i].what,
                                                        .value = figures[i].value,
                                                        .bound = figures[i].must_be_none ? LEARN_AT_MOST : LEARN_FREE});
    learn_figure_print(args, &(struct learn_figure){.what = "same_bits",
                                                    .value = r->n_same_bits,
                                                    .bound = LEARN_AT_LEAST,
                                                    .must = n_kills / 10.0,
                                                    .short_must = 1});
    learn_figure_print(args, &(struct learn_figure){.what = "changed",
                                                    .value = 1 - (double)r->n_unchanged / (double)r->n_acknowledged,
                                                    .bound = LEARN_AT_LEAST,
                                                    .must = 0.9,
                                                    .short_must = 0.9});
}

static struct record *new_record(void)
{
    return lab_need(calloc(1, sizeof(struct record)));
}

void learn_row9(struct learn_args *args)
{
    int n_kills = args->is_short ? 15 : 100;
    struct host_config config = {.path = args->path, .learns = true, .context = 128};
    struct record *r = new_record();
    char extra[MAX_ARGS];
    struct rv_rng rng;
    struct host host;
    struct word end;

    if (args->extra)
        live(args);
    /* Opened once before, so that no life has to write the model's first texts; and again at the end, to look. */
    host_open(&host, &config);
    (void)snprintf(extra, sizeof(extra), "%s anna", host.temporary);
    rv_rng_init(&rng, args->seed);
    for (int i = 0; i < n_kills; i++)
        run_life(args, extra, r, 1 + (int)rv_rng_below(&rng, 12), (long)rv_rng_below(&rng, 6000));
    end = look(&host, "anna"); // this process has not read the log until now
    note_beginning(r, &end);
    print(args, r, n_kills);
    host_close(&host);
    free(r);
}
