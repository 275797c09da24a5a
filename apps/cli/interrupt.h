/*
 * Ctrl-C as a question that can be asked: the handler only raises a flag, which the callbacks of long work read.
 */
#ifndef RV_CLI_INTERRUPT_H
#define RV_CLI_INTERRUPT_H

#include <stdbool.h>

enum rv_interrupt_mode {
    RV_INTERRUPT_ONCE,  // the first Ctrl-C raises the flag, a second one ends the program as usual
    RV_INTERRUPT_ALWAYS // every one raises the flag: for programs that go on afterwards
};

/* Takes over SIGINT. */
void rv_interrupt_catch(enum rv_interrupt_mode mode);
/* Whether Ctrl-C came since the start or the last clear. */
bool rv_interrupt_seen(void);
void rv_interrupt_clear(void);

#endif
