/*
 * What guessing ahead gains, and whether it ever costs: answers of an engine that guesses beside those of one that does
 * not, in turns, greedy unless said otherwise.
 *
 *     bench_spec MODEL copy                 prompts whose text the answer repeats
 *     bench_spec MODEL free [DRAFT]         stories drawn at temperature 1, in which nothing repeats
 *     bench_spec MODEL draft DRAFT          a small model guesses
 *     bench_spec MODEL shape DRAFT RIGHT    likewise, each guess being right with this probability: see spec_probe.h
 *
 *     spec.<case>.ratio          tokens a second with guessing, over those without; median of the rounds
 *     spec.<case>.range          of the rounds
 *     spec.<case>.guesses        that were computed in them
 *     spec.<case>.right          share of those that held; behind a wrong one none does
 *     spec.<case>.acceptance     share that held of those behind no wrong one; -1: none was seen
 *     spec.<case>.row            what a row more costs, in steps of one row
 *     spec.<case>.draft          likewise a small model's guess
 *     spec.<case>.predicted      the ratio that acceptance and costs let expect: with a small model of the best fixed
 *                                number of guesses, or of none; else of the guesses that the text gave
 *     spec.<case>.of_predicted   the ratio of all rounds together over that
 *
 * Costs are measured after the rounds, with fixed numbers of guesses. So is the acceptance of a small model, where the
 * engine made too few guesses to tell, or chose them where they are good.
 */
#include "engine_run.h"
#include "spec_probe.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_THREADS = 2, N_ROUNDS = 5, CONTEXT = 1024, N_STEPS = 24, MANY = 100 };

/* One case. */
struct trial {
    const char *path, *draft, *text;
    char name[32];
    bool is_free;
    double right; // of the guesses; below 0: as they come
    int32_t n_answer;
};

static const char *const copied =
    "The old lighthouse keeper climbed the stairs every evening at seven. He lit the lamp, wiped the glass, and wrote "
    "the weather into his book. Then he made tea and looked at the ships that passed far away. One night a small boat "
    "came too near the rocks, and he rang the bell until it turned around.\n\n";
static const char *const begun = "Once upon a time, in a place nobody has ever heard of,";

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
    params.speculate = speculates;
    params.draft_model = draft;
    params.share_prefixes = false;
    if (ruvllm_engine_open(&engine, path, &params, &err))
        engine_run_die(path, &err);
    return engine;
}

static struct ruvllm_response *answer(ruvllm_engine *engine, const struct trial *trial, uint64_t seed, int32_t n)
{
    struct ruvllm_generate_params params = ruvllm_generate_params_default();
    struct ruvllm_input input = {.struct_size = sizeof(input), .text = trial->text, .text_len = strlen(trial->text)};
    struct ruvllm_request request = {.struct_size = sizeof(request), .input = &input, .params = &params};
    struct ruvllm_error err;
    uint64_t id;

    params.max_tokens = n;
    params.ignore_eos = true;
    params.temperature = trial->is_free;
    params.top_p = 1;
    params.repetition_penalty = 1;
    params.has_seed = true;
    params.seed = seed;
    if (ruvllm_engine_submit(engine, &request, &id, &err))
        engine_run_die("submit", &err);
    return engine_run_drain(engine, id);
}

/* Once it rests: the last step is counted behind the answer's end. */
static struct ruvllm_engine_stats stats_of(ruvllm_engine *engine)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    struct ruvllm_engine_stats stats = {.struct_size = sizeof(stats)};
    struct ruvllm_error err;

    do {
        nanosleep(&moment, NULL);
        if (ruvllm_engine_stats_get(engine, &stats, &err))
            engine_run_die("stats", &err);
    } while (stats.running + stats.waiting > 0);
    return stats;
}

/* What an answer took after its first token, in microseconds a token. */
static double token_us(ruvllm_engine *engine, const struct trial *trial, uint64_t seed)
{
    struct ruvllm_response *r = answer(engine, trial, seed, trial->n_answer);
    double us = (double)r->decode_us / (double)(r->n_tokens - 1);

    ruvllm_response_free(r);
    return us;
}

