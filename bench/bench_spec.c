/*
 * What guessing ahead gains, and whether it ever costs: answers of an engine that guesses beside those of one that does
 * not, in turns, greedy unless said otherwise.
 *
 *     bench_spec MODEL copy                 prompts whose text the answer repeats
 *     bench_spec MODEL free [DRAFT]         stories drawn at temperature 1, in which nothing repeats
 *     bench_spec MODEL draft DRAFT          a small model guesses
 *     bench_spec MODEL shape DRAFT RIGHT    likewise, each guess being right with this probability
 *
 *     spec.<case>.ratio          tokens a second with guessing, over those without; median of the rounds
 *     spec.<case>.range          of the rounds
 *     spec.<case>.right          share of the guesses that held
 *     spec.<case>.of_predicted   the ratio over what the right guesses and the times of steps by their rows, measured
 *                                here too, let expect
 *
 * `shape` is for models that have the shapes of real ones and random weights: what they say is nothing, what they cost
 * is real. Both engines are made to say the same list of tokens: the row a token is chosen from is changed just before.
 * So is the small model's row, with dice for whether to the token that will be due. Everything is computed as always.
 */
#include "ruvllm.h"

#include "base/clock.h"
#include "base/rng.h"
#include "engine/draft.h"
#include "engine/reply.h"
#include "sample/weight.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_THREADS = 2, MAX_ROUNDS = 7, CONTEXT = 1024, MAX_ANSWER = 128, MAX_ROWS = 9 };

/* One case. */
struct trial {
    const char *path, *draft;
    char name[32];
    bool is_free;
    double right; // of the guesses; below 0: as they come
    int n_rounds, n_answer;
};

static const char *const copied =
    "The old lighthouse keeper climbed the stairs every evening at seven. He lit the lamp, wiped the glass, and wrote "
    "the "
    "weather into his book. Then he made tea and looked at the ships that passed far away. One night a small boat came "
    "too near the rocks, and he rang the bell until it turned around.\n\n";
static const char *const begun = "Once upon a time, in a place nobody has ever heard of,";

static void die(const char *what, const struct ruvllm_error *err)
{
    fprintf(stderr, "bench_spec: %s: %s\n", what, err ? err->message : "failed");
    exit(1);
}

/* ---- what is said, where that is given ------------------------------------------------------- */

/* Set before an engine runs; the rest of it belongs to the engine's thread. */
static struct {
    bool is_on;
    double right;
    int32_t n_prompt;
    int32_t words[MAX_ANSWER];
    struct rv_rng dice;
} script;

static _Thread_local const struct rv_draft_wish *wish; // that the small model works on

static void write_script(const ruvllm_model *model, double right, int32_t n_prompt)
{
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_error err;
    struct rv_rng rng;

    if (ruvllm_model_info_get(model, &info, &err))
        die("info", &err);

    rv_rng_init(&rng, 1);
    rv_rng_init(&script.dice, 2);
    script.right = right;
    script.n_prompt = n_prompt;
    for (int i = 0; i < MAX_ANSWER; i++)
        script.words[i] = info.n_vocab / 8 + (int32_t)rv_rng_below(&rng, (uint64_t)info.n_vocab / 2); // plain text
    script.is_on = true;
}

static void make_likeliest(const float *row, int32_t at, int32_t more)
{
    ((float *)(uintptr_t)row)[script.words[at % MAX_ANSWER] + more] = 1e30f;
}

ruvllm_status __real_rv_reply_take(struct rv_reply *reply, float *logits, int32_t *token, struct rv_reply_piece *piece,
                                   struct ruvllm_error *err);
ruvllm_status __wrap_rv_reply_take(struct rv_reply *reply, float *logits, int32_t *token, struct rv_reply_piece *piece,
                                   struct ruvllm_error *err);
struct rv_draft_cost __real_rv_draft_guess(struct rv_draft *draft, struct rv_draft_wish *wishes, int32_t n);
struct rv_draft_cost __wrap_rv_draft_guess(struct rv_draft *draft, struct rv_draft_wish *wishes, int32_t n);
float __real_rv_weight_max(const float *logits, size_t n);
float __wrap_rv_weight_max(const float *logits, size_t n);

ruvllm_status __wrap_rv_reply_take(struct rv_reply *reply, float *logits, int32_t *token, struct rv_reply_piece *piece,
                                   struct ruvllm_error *err)
{
    if (script.is_on)
        make_likeliest(logits, (int32_t)rv_reply_response(reply)->n_tokens, 0);
    return __real_rv_reply_take(reply, logits, token, piece, err);
}

