/* Reads the two files side by side: a text up to the separator, a line of ids. */
#include "support/vocab_vectors.h"

#include "base/alloc.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEPARATOR "\n__ggml_vocab_test__\n"
#define MAX_IDS 4096

static size_t parse_line(const char **line, int32_t *ids)
{
    const char *end = strchr(*line, '\n');
    const char *at = *line;
    size_t n = 0;

    if (!end)
        end = *line + strlen(*line);
    while (at < end) {
        char *after;
        long id = strtol(at, &after, 10);
        if (after == at || after > end)
            break;
        assert_true(n < MAX_IDS);
        ids[n++] = (int32_t)id;
        at = after;
    }
    *line = *end ? end + 1 : end;
    return n;
}

static void check_text(const struct rv_vocab *vocab, const char *text, size_t len, const int32_t *expected,
                       size_t n_expected, bool round_trip)
{
    struct rv_buf back;
    int32_t *ids;
    size_t n_ids;

    assert_ok(rv_vocab_encode(vocab, text, len, NULL, 0, &ids, &n_ids, err));
    if (n_ids != n_expected || (n_ids && memcmp(ids, expected, n_ids * sizeof(*ids)) != 0)) {
        for (size_t i = 0; i < n_ids || i < n_expected; i++)
            fprintf(stderr, "%zu: got %d, expected %d\n", i, i < n_ids ? ids[i] : -1,
                    i < n_expected ? expected[i] : -1);
        fail_msg("wrong ids for '%.*s'", (int)len, text);
    }
    rv_buf_init(&back, 1 << 20);
    rv_vocab_decode(vocab, ids, n_ids, false, &back);
    if (round_trip && (back.len != len || (len && memcmp(back.data, text, len) != 0)))
        fail_msg("'%.*s' came back as '%.*s'", (int)len, text, (int)back.len, back.data);
    rv_buf_release(&back);
    rv_free(ids);
}

size_t vocab_vectors_check(const struct rv_vocab *vocab, const char *inp_path, const char *out_path, bool round_trip)
{
    static int32_t expected[MAX_IDS];
    size_t n_texts = 0;
    char *inp, *out;
    const char *text, *line;

    test_need_file(inp_path);
    inp = test_read_file(inp_path, NULL);
    out = test_read_file(out_path, NULL);
    text = inp;
    line = out;
    for (;;) {
        const char *end = strstr(text, SEPARATOR);
        size_t n = parse_line(&line, expected);
        if (!end)
            break; // what follows the last separator is no test
        check_text(vocab, text, (size_t)(end - text), expected, n, round_trip);
        n_texts++;
        text = end + strlen(SEPARATOR);
    }
    free(inp);
    free(out);
    return n_texts;
}
