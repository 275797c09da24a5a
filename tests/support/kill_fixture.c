#include "support/kill_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ACK = 64, MAX_STREAMS = 16 };

static int out = -1; // of the process that is to be killed

size_t kill_fixture_run(const struct kill_fixture *fixture, const char *url, size_t n)
{
    char ack[MAX_ACK];
    size_t got = 0;
    int ends[2], status;
    pid_t child;

    assert_true(fixture->ack_bytes <= sizeof(ack));
    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        out = ends[1];
        fixture->work(url);
        _exit(6);
    }
    close(ends[1]);
    while (read(ends[0], ack, fixture->ack_bytes) == (ssize_t)fixture->ack_bytes) { // as short ones are written whole
        fixture->note(ack);
        if (++got == n)
            kill(child, SIGKILL);
    }
    close(ends[0]);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_msg("the process ended by itself: %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    return got;
}

void kill_fixture_say(const void *ack, size_t bytes)
{
    if (write(out, ack, bytes) != (ssize_t)bytes)
        _exit(2);
}

void kill_fixture_stream(void *(*stream)(void *), void *streams, size_t n, size_t bytes)
{
    pthread_t threads[MAX_STREAMS];

    for (size_t i = 0; i < n; i++) {
        if (n > MAX_STREAMS || pthread_create(&threads[i], NULL, stream, (char *)streams + i * bytes))
            _exit(4);
    }
    pthread_join(threads[0], NULL);
    _exit(5);
}

long kill_fixture_n(long usual)
{
    const char *wanted = getenv("RUVLLM_KILLS");

    return wanted ? strtol(wanted, NULL, 10) : usual;
}
