/*
 * A process that works until it is killed, at a moment of the test's choosing, and what it had acknowledged by then:
 * for suites that look at what is left.
 */
#ifndef RV_TESTS_SUPPORT_KILL_FIXTURE_H
#define RV_TESTS_SUPPORT_KILL_FIXTURE_H

#include "support/test.h"

struct kill_fixture {
    size_t ack_bytes;              // of an acknowledgement
    void (*work)(const char *url); // in the process: does not return
    void (*note)(const void *ack); // of each acknowledgement, in the order they were made
};

/*
 * Has the process work on what is at `url`, kills it after `n` acknowledgements, and notes those that were on their way
 * too; how many there were. Fails the case when the process ends by itself.
 */
size_t kill_fixture_run(const struct kill_fixture *fixture, const char *url, size_t n);
/* In the process: acknowledges. May be called by several threads. */
void kill_fixture_say(const void *ack, size_t bytes);
/* In the process: runs `n` threads, each on its own of `streams`, until the end; does not return. */
void kill_fixture_stream(void *(*stream)(void *), void *streams, size_t n, size_t bytes);
/* How often to kill: RUVLLM_KILLS, or what is usual. */
long kill_fixture_n(long usual);

#endif
