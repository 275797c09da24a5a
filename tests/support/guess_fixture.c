#include "support/guess_fixture.h"

#include "engine/engine.h"
#include "support/adapter_fixture.h"
#include "support/serving_bed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void guess_fixture_open(struct guess_fixture *f, const char *model, const char *draft)
{
    struct ruvllm_engine_params wishes = ruvllm_engine_params_default();
    char path[1024]; // names of files that the tests make up do not last

    if (draft) {
        test_need_file(draft);
        snprintf(path, sizeof(path), "%s", draft);
    }
    f->plain = bed_open(model, &wishes);
    wishes.speculate = true;
    wishes.draft_model = draft ? path : NULL;
    f->guessing = bed_open(model, &wishes);
}

void guess_fixture_close(struct guess_fixture *f)
{
    ruvllm_engine_close(f->plain);
    ruvllm_engine_close(f->guessing);
}

static void publish(ruvllm_engine *engine)
{
    struct adapter_fixture fixture = {.hparams = &engine->model->hparams,
                                      .manifest = &engine->model->manifest,
                                      .strength = 0.02f,
                                      .seed = 5,
                                      .rank = 4};
    struct rv_adapter *adapter = adapter_fixture_new(&fixture);
    int64_t generation;

    assert_ok(rv_engine_adapters_publish(&engine->adapters, GUESS_FIXTURE_ADAPTER, -1, adapter, &generation, err));
    rv_adapter_unref(adapter);
}

void guess_fixture_publish(struct guess_fixture *f)
{
    publish(f->plain);
    publish(f->guessing);
}

uint64_t guess_fixture_submit(ruvllm_engine *engine, const struct guess_question *question)
{
    struct ruvllm_input input = {
        .struct_size = sizeof(input), .text = question->text, .text_len = strlen(question->text)};
    struct ruvllm_request request = bed_request(&input, NULL);
    uint64_t id;

    request.params = &question->params;
    request.adapter = question->adapter;
    assert_ok(ruvllm_engine_submit(engine, &request, &id, err));
    return id;
}

void guess_fixture_ask(const struct guess_fixture *f, const struct guess_question *question, struct guess_tally *tally)
{
    uint64_t ids[2] = {guess_fixture_submit(f->plain, question), guess_fixture_submit(f->guessing, question)};
    struct ruvllm_response *plain = bed_drain(f->plain, ids[0]);

    guess_tally_compare(tally, plain, bed_drain(f->guessing, ids[1]));
}

/* ---- what is counted ------------------------------------------------------------------------------ */

static const struct ruvllm_token_logprob *row_of(const struct ruvllm_response *r, size_t i)
{
    return r->logprobs + i * r->logprobs_per_token;
}

/* How much likelier the one's token is than the other's; the other's own word for its token where the one has none. */
static double find_gap(const struct ruvllm_response *one, const struct ruvllm_response *other, size_t i)
{
    const struct ruvllm_token_logprob *row = row_of(one, i);
    float rival = row_of(other, i)->logprob;

    for (size_t k = 1; k < one->logprobs_per_token; k++)
        if (row[k].token == other->tokens[i])
            rival = row[k].logprob;
    return fabs((double)(row[0].logprob - rival));
}

static void compare(struct guess_tally *t, const struct ruvllm_response *one, const struct ruvllm_response *other)
{
    size_t n = one->n_tokens < other->n_tokens ? one->n_tokens : other->n_tokens, i = 0;

    assert_int_equal(one->drafted_tokens, 0);
    assert_true(other->accepted_tokens <= other->drafted_tokens);
    assert_int_equal(one->adapter_generation, other->adapter_generation);
    assert_true(one->n_tokens == 0 || one->logprobs_per_token > 0);
    for (; i < n && one->tokens[i] == other->tokens[i]; i++)
        t->noise = fmax(t->noise, fabs((double)(row_of(one, i)->logprob - row_of(other, i)->logprob)));
    t->n++;
    t->n_tokens += one->n_tokens;
    t->n_guessed += other->drafted_tokens;
    t->n_right += other->accepted_tokens;
    if (i == n && one->n_tokens == other->n_tokens) {
        t->n_identical++;
        return;
    }
    assert_true(i < n); // one that ends where the other goes on chose otherwise
    t->widest_gap = fmax(t->widest_gap, find_gap(one, other, i));
    print_message("answer %d differs at token %zu by %.2e\n", t->n - 1, i, find_gap(one, other, i));
}

void guess_tally_compare(struct guess_tally *tally, struct ruvllm_response *plain, struct ruvllm_response *guessing)
{
    compare(tally, plain, guessing);
    ruvllm_response_free(plain);
    ruvllm_response_free(guessing);
}

void guess_tally_add(struct guess_tally *sum, const struct guess_tally *tally)
{
    sum->n += tally->n;
    sum->n_identical += tally->n_identical;
    sum->n_tokens += tally->n_tokens;
    sum->n_guessed += tally->n_guessed;
    sum->n_right += tally->n_right;
    sum->noise = fmax(sum->noise, tally->noise);
    sum->widest_gap = fmax(sum->widest_gap, tally->widest_gap);
}

void guess_tally_check(const struct guess_tally *tally)
{
    print_message("%d of %d answers are the same; %lld guesses, %lld right; noise %.1e\n", tally->n_identical, tally->n,
                  (long long)tally->n_guessed, (long long)tally->n_right, tally->noise);
    assert_true(tally->n_guessed > 0);
    assert_true(tally->n_right > 0);
    assert_true(tally->noise < 0.1);                                // else it is no rounding, and excuses nothing
    assert_true(tally->widest_gap <= 2 * fmax(tally->noise, 1e-6)); // the least where all that agrees does so exactly
    assert_true((size_t)(tally->n - tally->n_identical) <= (tally->n_tokens + 499) / 500);
}