struct rv_draft_cost __wrap_rv_draft_guess(struct rv_draft *draft, struct rv_draft_wish *wishes, int32_t n)
{
    struct rv_draft_cost cost;

    wish = script.is_on && n == 1 ? wishes : NULL;
    cost = __real_rv_draft_guess(draft, wishes, n);
    wish = NULL;
    return cost;
}

float __wrap_rv_weight_max(const float *logits, size_t n)
{
    if (wish)
        make_likeliest(logits, wish->n_tokens - script.n_prompt + wish->n_given,
                       rv_rng_uniform(&script.dice) < script.right ? 0 : 1);
    return __real_rv_weight_max(logits, n);
}

/* ---- engines ------------------------------------------------------------------------------------ */

static ruvllm_engine *open_engine(const char *path, bool speculates, const char *draft)
{
    struct ruvllm_model_params model = ruvllm_model_params_default();
    struct ruvllm_engine_params params = ruvllm_engine_params_default();
    struct ruvllm_error err;
    ruvllm_engine *engine;

    model.n_threads = N_THREADS;
    model.max_context = CONTEXT;
    params.model = &model;
    params.max_sequences = MAX_ROWS;
    params.speculate = speculates;
    params.draft_model = draft;
    params.share_prefixes = false;
    if (ruvllm_engine_open(&engine, path, &params, &err))
        die(path, &err);
    return engine;
}

static uint64_t submit(ruvllm_engine *engine, const char *text, float temperature, uint64_t seed, int32_t n)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = text, .text_len = strlen(text)};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    struct ruvllm_error err;
    uint64_t id;

    params.max_tokens = n;
    params.ignore_eos = true;
    params.temperature = temperature;
    params.top_p = 1;
    params.repetition_penalty = 1;
    params.has_seed = true;
    params.seed = seed;
    if (ruvllm_engine_submit(engine, &request, &id, &err))
        die("submit", &err);
    return id;
}

static struct ruvllm_response *drain(ruvllm_engine *engine, uint64_t id)
{
    struct ruvllm_event event = {.struct_size = sizeof(event)};
    struct ruvllm_error err;

    do {
        if (ruvllm_engine_next_event(engine, id, -1, &event, &err))
            die("event", &err);
    } while (event.type != RUVLLM_EVENT_DONE);
    return event.response;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return values[n / 2];
}

static struct ruvllm_engine_stats stats_of(ruvllm_engine *engine)
{
    struct ruvllm_engine_stats stats = {.struct_size = sizeof(stats)};
    struct ruvllm_error err;

    if (ruvllm_engine_stats_get(engine, &stats, &err))
        die("stats", &err);
    return stats;
}

/* What an answer took after its first token, in microseconds a token. */
static double token_us(ruvllm_engine *engine, const struct trial *trial, const char *text, uint64_t seed)
{
    struct ruvllm_response *r = drain(engine, submit(engine, text, trial->is_free, seed, trial->n_answer));
    double us = (double)r->decode_us / (double)(r->n_tokens - 1);

    ruvllm_response_free(r);
    return us;
}

/* Microseconds of a step of n rows: as many sequences. */
static double step_us(ruvllm_engine *engine, int n_rows)
{
    double times[5];

    for (int i = 0; i < 5; i++) {
        uint64_t ids[MAX_ROWS];
        double slowest = 0;

        for (int k = 0; k < n_rows; k++)
            ids[k] = submit(engine, begun, 1, (uint64_t)k, 24);
        for (int k = 0; k < n_rows; k++) {
            struct ruvllm_response *r = drain(engine, ids[k]);
            double us = (double)r->decode_us / (double)(r->n_tokens - 1);

            slowest = us > slowest ? us : slowest;
            ruvllm_response_free(r);
        }
        times[i] = slowest;
    }
    return median(times, 5);
}

/* Tokens a second over those without guesses that the right ones and the times of steps let expect. */
static double predict(ruvllm_engine *plain, const struct ruvllm_engine_stats *from,
                      const struct ruvllm_engine_stats *to, double draft_us)
{
    double n_steps = (double)(to->steps - from->steps), n_right = (double)(to->accepted_tokens - from->accepted_tokens);
    double each = (double)(to->drafted_tokens - from->drafted_tokens) / n_steps; // guesses a step
    int below = 1 + (int)each;
    double low = step_us(plain, below), high = below < MAX_ROWS ? step_us(plain, below + 1) : low;
    double one = below == 1 ? low : step_us(plain, 1), step = low + (high - low) * (each - (int)each);

    return (1 + n_right / n_steps) * one / (step + each * draft_us);
}

