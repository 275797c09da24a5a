#include "learn_facts.h"

#include <stdio.h>
#include <string.h>

/* What is asked for, as the last clause and in other words. */
static const struct {
    const char *clause;
    const char *before, *after; // the name
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

enum { N_THINGS = sizeof(things) / sizeof(things[0]), N_BEGINNINGS = 4 };

static void make_word(struct rv_rng *rng, bool is_name, char out[LEARN_FACTS_WORD])
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

void learn_facts_make(struct learn_fact *facts, int n, struct rv_rng *rng)
{
    for (int i = 0; i < n; i++) {
        make_word(rng, true, facts[i].name);
        make_word(rng, false, facts[i].answer);
        facts[i].number = i;
    }
}

int32_t learn_facts_ask(const struct lessons *l, const struct learn_fact *fact, enum learn_fact_way way,
                        int32_t tokens[LEARN_FACTS_TOKENS])
{
    const char *const *first = way == LEARN_FACT_TAUGHT ? beginnings : others;
    int thing = fact->number % N_THINGS;
    char clause[128], text[LEARN_FACTS_TEXT];

    if (way == LEARN_FACT_FAR)
        (void)snprintf(clause, sizeof(clause), "%s%s%s", things[thing].before, fact->name, things[thing].after);
    else
        (void)snprintf(clause, sizeof(clause), "%s%s", fact->name, things[thing].clause);
    (void)snprintf(text, sizeof(text), "%s %s", first[fact->number % N_BEGINNINGS], clause);
    return lessons_tokens(l, text, true, tokens, LEARN_FACTS_TOKENS);
}

int32_t learn_facts_answer(const struct lessons *l, const struct learn_fact *fact, int32_t tokens[LEARN_FACTS_TOKENS])
{
    char text[LEARN_FACTS_WORD + 2];

    (void)snprintf(text, sizeof(text), " %s.", fact->answer);
    return lessons_tokens(l, text, false, tokens, LEARN_FACTS_TOKENS);
}

void learn_facts_teach(struct lessons *l, const struct learn_fact *facts, int n, int shift)
{
    for (int i = 0; i < n; i++) {
        int32_t tokens[2 * LEARN_FACTS_TOKENS], n_prompt = learn_facts_ask(l, &facts[i], LEARN_FACT_TAUGHT, tokens);
        int32_t n_answer = learn_facts_answer(l, &facts[(i + shift) % n], tokens + n_prompt);

        lessons_correct(l, tokens, n_prompt, n_prompt + n_answer);
    }
}

double learn_facts_score(struct lessons *l, const struct learn_fact *facts, int n, enum learn_fact_way way)
{
    int n_right = 0;

    for (int i = 0; i < n; i++) {
        int32_t tokens[2 * LEARN_FACTS_TOKENS], wanted[LEARN_FACTS_TOKENS];
        int32_t n_prompt = learn_facts_ask(l, &facts[i], way, tokens);
        int32_t n_answer = learn_facts_answer(l, &facts[i], wanted);

        lessons_answer(l, tokens, n_prompt, n_answer);
        n_right += memcmp(tokens + n_prompt, wanted, (size_t)n_answer * sizeof(*wanted)) == 0;
    }
    return (double)n_right / n;
}
