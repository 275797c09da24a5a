/* What is to be said in a state is said there and nowhere else, within bounds, and the same after it was bytes. */
#include "learn/memory.h"
#include "support/test.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "kernels/vec.h"

#include <math.h>
#include <string.h>

enum { DIMS = 32, VOCAB = 100, N_STATES = 400, FIRST = 1 };

struct bed {
    struct rv_whitening whitening;
    struct rv_rng rng;
    float state[DIMS];
    float scratch[RV_MEMORY_PAGE_SCRATCH * DIMS];
};

static void open_bed(struct bed *b)
{
    float *states = rv_calloc(N_STATES * DIMS, sizeof(*states));

    rv_rng_init(&b->rng, 3);
    for (int i = 0; i < N_STATES * DIMS; i++)
        states[i] = (float)rv_rng_normal(&b->rng) * (i % DIMS < 4 ? 5 : 1);
    assert_ok(rv_whitening_init(&b->whitening, states, N_STATES, DIMS, err));
    b->whitening.radius = 2;
    rv_free(states);
}

static void new_state(struct bed *b)
{
    for (int i = 0; i < DIMS; i++) {
        b->state[i] = (float)rv_rng_normal(&b->rng) * (i < 4 ? 5 : 1);
        b->state[i] = rv_vec_from_bf16(rv_vec_to_bf16(b->state[i]));
    }
}

/* A page of one key, for (or against) `token` after `last` in the state. */
static struct rv_memory_page *page_of(struct bed *b, int32_t last, int32_t token, float strength)
{
    const struct rv_memory_page_choice choice = {.strength = strength, .least = 0, .most = 2, .max_keys = 1};
    const int32_t asked[] = {FIRST, last};
    struct rv_memory_page *page = NULL;
    struct rv_trace *trace;

    assert_ok(rv_trace_new(&trace, 1, "a", DIMS, 1, err));
    assert_ok(rv_trace_set_prompt(trace, asked, 2, err));
    for (int i = 0; i < DIMS; i++)
        trace->states[i] = rv_vec_to_bf16(b->state[i]);
    trace->tokens[0] = token;
    trace->logprobs[0] = -3;
    trace->n_rows = 1;
    assert_ok(rv_memory_page_add(&page, trace, &choice, &b->whitening, b->scratch, err));
    rv_trace_unref(trace);
    assert_non_null(page);
    return page;
}

/* The memory with one more key; the old one goes. */
static struct rv_memory *add(struct bed *b, struct rv_memory *before, int32_t last, int32_t token, float strength)
{
    struct rv_memory_page *page = page_of(b, last, token, strength);
    struct rv_memory *memory;

    assert_ok(rv_memory_extend(&memory, before, page, &b->whitening, err));
    rv_memory_page_unref(page);
    rv_memory_unref(before);
    return memory;
}

/* The probability of a token by logits of 0, which memory was mixed into. */
static double said(struct bed *b, const struct rv_memory *memory, int32_t last, int32_t token)
{
    const int32_t asked[] = {FIRST, last};
    struct rv_memory_answer answer;
    float logits[VOCAB] = {0};
    double sum = 0;

    if (rv_memory_ask(memory, asked, 2, b->state, b->scratch, &answer))
        rv_memory_mix(&answer, logits, VOCAB);
    for (int i = 0; i < VOCAB; i++)
        sum += exp((double)logits[i]);
    return exp((double)logits[token]) / sum;
}

