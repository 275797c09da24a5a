/* The flag is the one thing a signal handler may touch, hence a global. */
#include "interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t interrupted;

static void raise_flag(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

void rv_interrupt_catch(enum rv_interrupt_mode mode)
{
    struct sigaction action = {.sa_handler = raise_flag};

    sigemptyset(&action.sa_mask);
    /* Not SA_RESTART: a read that waits for the user has to end. */
    action.sa_flags = mode == RV_INTERRUPT_ONCE ? (int)SA_RESETHAND : 0;
    sigaction(SIGINT, &action, NULL);
}

bool rv_interrupt_seen(void)
{
    return interrupted != 0;
}

void rv_interrupt_clear(void)
{
    interrupted = 0;
}
