/* "Did you mean": the known word nearest to one that is not known. */
#ifndef RV_CLI_SUGGEST_H
#define RV_CLI_SUGGEST_H

#include <stddef.h>

struct rv_suggestion {
    const char *word; // what was typed, borrowed
    size_t word_len;
    size_t distance;
    char best[80]; // "" while nothing came near enough to be worth a question
};

void rv_suggestion_init(struct rv_suggestion *s, const char *word, size_t len);
/* Considers one known word. */
void rv_suggestion_offer(struct rv_suggestion *s, const char *known);
/* This one is meant: nothing that is offered is nearer. */
void rv_suggestion_settle(struct rv_suggestion *s, const char *known);

#endif
