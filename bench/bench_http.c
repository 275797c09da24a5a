/*
 * What connections cost: a server in a process of its own, and this process as all of its clients.
 *
 *     bench_http [streams [seconds]]       9000 idle event streams, for 10 seconds
 *
 *     http.idle.streams=       how many were opened
 *     http.idle.rss_mib=       by how much the server's memory grew for them
 *     http.idle.cpu_percent=   of a core, in the server, while every stream gets one event a second
 *     http.idle.events_per_s=  that arrived meanwhile, in all
 *     http.healthz.rps=        requests a second over 64 kept connections, one thread in each process
 *
 * Both ends count as descriptors: `ulimit -n` must allow a little more than the streams in each process.
 */
#include "server/http/http_server.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STREAMS_MAX = 100000, N_KEPT = 64, HEALTHZ_SECONDS = 3, SLICES = 20 };

static const char token_event[] = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n";
enum { CHUNK_BYTES = sizeof(token_event) - 1 + 6 }; // with its length and line ends

/* ---- the server ------------------------------------------------------------------------------- */

struct streams {
    struct rv_http_exchange **open;
    size_t n;
    size_t next; // whose turn it is
};

static void on_request(void *user, struct rv_http_exchange *exchange)
{
    struct streams *streams = user;

    if (strcmp(rv_http_exchange_path(exchange), "/stream") != 0 || streams->n == STREAMS_MAX) {
        rv_http_exchange_reply(exchange, 200, "text/plain", "ok\n", 3);
        return;
    }
    rv_http_exchange_begin(exchange, 200, "text/event-stream");
    streams->open[streams->n++] = exchange;
}

/* The order does not matter, and ends come at the end only. */
static void on_end(void *user, struct rv_http_exchange *exchange, enum rv_http_end why)
{
    struct streams *streams = user;

    (void)why;
    for (size_t i = 0; i < streams->n; i++) {
        if (streams->open[i] == exchange) {
            streams->open[i] = streams->open[--streams->n];
            return;
        }
    }
}

/* One event a second to each, a slice of the streams at a time. */
static void send_events(void *user)
{
    struct streams *streams = user;
    size_t n = (streams->n + SLICES - 1) / SLICES;

    for (size_t i = 0; i < n && streams->n > 0; i++) {
        streams->next = (streams->next + 1) % streams->n;
        rv_http_exchange_write(streams->open[streams->next], token_event, sizeof(token_event) - 1);
    }
}

/* Runs until it is killed; writes its port to the pipe. */
static void serve(int port_pipe)
{
    static const char *const addresses[] = {"127.0.0.1:0"};
    struct rv_http_config config = rv_http_config_default();
    struct rv_http_server *server;
    struct streams streams = {.open = calloc(STREAMS_MAX, sizeof(streams.open[0]))};
    struct ruvllm_error err = {0};
    int port;

    prctl(PR_SET_PDEATHSIG, SIGKILL); // not to outlive the clients, however they end
    config.addresses = addresses;
    config.n_addresses = 1;
    config.max_connections = STREAMS_MAX;
    config.on_request = on_request;
    config.on_end = on_end;
    config.user = &streams;
    if (!streams.open || rv_http_server_open(&server, &config, &err) ||
        rv_http_server_every(server, 1000 / SLICES, send_events, &streams, &err)) {
        fprintf(stderr, "bench_http: %s\n", err.message);
        _exit(1);
    }
    port = rv_http_server_port(server, 0);
    if (write(port_pipe, &port, sizeof(port)) != sizeof(port) || rv_http_server_run(server, &err))
        _exit(1);
    _exit(0);
}

/* ---- the clients ------------------------------------------------------------------------------ */

static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        perror("bench_http: cannot open another connection");
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static void ask(int fd, const char *request)
{
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request)) {
        perror("bench_http: cannot send");
        exit(1);
    }
}

/* A field of /proc/<pid>/stat, by its number in proc(5). */
static long stat_of(pid_t pid, int field)
{
    char path[64], text[1024] = {0}, *at;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (!file || fread(text, 1, sizeof(text) - 1, file) == 0)
        exit(1);
    fclose(file);
    at = strrchr(text, ')') + 1;
    for (int i = 2; i < field; i++)
        at = strchr(at, ' ') + 1;
    return strtol(at, NULL, 10);
}