/* In turns; what rows cost is learned before. Fills the rounds' ratios, and what the engine counted meanwhile. */
static void compare(const struct trial *trial, ruvllm_engine *plain, ruvllm_engine *guessing, double *ratios,
                    struct ruvllm_engine_stats *from, struct ruvllm_engine_stats *to)
{
    char text[4096];

    snprintf(text, sizeof(text), "%s%s%.60s", copied, copied, copied);
    if (trial->is_free || trial->draft)
        snprintf(text, sizeof(text), "%s", begun);
    if (trial->right >= 0) {
        struct ruvllm_response *r = drain(plain, submit(plain, text, 0, 1, 1));

        write_script(ruvllm_engine_model(plain), trial->right, r->prompt_tokens);
        ruvllm_response_free(r);
    }
    for (int i = 0; i < 2; i++) {
        (void)token_us(guessing, trial, text, 100 + (uint64_t)i);
        (void)token_us(plain, trial, text, 100 + (uint64_t)i);
    }
    *from = stats_of(guessing);
    for (int i = 0; i < trial->n_rounds; i++) {
        double with = token_us(guessing, trial, text, (uint64_t)i), without = token_us(plain, trial, text, (uint64_t)i);

        ratios[i] = without / with;
    }
    *to = stats_of(guessing);
}

static void run(const struct trial *trial)
{
    ruvllm_engine *plain = open_engine(trial->path, false, NULL),
                  *guessing = open_engine(trial->path, true, trial->draft);
    struct ruvllm_engine_stats from, to;
    double ratios[MAX_ROUNDS], draft_us = 0, ratio, n_guessed;

    compare(trial, plain, guessing, ratios, &from, &to);
    if (trial->draft) {
        ruvllm_engine *alone = open_engine(trial->draft, false, NULL);

        draft_us = step_us(alone, 1);
        ruvllm_engine_close(alone);
    }
    ratio = median(ratios, (size_t)trial->n_rounds);
    n_guessed = (double)(to.drafted_tokens - from.drafted_tokens);
    printf("spec.%s.ratio=%.3f\n", trial->name, ratio);
    printf("spec.%s.range=%.3f..%.3f\n", trial->name, ratios[0], ratios[trial->n_rounds - 1]);
    printf("spec.%s.guesses=%.0f\n", trial->name, n_guessed);
    printf("spec.%s.right=%.3f\n", trial->name,
           n_guessed > 0 ? (double)(to.accepted_tokens - from.accepted_tokens) / n_guessed : 0.0);
    printf("spec.%s.of_predicted=%.3f\n", trial->name, ratio / predict(plain, &from, &to, draft_us));
    ruvllm_engine_close(plain);
    ruvllm_engine_close(guessing);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int least, most; // arguments
    } cases[] = {{"copy", 3, 3}, {"free", 3, 4}, {"draft", 4, 4}, {"shape", 5, 5}};
    struct trial trial = {.right = -1, .n_rounds = MAX_ROUNDS, .n_answer = MAX_ANSWER};
    bool is_known = false;

    for (size_t i = 0; argc >= 3 && i < sizeof(cases) / sizeof(cases[0]); i++)
        is_known |= strcmp(argv[2], cases[i].name) == 0 && argc >= cases[i].least && argc <= cases[i].most;
    if (!is_known) {
        fprintf(stderr, "usage: bench_spec MODEL copy\n       bench_spec MODEL free [DRAFT]\n"
                        "       bench_spec MODEL draft DRAFT\n       bench_spec MODEL shape DRAFT RIGHT\n");
        return 2;
    }
    trial.path = argv[1];
    trial.draft = argc >= 4 ? argv[3] : NULL;
    trial.is_free = strcmp(argv[2], "free") == 0;
    snprintf(trial.name, sizeof(trial.name), "%s%s", argv[2], trial.is_free && trial.draft ? "_draft" : "");
    if (argc == 5) {
        trial.right = strtod(argv[4], NULL);
        trial.n_rounds = 5;
        trial.n_answer = 96;
        snprintf(trial.name, sizeof(trial.name), "shape%.0f", 100 * trial.right);
    }
    run(&trial);
    return 0;
}
