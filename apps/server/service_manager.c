/* The protocol is a datagram to the socket named by the environment; see sd_notify(3) and sd_listen_fds(3). */
#include "server/service_manager.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_SOCKET = 3 };

/* A whole positive number from the environment; -1 when absent or something else. */
static long long number(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    long long value = text && *text ? strtoll(text, &end, 10) : -1;

    return end && *end == '\0' && value >= 0 ? value : -1;
}

ruvllm_status rv_service_manager_sockets(int fds[RV_SERVICE_MANAGER_MAX_SOCKETS], size_t *n, struct ruvllm_error *err)
{
    long long count = number("LISTEN_FDS");

    *n = 0;
    if (count <= 0 || number("LISTEN_PID") != (long long)getpid())
        return RUVLLM_OK;
    if (count > RV_SERVICE_MANAGER_MAX_SOCKETS)
        return rv_fail(err, RUVLLM_INVALID, "the service manager passed %lld sockets, at most %d are served", count,
                       RV_SERVICE_MANAGER_MAX_SOCKETS);
    for (long long i = 0; i < count; i++) {
        fds[i] = FIRST_SOCKET + (int)i;
        if (fcntl(fds[i], F_SETFD, FD_CLOEXEC) != 0)
            return rv_fail(err, RUVLLM_INVALID, "LISTEN_FDS promises %lld sockets, number %lld is not open", count, i);
    }
    *n = (size_t)count;
    return RUVLLM_OK;
}

void rv_service_manager_notify(const char *state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = path ? strlen(path) : 0;
    int fd;

    if (len < 2 || len >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; // the abstract name space
    fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd < 0)
        return;
    /* A manager that does not listen is its own problem: nothing to report, nothing to retry. */
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    close(fd);
}

int32_t rv_service_manager_watchdog_ms(void)
{
    long long us = number("WATCHDOG_USEC");
    long long pid = number("WATCHDOG_PID");

    if (us <= 0 || (pid >= 0 && pid != (long long)getpid()))
        return 0;
    us /= 2000;
    return us < 1 ? 1 : us > 3600000 ? 3600000 : (int32_t)us;
}
