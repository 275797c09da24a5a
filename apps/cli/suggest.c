/* Edit distance where a swap of neighbours counts as one slip (optimal string alignment). */
#include "suggest.h"

#include <stdio.h>
#include <string.h>

enum { WORD_MAX = 64 };

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][WORD_MAX + 1];
    size_t *before = rows[0], *last = rows[1], *row = rows[2], *freed;

    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return WORD_MAX;
    memset(rows, 0, sizeof(rows));
    for (size_t j = 0; j <= b_len; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            row[j] = min3(last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
        freed = before;
        before = last;
        last = row;
        row = freed;
    }
    return last[b_len];
}

void rv_suggestion_init(struct rv_suggestion *s, const char *word, size_t len)
{
    s->word = word;
    s->word_len = len;
    /* A third of the letters wrong is a different word. */
    s->distance = len / 3 + 2;
    s->best[0] = '\0';
}

void rv_suggestion_offer(struct rv_suggestion *s, const char *known)
{
    size_t known_len = strlen(known);
    size_t d = distance(s->word, s->word_len, known, known_len);

    /* A word begun and not finished ("--max") is nearer than the count of missing letters says. */
    if (s->word_len >= 4 && known_len > s->word_len && memcmp(s->word, known, s->word_len) == 0 && d > 1)
        d = 1;
    if (d < s->distance) {
        s->distance = d;
        snprintf(s->best, sizeof(s->best), "%s", known);
    }
}

void rv_suggestion_settle(struct rv_suggestion *s, const char *known)
{
    s->distance = 0;
    snprintf(s->best, sizeof(s->best), "%s", known);
}