static void a_key_speaks_in_its_state_and_nowhere_else(void **state)
{
    const int32_t other[] = {9, 7}; // with another beginning
    struct rv_memory *memory;
    struct rv_memory_answer answer;
    float own[DIMS];
    struct bed b;

    (void)state;
    open_bed(&b);
    new_state(&b);
    memcpy(own, b.state, sizeof(own));
    memory = add(&b, NULL, 7, 42, 1);
    assert_int_equal(rv_memory_n_keys(memory), 1);
    assert_true(said(&b, memory, 7, 42) > 0.98);
    assert_true(fabs(said(&b, memory, 8, 42) - 1.0 / VOCAB) < 1e-9); // after another token
    for (int i = 0; i < 50; i++) {
        new_state(&b);
        assert_false(rv_memory_ask(memory, other, 2, b.state, b.scratch, &answer));
    }
    for (int i = 0; i < DIMS; i++)
        b.state[i] = NAN;
    assert_false(rv_memory_ask(memory, other, 2, b.state, b.scratch, &answer));
    /* Nearer is louder. */
    memcpy(b.state, own, sizeof(own));
    b.state[20] += 0.4f;
    assert_true(rv_memory_ask(memory, other, 2, b.state, b.scratch, &answer));
    assert_true(answer.distance > 0 && answer.distance < 1 && answer.share > 0);
    assert_true(answer.share < 0.2f); // one word in common is little to go by
    rv_memory_unref(memory);
    rv_whitening_release(&b.whitening);
}

static void what_is_mixed_is_the_mixture(void **state)
{
    const struct rv_memory_answer answer = {
        .share = 0.7f, .n_words = 3, .words = {{5, 0.75f}, {9, 0.25f}, {11, -0.5f}}};
    float logits[VOCAB], mixed[VOCAB];
    double before[VOCAB], sum = 0, all = 0;
    struct rv_rng rng;

    (void)state;
    rv_rng_init(&rng, 1);
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)(3 * rv_rng_normal(&rng));
    memcpy(mixed, logits, sizeof(mixed));
    rv_memory_mix(&answer, mixed, VOCAB);
    for (int i = 0; i < VOCAB; i++)
        sum += before[i] = exp((double)logits[i]) * (i == 11 ? 0.5 : 1);
    for (int i = 0; i < VOCAB; i++)
        all += exp((double)mixed[i]);
    for (int i = 0; i < VOCAB; i++) {
        double p = (1 - 0.7) * before[i] / sum + 0.7 * (i == 5 ? 0.75 : i == 9 ? 0.25 : 0);

        assert_true(fabs(exp((double)mixed[i]) / all - p) < 1e-5);
        assert_true(i == 5 || i == 9 || i == 11 || mixed[i] == logits[i]);
    }
}

static void what_is_said_anew_counts(void **state)
{
    struct rv_memory *memory;
    struct bed b;

    (void)state;
    open_bed(&b);
    new_state(&b);
    memory = add(&b, NULL, 7, 42, 1);
    memory = add(&b, memory, 7, 43, 1);
    assert_int_equal(rv_memory_n_keys(memory), 1);
    assert_true(said(&b, memory, 7, 43) > 0.98);
    memory = add(&b, memory, 7, 43, -0.75f); // taken back
    assert_int_equal(rv_memory_n_keys(memory), 1);
    assert_true(said(&b, memory, 7, 43) < 0.3 / VOCAB);
    memory = add(&b, memory, 7, 44, 1); // another token says nothing about that
    assert_int_equal(rv_memory_n_keys(memory), 2);
    assert_true(said(&b, memory, 7, 44) > 0.97);
    rv_memory_unref(memory);
    rv_whitening_release(&b.whitening);
}

/* A page full of keys, each in a state of its own; the first one's state is left in the bed. */
static struct rv_memory *add_many(struct bed *b, struct rv_memory *before, int32_t number)
{
    const struct rv_memory_page_choice choice = {.strength = 1, .least = 0, .most = 2, .max_keys = RV_MEMORY_PAGE_MAX};
    const int32_t asked[] = {number, 7};
    struct rv_memory_page *page = NULL;
    struct rv_memory *memory;
    struct rv_trace *trace;