static void write_script(ruvllm_engine *engine, const struct trial *trial)
{
    struct ruvllm_model_info info = {.struct_size = sizeof(info)};
    struct ruvllm_response *r = answer(engine, trial, 1, 1);
    struct ruvllm_error err;

    if (ruvllm_model_info_get(ruvllm_engine_model(engine), &info, &err))
        engine_run_die("info", &err);
    (void)stats_of(engine);
    spec_probe_say(info.n_vocab, r->prompt_tokens, trial->right);
    ruvllm_response_free(r);
}

/* ---- what is expected ----------------------------------------------------------------------------- */

/* Right guesses of n in a row. */
static double expect(double right, int32_t n)
{
    double sum = 0, power = 1;

    for (int32_t i = 0; i < n; i++) {
        power *= right;
        sum += power;
    }
    return sum;
}

/* Answers with fixed numbers of guesses: what they cost, and how many hold. */
static struct spec_probe_tally measure_costs(ruvllm_engine *guessing, const struct trial *trial)
{
    static const int32_t numbers[] = {0, 1, 2, 4, 8};
    struct spec_probe_tally tally;

    spec_probe_clear();
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        double right = trial->right >= 0 ? trial->right : 0.5;
        int32_t n = 2 + (int32_t)(N_STEPS * (1 + expect(right, numbers[i])));

        spec_probe_force(numbers[i]);
        ruvllm_response_free(answer(guessing, trial, 200 + i, n));
        (void)stats_of(guessing);
    }
    spec_probe_force(-1);
    tally = spec_probe_count();
    if (tally.n_steps[1] == 0)
        engine_run_die("no step without guesses was seen", NULL);
    return tally;
}

/* Microseconds of a step of so many rows: as measured, or between the nearest that were. */
static double step_us(const struct spec_probe_tally *costs, int32_t n_rows)
{
    int32_t below = n_rows, above = n_rows;

    while (costs->n_steps[below] == 0)
        below--; // there are some of one row
    while (above <= SPEC_PROBE_MAX_ROWS && costs->n_steps[above] == 0)
        above++;
    if (above > SPEC_PROBE_MAX_ROWS || below == above)
        return costs->step_us[below];
    return costs->step_us[below] +
           (costs->step_us[above] - costs->step_us[below]) * (double)(n_rows - below) / (double)(above - below);
}

/* Of the best number of a draft's guesses for every step. */
static double predict_draft(const struct spec_probe_tally *costs, double acceptance)
{
    double best = 1;

    for (int32_t k = 1; k <= RV_SPECULATE_MAX; k++) {
        double speed = (1 + expect(acceptance, k)) * step_us(costs, 1) / (step_us(costs, 1 + k) + k * costs->draft_us);

        best = speed > best ? speed : best;
    }
    return best;
}

/* Of the steps there were, and the tokens they brought. */
static double predict_text(const struct spec_probe_tally *costs, const struct spec_probe_tally *rounds)
{
    double us = 0, n_tokens = rounds->n_right;

    for (int32_t i = 1; i <= SPEC_PROBE_MAX_ROWS; i++) {
        us += rounds->n_steps[i] * step_us(costs, i);
        n_tokens += rounds->n_steps[i];
    }
    return n_tokens * step_us(costs, 1) / us;
}

static double acceptance_of(const struct spec_probe_tally *tally)
{
    return tally->n_looked > 0 ? (double)tally->n_right / tally->n_looked : -1;
}

/* ---- the case --------------------------------------------------------------------------------------- */

struct outcome {
    double ratios[N_ROUNDS], with_us, without_us;
    uint64_t n_guessed, n_right;
    struct spec_probe_tally rounds;
};

