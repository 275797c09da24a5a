/*
 * Row 0, which is none of the table: how many answers have a word by themselves, for choosing the word of row 2, on
 * prompts that no other row has. EXTRA are words with commas.
 */
#include "learn_common.h"
#include "learn_skill.h"

#include <stdlib.h>
#include <string.h>

enum { N_ANSWERS = 480, MAX_WORDS = 64 };

static const char COMMON[] = "happy,sad,friend,park,tree,bird,dog,cat,ball,water,scared,house,smiled,garden,love,play,"
                             "help,people,example,data,language,important,information,health,food,world,work";

static int split(char *list, char **words)
{
    int n = 0;

    for (char *at = list; at && n < MAX_WORDS; n++) {
        char *comma = strchr(at, ',');

        words[n] = at;
        if (comma)
            *comma = '\0';
        at = comma ? comma + 1 : NULL;
    }
    return n;
}

void learn_row0(struct learn_args *args)
{
    const char *given = args->extra ? args->extra : COMMON;
    char *list = lab_need(calloc(1, strlen(given) + 1)), *words[MAX_WORDS];
    int counts[MAX_WORDS] = {0}, n_words;
    struct lab_texts texts;
    struct lab lab;

    memcpy(list, given, strlen(given));
    n_words = split(list, words);
    lab_open(&lab, args->path, 1000000 + args->seed);
    texts = lab_write_texts(&lab, N_ANSWERS, SKILL_PROMPT + SKILL_ANSWER);
    for (int32_t i = 0; i < texts.n; i++) {
        for (int w = 0; w < n_words; w++)
            counts[w] += lab_has_word(&lab, texts.tokens + i * texts.length + SKILL_PROMPT, SKILL_ANSWER, words[w]);
    }
    for (int w = 0; w < n_words; w++)
        learn_figure_print(args,
                           &(struct learn_figure){.what = words[w], .value = (double)counts[w] / (double)N_ANSWERS});
    lab_free_texts(&texts);
    lab_close(&lab);
    free(list);
}
