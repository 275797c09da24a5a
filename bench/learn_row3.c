/*
 * Row 3: fifty made-up facts, each corrected once. Asked the same again; asked with another beginning and the same last
 * clause (near); and in other words (far, for which row 4 is). Controls: nothing learned; and corrections that belong
 * to other questions.
 */
#include "learn_lessons.h"

#include <stdio.h>
#include <string.h>

enum { N_FACTS = 50, N_SHORT = 12, MAX_TOKENS = 96, MAX_WORD = 16, RANK = 2 };

struct fact {
    char name[MAX_WORD];
    char answer[MAX_WORD];
    int thing; // of the things below
};

/* What is asked for, as the last clause and in other words. */
static const struct {
    const char *clause; // after the name
    const char *other;  // before it
    const char *end;    // after it
} things[] = {
    {"'s favourite fruit is called", "If you ask which fruit is loved most of all by ", ", it is called"},
    {"'s best friend is called", "The one who always plays with ", " is called"},
    {"'s little dog is called", "There is a dog that lives with ", ", and it is called"},
    {"'s old house is called", "The place where you can find ", " is called"},
    {"'s red boat is called", "When it sails over the lake, the boat of ", " is called"},
};

static const char *const beginnings[] = {"One day everybody went to the park.",
                                         "It was a sunny morning in the village.", "The children asked many questions.",
                                         "Mum told a story before bed."};
static const char *const others[] = {"They all sat down under a big tree.", "A boy wanted to know something.",
                                     "After lunch it began to rain.", "Grandma smiled and said it again."};

static void make_word(struct rv_rng *rng, bool is_name, char out[MAX_WORD])
{
    static const char consonants[] = "bdfgklmnprstvz", vowels[] = "aeiou";
    size_t n = 0;

    for (int i = 0; i < 3; i++) {
        out[n++] = consonants[rv_rng_below(rng, sizeof(consonants) - 1)];
        out[n++] = vowels[rv_rng_below(rng, sizeof(vowels) - 1)];
    }
    if (is_name) {
        out[0] = (char)(out[0] - 'a' + 'A');
        n--;
    }
    out[n] = '\0';
}

enum way { TAUGHT, NEAR, FAR };

/* The question, asked in one of three ways; how many tokens. */
static int32_t ask(const struct lessons *l, const struct fact *f, int i, enum way way, int32_t *tokens)
{
    char text[256], clause[128];

    if (way == FAR)
        (void)snprintf(clause, sizeof(clause), "%s%s%s", things[f->thing].other, f->name, things[f->thing].end);
    else
        (void)snprintf(clause, sizeof(clause), "%s%s", f->name, things[f->thing].clause);
    (void)snprintf(text, sizeof(text), "%s %s", way == TAUGHT ? beginnings[i % 4] : others[i % 4], clause);
    return lessons_tokens(l, text, true, tokens, MAX_TOKENS);
}

static int32_t answer_of(const struct lessons *l, const struct fact *f, int32_t *tokens)
{
    char text[MAX_WORD + 8];

    (void)snprintf(text, sizeof(text), " %s.", f->answer);
    return lessons_tokens(l, text, false, tokens, MAX_TOKENS);
}

/* The share of facts that are answered word by word. */
static double score(struct lessons *l, const struct fact *facts, int n, enum way way)
{
    int n_right = 0;

    for (int i = 0; i < n; i++) {
        int32_t tokens[2 * MAX_TOKENS], wanted[MAX_TOKENS];
        int32_t n_prompt = ask(l, &facts[i], i, way, tokens), n_answer = answer_of(l, &facts[i], wanted);

        lessons_answer(l, tokens, n_prompt, n_answer);
        n_right += memcmp(tokens + n_prompt, wanted, (size_t)n_answer * sizeof(*wanted)) == 0;
    }
    return (double)n_right / n;
}

/* Corrects all answers; of other facts when `shift` is not 0. */
static void teach(struct lessons *l, const struct fact *facts, int n, int shift)
{
    for (int i = 0; i < n; i++) {
        int32_t tokens[2 * MAX_TOKENS], n_prompt = ask(l, &facts[i], i, TAUGHT, tokens);
        int32_t n_answer = answer_of(l, &facts[(i + shift) % n], tokens + n_prompt);

        lessons_correct(l, tokens, n_prompt, n_prompt + n_answer);
    }
}

static void print(struct learn_args *args, const char *what, double value, enum learn_bound bound, double must,
                  double short_must)
{
    learn_figure_print(args, &(struct learn_figure){
                                 .what = what, .value = value, .bound = bound, .must = must, .short_must = short_must});
}

void learn_row3(struct learn_args *args)
{
    int n = args->is_short ? N_SHORT : N_FACTS;
    struct fact facts[N_FACTS];
    struct lessons l;

    lessons_open(&l, args, RANK);
    for (int i = 0; i < n; i++) {
        make_word(&l.lab.rng, true, facts[i].name);
        make_word(&l.lab.rng, false, facts[i].answer);
        facts[i].thing = i % (int)(sizeof(things) / sizeof(things[0]));
    }
    print(args, "frozen", score(&l, facts, n, TAUGHT), LEARN_AT_MOST, 0.02, 0.1);
    teach(&l, facts, n, 0);
    print(args, "taught", score(&l, facts, n, TAUGHT), LEARN_AT_LEAST, 0.98, 0.9);
    print(args, "near", score(&l, facts, n, NEAR), LEARN_AT_LEAST, 0.45, 0.2);
    print(args, "far", score(&l, facts, n, FAR), LEARN_FREE, 0, 0);
    print(args, "self", lessons_self(&l), LEARN_AT_MOST, 0.005, 0.02);
    print(args, "keys", rv_memory_n_keys(l.now.memory), LEARN_FREE, 0, 0);
    lessons_forget(&l, RANK);
    teach(&l, facts, n, 1);
    print(args, "shuffled", score(&l, facts, n, TAUGHT), LEARN_AT_MOST, 0.02, 0.1);
    lessons_close(&l);
}