/* In turns; what rows cost is learned before. */
static void compare(const struct trial *trial, ruvllm_engine *plain, ruvllm_engine *guessing, struct outcome *out)
{
    struct ruvllm_engine_stats from, to;

    (void)token_us(guessing, trial, 100);
    (void)token_us(plain, trial, 100);
    from = stats_of(guessing);
    spec_probe_clear();
    for (int i = 0; i < N_ROUNDS; i++) {
        double with = token_us(guessing, trial, (uint64_t)i), without = token_us(plain, trial, (uint64_t)i);

        out->with_us += with;
        out->without_us += without;
        out->ratios[i] = without / with;
    }
    to = stats_of(guessing);
    out->n_guessed = to.drafted_tokens - from.drafted_tokens;
    out->n_right = to.accepted_tokens - from.accepted_tokens;
    out->rounds = spec_probe_count();
}

static void print(const struct trial *trial, struct outcome *out, const struct spec_probe_tally *costs)
{
    bool tells = !trial->draft || (trial->right >= 0 && out->rounds.n_looked >= MANY);
    double acceptance = acceptance_of(tells ? &out->rounds : costs);
    double predicted = trial->draft ? predict_draft(costs, acceptance) : predict_text(costs, &out->rounds);
    const char *name = trial->name;

    printf("spec.%s.ratio=%.3f\n", name, engine_run_median(out->ratios, N_ROUNDS));
    printf("spec.%s.range=%.3f..%.3f\n", name, out->ratios[0], out->ratios[N_ROUNDS - 1]);
    printf("spec.%s.guesses=%llu\n", name, (unsigned long long)out->n_guessed);
    printf("spec.%s.right=%.3f\n", name, out->n_guessed > 0 ? (double)out->n_right / (double)out->n_guessed : 0.0);
    printf("spec.%s.acceptance=%.3f\n", name, acceptance);
    printf("spec.%s.row=%.3f\n", name, step_us(costs, 2) / step_us(costs, 1) - 1);
    printf("spec.%s.draft=%.3f\n", name, costs->draft_us / step_us(costs, 1));
    printf("spec.%s.predicted=%.3f\n", name, predicted);
    printf("spec.%s.of_predicted=%.3f\n", name, out->without_us / out->with_us / predicted);
    (void)fflush(stdout);
}

static void run(const struct trial *trial)
{
    ruvllm_engine *plain = open_engine(trial->path, false, NULL);
    ruvllm_engine *guessing = open_engine(trial->path, true, trial->draft);
    struct outcome out = {.with_us = 0};
    struct spec_probe_tally costs;

    if (trial->right >= 0)
        write_script(plain, trial);
    compare(trial, plain, guessing, &out);
    costs = measure_costs(guessing, trial);
    print(trial, &out, &costs);
    ruvllm_engine_close(plain);
    ruvllm_engine_close(guessing);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int least, most; // arguments
    } cases[] = {{"copy", 3, 3}, {"free", 3, 4}, {"draft", 4, 4}, {"shape", 5, 5}};
    struct trial trial = {.right = -1, .n_answer = 96, .text = begun};
    char text[4096];
    bool is_known = false;

    for (size_t i = 0; argc >= 3 && i < sizeof(cases) / sizeof(cases[0]); i++)
        is_known |= strcmp(argv[2], cases[i].name) == 0 && argc >= cases[i].least && argc <= cases[i].most;
    if (!is_known) {
        (void)fprintf(stderr, "usage: bench_spec MODEL copy\n       bench_spec MODEL free [DRAFT]\n"
                              "       bench_spec MODEL draft DRAFT\n       bench_spec MODEL shape DRAFT RIGHT\n");
        return 2;
    }
    trial.path = argv[1];
    trial.draft = argc >= 4 ? argv[3] : NULL;
    trial.is_free = strcmp(argv[2], "free") == 0;
    snprintf(trial.name, sizeof(trial.name), "%s%s", argv[2], trial.is_free && trial.draft ? "_draft" : "");
    if (strcmp(argv[2], "copy") == 0) {
        snprintf(text, sizeof(text), "%s%s%.60s", copied, copied, copied);
        trial.text = text;
    }
    if (argc == 5) {
        trial.right = strtod(argv[4], NULL);
        trial.n_answer = 64;
        snprintf(trial.name, sizeof(trial.name), "shape%.0f", 100 * trial.right);
    }
    run(&trial);
    return 0;
}
