/* Ids are random: the trace's 16 bytes when there is none yet, the span's 8 always. */
#include "server/trace_context.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_hex(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        bool is_digit = text[i] >= '0' && text[i] <= '9';

        if (!is_digit && !(text[i] >= 'a' && text[i] <= 'f'))
            return false;
    }
    return true;
}

static bool is_zero(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] != '0')
            return false;
    }
    return true;
}

bool rv_trace_context_is_valid(const char *header)
{
    size_t len = strnlen(header, RV_TRACE_CONTEXT_LEN + 1);

    if (len < RV_TRACE_CONTEXT_LEN || header[2] != '-' || header[35] != '-' || header[52] != '-')
        return false;
    if (!is_hex(header, 2) || !is_hex(header + 3, 32) || !is_hex(header + 36, 16) || !is_hex(header + 53, 2))
        return false;
    if (memcmp(header, "ff", 2) == 0 || is_zero(header + 3, 32) || is_zero(header + 36, 16))
        return false;
    /* Version 00 ends here; a later one may go on after a dash. */
    return len == RV_TRACE_CONTEXT_LEN || (memcmp(header, "00", 2) != 0 && header[RV_TRACE_CONTEXT_LEN] == '-');
}

void rv_trace_context_begin(struct rv_trace_context *trace, const char *header, struct rv_rng *rng)
{
    uint64_t span = rv_rng_next(rng) | 1; // never zero
    char id[33];
    char flags[3] = "00";

    if (header && rv_trace_context_is_valid(header)) {
        memcpy(id, header + 3, 32);
        memcpy(flags, header + 53, 2);
        id[32] = '\0';
    } else {
        uint64_t high = rv_rng_next(rng), low = rv_rng_next(rng) | 1;

        snprintf(id, sizeof(id), "%016" PRIx64 "%016" PRIx64, high, low);
    }
    snprintf(trace->text, sizeof(trace->text), "00-%s-%016" PRIx64 "-%s", id, span, flags);
}