static double rss_mib(pid_t pid)
{
    return (double)stat_of(pid, 24) * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static double cpu_seconds(pid_t pid)
{
    return (double)(stat_of(pid, 14) + stat_of(pid, 15)) / (double)sysconf(_SC_CLK_TCK);
}

/* Reads whatever comes until the time is over; how many bytes it was. */
static size_t read_for(int set, int64_t ms)
{
    struct epoll_event events[256];
    int64_t until_us = rv_clock_us() + ms * 1000;
    char piece[16384];
    size_t total = 0;
    ssize_t len;

    while (rv_clock_us() < until_us) {
        int n = epoll_wait(set, events, 256, 20);

        for (int i = 0; i < n; i++) {
            len = recv(events[i].data.fd, piece, sizeof(piece), MSG_DONTWAIT);
            if (len == 0)
                exit(1);
            total += len > 0 ? (size_t)len : 0;
        }
    }
    return total;
}

static void add_to(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

static void bench_idle(pid_t server, int port, int n_streams, int seconds)
{
    int set = epoll_create1(0);
    double before_mib = rss_mib(server), cpu_s, elapsed_s;
    size_t n_bytes;
    int64_t start_us;

    for (int i = 0; i < n_streams; i++) {
        int fd = connect_to(port);

        ask(fd, "GET /stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef\r\n"
                "Accept: text/event-stream\r\nUser-Agent: bench\r\n\r\n");
        add_to(set, fd);
        if (i % 64 == 63)
            read_for(set, 1);
    }
    read_for(set, 2000);
    start_us = rv_clock_us();
    cpu_s = cpu_seconds(server);
    n_bytes = read_for(set, (int64_t)seconds * 1000);
    cpu_s = cpu_seconds(server) - cpu_s;
    elapsed_s = (double)(rv_clock_us() - start_us) / 1e6;
    printf("http.idle.streams=%d\n", n_streams);
    printf("http.idle.rss_mib=%.1f\n", rss_mib(server) - before_mib);
    printf("http.idle.cpu_percent=%.1f\n", 100 * cpu_s / elapsed_s);
    printf("http.idle.events_per_s=%.0f\n", (double)n_bytes / CHUNK_BYTES / elapsed_s);
    close(set);
}

static void bench_healthz(int port)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct epoll_event events[N_KEPT];
    int64_t start_us = rv_clock_us(), until_us = start_us + HEALTHZ_SECONDS * 1000000;
    int set = epoll_create1(0);
    char answer[4096];
    long n_answers = 0;

    for (int i = 0; i < N_KEPT; i++) {
        int fd = connect_to(port);

        ask(fd, request);
        add_to(set, fd);
    }
    while (rv_clock_us() < until_us) {
        int n = epoll_wait(set, events, N_KEPT, 100);

        for (int i = 0; i < n; i++) {
            if (recv(events[i].data.fd, answer, sizeof(answer), 0) <= 0 || memcmp(answer, "HTTP/1.1 200", 12) != 0)
                exit(1);
            n_answers++;
            ask(events[i].data.fd, request);
        }
    }
    printf("http.healthz.rps=%.0f\n", (double)n_answers / ((double)(rv_clock_us() - start_us) / 1e6));
    close(set);
}

static void allow_descriptors(int n)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < (rlim_t)n + 200) {
        fprintf(stderr, "bench_http: %d streams need more descriptors than `ulimit -Hn` allows\n", n);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    int n_streams = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 9000;
    int seconds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 10, port, pipe_fds[2];
    pid_t server;

    if (n_streams < 1 || n_streams > STREAMS_MAX || seconds < 1 || pipe(pipe_fds) != 0) {
        fprintf(stderr, "usage: %s [streams [seconds]]\n", argv[0]);
        return 2;
    }
    allow_descriptors(n_streams);
    server = fork();
    if (server == 0)
        serve(pipe_fds[1]);
    if (server < 0 || read(pipe_fds[0], &port, sizeof(port)) != sizeof(port))
        return 1;
    bench_healthz(port);
    bench_idle(server, port, n_streams, seconds);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return 0;
}