    assert_ok(rv_trace_new(&trace, 1, "a", DIMS, RV_MEMORY_PAGE_MAX, err));
    assert_ok(rv_trace_set_prompt(trace, asked, 2, err));
    for (int32_t r = RV_MEMORY_PAGE_MAX - 1; r >= 0; r--) {
        new_state(b);
        for (int i = 0; i < DIMS; i++)
            trace->states[r * DIMS + i] = rv_vec_to_bf16(b->state[i]);
        trace->tokens[r] = 42;
        trace->logprobs[r] = -3;
    }
    trace->n_rows = RV_MEMORY_PAGE_MAX;
    assert_ok(rv_memory_page_add(&page, trace, &choice, &b->whitening, b->scratch, err));
    assert_int_equal(page->n_keys, RV_MEMORY_PAGE_MAX);
    assert_ok(rv_memory_extend(&memory, before, page, &b->whitening, err));
    rv_memory_page_unref(page);
    rv_memory_unref(before);
    rv_trace_unref(trace);
    return memory;
}

/* How sure the memory is of what page `number` says in its first state. */
static float share_of(struct bed *b, const struct rv_memory *memory, int32_t number)
{
    const int32_t asked[] = {number, 7};
    struct rv_memory_answer answer;

    return rv_memory_ask(memory, asked, 2, b->state, b->scratch, &answer) ? answer.share : 0;
}

static void the_oldest_keys_go(void **state)
{
    enum { N_PAGES = RV_MEMORY_MAX_KEYS / RV_MEMORY_PAGE_MAX };
    struct rv_memory *memory = NULL, *before = NULL;
    float first[DIMS];
    struct bed b;

    (void)state;
    open_bed(&b);
    for (int32_t i = 0; i <= N_PAGES; i++) {
        memory = add_many(&b, memory, i);
        if (i == 0)
            memcpy(first, b.state, sizeof(first));
        if (i == N_PAGES - 1)
            before = rv_memory_ref(memory);
    }
    assert_int_equal(rv_memory_n_keys(memory), N_PAGES * RV_MEMORY_PAGE_MAX);
    assert_true(share_of(&b, memory, N_PAGES) > 0.98f);
    memcpy(b.state, first, sizeof(first));
    assert_true(share_of(&b, memory, 0) < 0.5f);
    assert_true(share_of(&b, before, 0) > 0.98f); // who has the old one has it whole
    rv_memory_unref(memory);
    rv_memory_unref(before);
    rv_whitening_release(&b.whitening);
}

static void pages_are_the_same_after_they_were_bytes(void **state)
{
    struct rv_memory_page *page, *again;
    struct ruvllm_error why;
    struct rv_str bytes, none = {0};
    struct bed b;
    char *copy;

    (void)state;
    open_bed(&b);
    new_state(&b);
    page = page_of(&b, 7, 42, 1);
    assert_ok(rv_memory_page_write(page, &bytes, err));
    assert_ok(rv_memory_page_read(&again, DIMS, bytes, err));
    assert_int_equal(again->n_keys, 1);
    assert_memory_equal(page->keys, again->keys, sizeof(*page->keys));
    assert_memory_equal(page->places, again->places, DIMS * sizeof(*page->places));
    rv_memory_page_unref(again);
    assert_ok(rv_memory_page_read(&again, DIMS, none, err));
    assert_null(again);
    assert_int_equal(rv_memory_page_read(&again, DIMS + 1, bytes, &why), RUVLLM_FORMAT);
    for (size_t n = 1; n < bytes.len; n++)
        assert_int_equal(rv_memory_page_read(&again, DIMS, (struct rv_str){.data = bytes.data, .len = n}, &why),
                         RUVLLM_FORMAT);
    copy = (char *)(uintptr_t)bytes.data;
    memset(copy + bytes.len - 2, 0xff, 2); // a place that is no number
    assert_int_equal(rv_memory_page_read(&again, DIMS, bytes, &why), RUVLLM_FORMAT);
    rv_free(copy);
    rv_memory_page_unref(page);
    rv_whitening_release(&b.whitening);
}

