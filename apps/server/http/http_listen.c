/* Addresses to listening sockets. */
#include "server/http/http_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static const char unix_prefix[] = "unix:";

static bool is_unix(const char *address)
{
    return strncmp(address, unix_prefix, sizeof(unix_prefix) - 1) == 0;
}

static bool set_flags(int fd)
{
    return fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

/* Makes a socket that listens; -1 with errno. */
static int listen_at(const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, SOCK_STREAM, 0), on = 1, saved;

    if (fd < 0)
        return -1;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)); // an address means what it says
    if (set_flags(fd) && bind(fd, address, len) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

/* True when the path is a socket that refuses connections: its owner has ended. */
static bool is_left_over(const struct sockaddr_un *address)
{
    struct stat st;
    bool is_refused;
    int fd;

    if (lstat(address->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        return false;
    is_refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 && errno == ECONNREFUSED;
    close(fd);
    return is_refused;
}

static ruvllm_status open_unix(int *out, const char *address, struct ruvllm_error *err)
{
    const char *path = address + sizeof(unix_prefix) - 1;
    struct sockaddr_un local = {.sun_family = AF_UNIX};

    if (path[0] == '\0' || strlen(path) >= sizeof(local.sun_path))
        return rv_fail(err, RUVLLM_INVALID, "cannot listen at '%s': the path must have 1 to %zu bytes", address,
                       sizeof(local.sun_path) - 1);
    memcpy(local.sun_path, path, strlen(path));
    *out = listen_at((const struct sockaddr *)&local, sizeof(local));
    if (*out < 0 && errno == EADDRINUSE && is_left_over(&local) && unlink(path) == 0)
        *out = listen_at((const struct sockaddr *)&local, sizeof(local));
    if (*out < 0)
        return rv_fail_errno(err, errno, "cannot listen at '%s'", address);
    return RUVLLM_OK;
}

/* Cuts "host:port" and "[host]:port". */
static bool split(const char *address, char *host, size_t host_cap, const char **port)
{
    const char *colon = strrchr(address, ':'), *begin = address, *end = colon;

    if (!colon || colon[1] == '\0' || strlen(colon + 1) > 5 || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
        strtol(colon + 1, NULL, 10) > 65535)
        return false;
    if (address[0] == '[') {
        begin++;
        end--;
        if (end < begin || *end != ']')
            return false;
    }
    if (end <= begin || (size_t)(end - begin) >= host_cap)
        return false;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *port = colon + 1;
    return address[0] == '[' || !strchr(host, ':');
}

ruvllm_status rv_http_listen_open(int *out, const char *address, struct ruvllm_error *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    const char *port;
    char host[256];
    int rc;

    *out = -1;
    if (is_unix(address))
        return open_unix(out, address, err);
    if (!split(address, host, sizeof(host), &port))
        return rv_fail(err, RUVLLM_INVALID, "cannot listen at '%s': expected host:port, [ipv6]:port or unix:path",
                       address);
    rc = getaddrinfo(host, port, &hints, &found);
    if (rc)
        return rv_fail(err, RUVLLM_INVALID, "cannot listen at '%s': %s", address, gai_strerror(rc));
    *out = listen_at(found->ai_addr, found->ai_addrlen);
    rc = errno;
    freeaddrinfo(found);
    if (*out < 0)
        return rv_fail_errno(err, rc, "cannot listen at '%s'", address);
    return RUVLLM_OK;
}

ruvllm_status rv_http_listen_adopt(int fd, struct ruvllm_error *err)
{
    int is_listening = 0;
    socklen_t len = sizeof(is_listening);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) != 0 || !is_listening)
        return rv_fail(err, RUVLLM_INVALID, "cannot use the inherited descriptor %d: it is not a listening socket", fd);
    if (!set_flags(fd))
        return rv_fail_errno(err, errno, "cannot use the inherited descriptor %d", fd);
    return RUVLLM_OK;
}

void rv_http_listen_remove(const char *address)
{
    if (is_unix(address))
        unlink(address + sizeof(unix_prefix) - 1);
}

int rv_http_listen_port(int fd)
{
    struct sockaddr_storage local = {0};
    socklen_t len = sizeof(local);

    if (getsockname(fd, (struct sockaddr *)&local, &len) != 0)
        return 0;
    if (local.ss_family == AF_INET)
        return ntohs(((const struct sockaddr_in *)(const void *)&local)->sin_port);
    if (local.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)(const void *)&local)->sin6_port);
    return 0;
}

/* An IPv4 address in network order. */
static bool print_ipv4(const void *address, char text[RV_HTTP_LISTEN_PEER_MAX])
{
    inet_ntop(AF_INET, address, text, RV_HTTP_LISTEN_PEER_MAX);
    return ((const unsigned char *)address)[0] == 127;
}

bool rv_http_listen_peer(const struct sockaddr *peer, char text[RV_HTTP_LISTEN_PEER_MAX])
{
    const struct in6_addr *ipv6;

    if (peer->sa_family == AF_INET)
        return print_ipv4(&((const struct sockaddr_in *)(const void *)peer)->sin_addr, text);
    if (peer->sa_family == AF_INET6) {
        ipv6 = &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(ipv6))
            return print_ipv4(&ipv6->s6_addr[12], text);
        inet_ntop(AF_INET6, ipv6, text, RV_HTTP_LISTEN_PEER_MAX);
        return IN6_IS_ADDR_LOOPBACK(ipv6);
    }
    snprintf(text, RV_HTTP_LISTEN_PEER_MAX, "unix");
    return peer->sa_family == AF_UNIX;
}
