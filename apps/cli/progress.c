/* The progress line. */
#include "progress.h"

#include "interrupt.h"
#include "output.h"

#include "base/clock.h"

#include <string.h>

enum { SHOW_AFTER_US = 200000, REDRAW_US = 50000, BAR_WIDTH = 28, LABEL_MAX = 32 };

void rv_progress_init(struct rv_progress *p, const char *label)
{
    *p = (struct rv_progress){.label = label, .start_us = rv_clock_us(), .is_terminal = rv_output_is_terminal(stderr)};
}

void rv_progress_show(struct rv_progress *p, double fraction, const char *note)
{
    int64_t now = rv_clock_us();
    int filled;

    if (!p->is_terminal || now - p->start_us < SHOW_AFTER_US || (p->is_drawn && now - p->drawn_us < REDRAW_US))
        return;
    fraction = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
    filled = (int)(fraction * BAR_WIDTH);
    fputs("\r", stderr);
    rv_output_field(stderr, p->label, strnlen(p->label, LABEL_MAX));
    fprintf(stderr, " %s[", rv_output_style(stderr, RV_STYLE_DIM));
    for (int i = 0; i < BAR_WIDTH; i++)
        putc(i < filled ? '=' : ' ', stderr);
    fprintf(stderr, "]%s %3.0f%%%s%s\033[K", rv_output_style(stderr, RV_STYLE_RESET), fraction * 100, note ? "  " : "",
            note ? note : "");
    fflush(stderr);
    p->drawn_us = now;
    p->is_drawn = true;
}

void rv_progress_clear(struct rv_progress *p)
{
    if (p->is_drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->is_drawn = false;
}

bool rv_progress_on_load(void *user, float fraction)
{
    rv_progress_show(user, (double)fraction, NULL);
    return !rv_interrupt_seen();
}