/* The bytes that a page would be, whatever it holds. */
static struct rv_str raw_bytes(const struct rv_memory_page *page, int32_t n_keys, char *out)
{
    const int32_t header[] = {1, DIMS, n_keys};
    size_t keys = (size_t)n_keys * sizeof(*page->keys), places = (size_t)n_keys * DIMS * sizeof(*page->places);

    memcpy(out, header, sizeof(header));
    memcpy(out + sizeof(header), page->keys, keys);
    memcpy(out + sizeof(header) + keys, page->places, places);
    return (struct rv_str){.data = out, .len = sizeof(header) + keys + places};
}

/* Puts something into a key that may or may not be allowed there. */
static void disturb(struct bed *b, struct rv_memory_key *key, uint16_t *place)
{
    static const int32_t tokens[] = {-1, -2, 0, 1, 99, INT32_MAX, INT32_MIN};
    static const float strengths[] = {-1, 1, 0, -1.01f, 1.01f, NAN, INFINITY, 0.5f};
    static const uint16_t numbers[] = {0x7f80, 0xff80, 0x7fc0, 0x7f7f, 0xff7f, 0, 0x5f00}; // ends, none, and large
    int32_t token = tokens[rv_rng_below(&b->rng, 7)];

    switch (rv_rng_below(&b->rng, 5)) {
    case 0:
        key->token = token;
        break;
    case 1:
        key->context[0] = token;
        break;
    case 2:
        key->context[1 + rv_rng_below(&b->rng, RV_MEMORY_PAGE_CONTEXT - 1)] = token;
        break;
    case 3:
        key->strength = strengths[rv_rng_below(&b->rng, 8)];
        break;
    default:
        place[rv_rng_below(&b->rng, DIMS)] = numbers[rv_rng_below(&b->rng, 7)];
    }
}

/* Whatever is in it: a page that is written is read, to the bit, and one that reading would refuse is not written. */
static void what_can_be_written_can_be_read_and_nothing_else(void **state)
{
    static char raw[16 + 4 * (sizeof(struct rv_memory_key) + DIMS * sizeof(uint16_t))];
    struct rv_memory_key keys[4];
    uint16_t places[4 * DIMS];
    int n_written = 0, n_refused = 0;
    struct bed b;

    (void)state;
    open_bed(&b);
    for (int round = 0; round < 4000; round++) {
        struct rv_memory_page page = {.n_dims = DIMS, .keys = keys, .places = places}, *again;
        struct ruvllm_error why = {0};
        struct rv_str bytes, wanted;
        ruvllm_status written;

        page.n_keys = (int32_t)rv_rng_below(&b.rng, 5); // also none
        for (int32_t k = 0; k < page.n_keys; k++) {
            keys[k] = (struct rv_memory_key){.token = (int32_t)rv_rng_below(&b.rng, VOCAB), .strength = 1};
            for (int i = 0; i < RV_MEMORY_PAGE_CONTEXT; i++)
                keys[k].context[i] = i < 3 ? 5 : -1;
            for (int i = 0; i < DIMS; i++)
                places[k * DIMS + i] = rv_vec_to_bf16((float)rv_rng_normal(&b.rng));
        }
        if (page.n_keys > 0 && rv_rng_below(&b.rng, 4) > 0) {
            uint64_t k = rv_rng_below(&b.rng, (uint64_t)page.n_keys);

            disturb(&b, &keys[k], places + k * DIMS);
        }
        wanted = raw_bytes(&page, page.n_keys, raw);
        written = rv_memory_page_write(&page, &bytes, &why);
        assert_int_equal(written == RUVLLM_OK, rv_memory_page_read(&again, DIMS, wanted, NULL) == RUVLLM_OK);
        if (written) {
            assert_int_equal(written, RUVLLM_INVALID);
            assert_true(why.message[0] != '\0' && bytes.len == 0 && !again);
            n_refused++;
            continue;
        }
        assert_int_equal(bytes.len, wanted.len);
        assert_memory_equal(bytes.data, wanted.data, wanted.len);
        assert_memory_equal(again->places, places, (size_t)page.n_keys * DIMS * sizeof(*places));
        rv_memory_page_unref(again);
        rv_free((char *)(uintptr_t)bytes.data);
        n_written++;
    }
    assert_true(n_written > 1000 && n_refused > 1000);
    rv_whitening_release(&b.whitening);
}

