/* Threads: any formats on its own and appends under the lock; the log's thread swaps the buffer and writes. */
#include "server/access_log.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_LINE = 16 << 10, MAX_WAITING = 1 << 20 };

struct rv_access_log {
    int fd;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t has_lines;
    struct rv_buf waiting; // guarded by lock
    uint64_t n_dropped;    // guarded by lock
    bool is_closing;       // guarded by lock
};

static int64_t unix_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- a line ---------------------------------------------------------------------------------- */

static void add_string(struct rv_buf *out, const char *text)
{
    size_t len = strlen(text);

    rv_buf_add_char(out, '"');
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)text[i];
        uint32_t cp;
        int n = rv_utf8_decode(text + i, len - i, &cp);

        if (n <= 0) {
            rv_buf_addf(out, "\\ufffd");
            i++;
        } else if (c == '"' || c == '\\') {
            rv_buf_addf(out, "\\%c", c);
            i++;
        } else if (cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x2028 || cp == 0x2029) {
            rv_buf_addf(out, "\\u%04x", (unsigned)cp);
            i += (size_t)n;
        } else {
            rv_buf_add(out, text + i, (size_t)n);
            i += (size_t)n;
        }
    }
    rv_buf_add_char(out, '"');
}

static void add_field(struct rv_buf *out, const char *name, const char *value)
{
    if (!value)
        return;
    rv_buf_addf(out, ",\"%s\":", name);
    add_string(out, value);
}

static void add_time(struct rv_buf *out, int64_t us)
{
    time_t seconds = (time_t)(us / 1000000);
    struct tm tm;
    char text[32];

    gmtime_r(&seconds, &tm);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    rv_buf_addf(out, "{\"time\":\"%s.%03dZ\"", text, (int)(us / 1000 % 1000));
}

void rv_access_log_format(struct rv_buf *out, const struct rv_access_log_record *record, int64_t us)
{
    const struct rv_access_log_record *r = record;

    add_time(out, us);
    rv_buf_add_str(out, ",\"event\":\"request\"");
    add_field(out, "method", r->method);
    add_field(out, "path", r->path);
    add_field(out, "route", r->route);
    rv_buf_addf(out, ",\"status\":%d,\"ms\":%.3f", r->status, (double)r->total_us / 1000);
    if (r->first_token_us > 0)
        rv_buf_addf(out, ",\"first_token_ms\":%.3f", (double)r->first_token_us / 1000);
    if (r->prompt_tokens > 0)
        rv_buf_addf(out, ",\"prompt_tokens\":%" PRId32 ",\"cached_tokens\":%" PRId32 ",\"completion_tokens\":%" PRId32,
                    r->prompt_tokens, r->cached_tokens, r->generated_tokens);
    add_field(out, "peer", r->peer);
    add_field(out, "key", r->key_id);
    add_field(out, "tenant", r->tenant);
    add_field(out, "model", r->model);
    add_field(out, "request_id", r->request_id);
    add_field(out, "traceparent", r->traceparent);
    add_field(out, "finish_reason", r->finish_reason);
    add_field(out, "end", r->end);
    add_field(out, "error", r->error);
    rv_buf_add_str(out, "}\n");
}

/* ---- the writer ------------------------------------------------------------------------------- */

static void write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; // the log's reader is gone; serving goes on
        data += n;
        len -= (size_t)n;
    }
}

static void *run(void *user)
{
    struct rv_access_log *log = user;
    struct rv_buf lines;
    bool is_over = false;

    rv_buf_init(&lines, MAX_WAITING);
    while (!is_over) {
        struct rv_buf empty = lines;

        pthread_mutex_lock(&log->lock);
        while (log->waiting.len == 0 && !log->is_closing)
            pthread_cond_wait(&log->has_lines, &log->lock);
        is_over = log->is_closing;
        lines = log->waiting;
        log->waiting = empty;
        pthread_mutex_unlock(&log->lock);
        write_all(log->fd, lines.data, lines.len);
        rv_buf_clear(&lines);
    }
    rv_buf_release(&lines);
    return NULL;
}

static void push(struct rv_access_log *log, const struct rv_buf *line)
{
    pthread_mutex_lock(&log->lock);
    if (log->n_dropped > 0 && log->waiting.len < MAX_WAITING / 2) {
        add_time(&log->waiting, unix_us());
        rv_buf_addf(&log->waiting, ",\"event\":\"dropped\",\"lines\":%" PRIu64 "}\n", log->n_dropped);
        if (!log->waiting.failed)
            log->n_dropped = 0;
    }
    if (line->failed == RUVLLM_OK)
        rv_buf_add(&log->waiting, line->data, line->len);
    if (line->failed || log->waiting.failed) {
        log->n_dropped++;
        log->waiting.failed = RUVLLM_OK; // the content is as it was
    }
    pthread_cond_signal(&log->has_lines);
    pthread_mutex_unlock(&log->lock);
}

void rv_access_log_request(struct rv_access_log *log, const struct rv_access_log_record *record)
{
    struct rv_buf line;

    rv_buf_init(&line, MAX_LINE);
    rv_access_log_format(&line, record, unix_us());
    push(log, &line);
    rv_buf_release(&line);
}

void rv_access_log_message(struct rv_access_log *log, const char *level, const char *text)
{
    struct rv_buf line;

    rv_buf_init(&line, MAX_LINE);
    add_time(&line, unix_us());
    add_field(&line, "event", "log");
    add_field(&line, "level", level);
    add_field(&line, "message", text);
    rv_buf_add_str(&line, "}\n");
    push(log, &line);
    rv_buf_release(&line);
}

ruvllm_status rv_access_log_open(struct rv_access_log **out, int fd, struct ruvllm_error *err)
{
    struct rv_access_log *log = rv_calloc(1, sizeof(*log));
    int rc;

    *out = NULL;
    if (!log)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate the log");
    log->fd = fd;
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->has_lines, NULL);
    rv_buf_init(&log->waiting, MAX_WAITING);
    rc = pthread_create(&log->thread, NULL, run, log);
    if (rc) {
        pthread_mutex_destroy(&log->lock);
        pthread_cond_destroy(&log->has_lines);
        rv_free(log);
        return rv_fail_errno(err, rc, "cannot start the log's thread");
    }
    *out = log;
    return RUVLLM_OK;
}

void rv_access_log_close(struct rv_access_log *log)
{
    if (!log)
        return;
    pthread_mutex_lock(&log->lock);
    log->is_closing = true;
    pthread_cond_signal(&log->has_lines);
    pthread_mutex_unlock(&log->lock);
    pthread_join(log->thread, NULL);
    rv_buf_release(&log->waiting);
    pthread_mutex_destroy(&log->lock);
    pthread_cond_destroy(&log->has_lines);
    rv_free(log);
}