/* A model that computes no numbers has nothing to remember, and its events can still be read. */
static void a_state_that_is_no_number_is_not_remembered(void **state)
{
    const struct rv_memory_page_choice choice = {.strength = 1, .least = 0, .most = 2, .max_keys = 4};
    const int32_t asked = 3;
    struct rv_memory_page *page = NULL;
    struct rv_trace *trace;
    struct bed b;

    (void)state;
    open_bed(&b);
    new_state(&b);
    assert_ok(rv_trace_new(&trace, 1, "a", DIMS, 2, err));
    assert_ok(rv_trace_set_prompt(trace, &asked, 1, err));
    for (int i = 0; i < 2 * DIMS; i++)
        trace->states[i] = i < DIMS ? 0x7fc0 : rv_vec_to_bf16(b.state[i - DIMS]);
    trace->tokens[0] = 8;
    trace->tokens[1] = 9;
    trace->logprobs[0] = trace->logprobs[1] = -3;
    trace->n_rows = 1;
    assert_ok(rv_memory_page_add(&page, trace, &choice, &b.whitening, b.scratch, err));
    assert_null(page);
    trace->n_rows = 2;
    assert_ok(rv_memory_page_add(&page, trace, &choice, &b.whitening, b.scratch, err));
    assert_true(page && page->n_keys == 1 && page->keys[0].token == 9);
    rv_memory_page_unref(page);
    rv_trace_unref(trace);
    rv_whitening_release(&b.whitening);
}

/* Of a long text the most surprising tokens are kept, in their order. */
static void a_page_takes_the_most_surprising(void **state)
{
    const struct rv_memory_page_choice choice = {.strength = 1, .least = 0, .most = 0.5f, .max_keys = 3};
    static const float logprobs[] = {-1, -0.1f, -5, -2, -4, -0.8f, -3};
    struct rv_memory_page *page = NULL;
    struct rv_trace *trace;
    int32_t last = 9;
    struct bed b;

    (void)state;
    open_bed(&b);
    assert_ok(rv_trace_new(&trace, 1, "a", DIMS, 7, err));
    assert_ok(rv_trace_set_prompt(trace, &last, 1, err));
    memset(trace->states, 0, sizeof(uint16_t) * 7 * DIMS);
    for (int32_t i = 0; i < 7; i++) {
        trace->tokens[i] = i + 20;
        trace->logprobs[i] = logprobs[i];
        trace->n_rows++;
    }
    assert_ok(rv_memory_page_add(&page, trace, &choice, &b.whitening, b.scratch, err));
    assert_int_equal(page->n_keys, 3);
    assert_true(page->keys[0].token == 22 && page->keys[1].token == 24 && page->keys[2].token == 26);
    assert_true(page->keys[0].context[0] == 21 && page->keys[0].context[2] == 9 && page->keys[2].context[1] == 24);
    rv_memory_page_unref(page);
    rv_trace_unref(trace);
    rv_whitening_release(&b.whitening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_speaks_in_its_state_and_nowhere_else),
        cmocka_unit_test(what_is_mixed_is_the_mixture),
        cmocka_unit_test(what_is_said_anew_counts),
        cmocka_unit_test(the_oldest_keys_go),
        cmocka_unit_test(pages_are_the_same_after_they_were_bytes),
        cmocka_unit_test(what_can_be_written_can_be_read_and_nothing_else),
        cmocka_unit_test(a_state_that_is_no_number_is_not_remembered),
        cmocka_unit_test(a_page_takes_the_most_surprising),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
