/*
 * A connection may be lost at any time. It is made again by the next call that is not in the middle of a transaction,
 * at most once a second: whoever calls in between is told at once.
 */
#include "store/postgres_db.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/postgres_ask.h"
#include "store/postgres_statement.h"
#include "store/sql_news.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RETRY_US = 1000000, TABLES_LOCK = 0x5275764C };

struct rv_postgres_db *rv_postgres_db_of(struct rv_store_db *db)
{
    return (struct rv_postgres_db *)db;
}

/* ---- failures ------------------------------------------------------------------------------ */

/* What the five letters of an SQLSTATE mean to us; the first row that begins like it counts. */
static ruvllm_status status_of(const char *state)
{
    static const struct {
        const char *begins;
        ruvllm_status status;
    } rows[] = {
        {"53100", RUVLLM_NO_SPACE}, {"53200", RUVLLM_NO_MEMORY}, {"53", RUVLLM_BUSY},   {"55P03", RUVLLM_BUSY},
        {"40", RUVLLM_BUSY},        {"57014", RUVLLM_BUSY},      {"57", RUVLLM_IO},     {"08", RUVLLM_IO},
        {"58", RUVLLM_IO},          {"25006", RUVLLM_IO},        {"28", RUVLLM_IO},     {"42501", RUVLLM_IO},
        {"42", RUVLLM_FORMAT},      {"3F", RUVLLM_FORMAT},       {"XX", RUVLLM_FORMAT}, {"54", RUVLLM_TOO_LARGE},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strncmp(state, rows[i].begins, strlen(rows[i].begins)) == 0)
            return rows[i].status;
    }
    return RUVLLM_INTERNAL;
}

ruvllm_status rv_postgres_db_fail(struct rv_store_db *base, const PGresult *result, const char *doing,
                                  struct ruvllm_error *err)
{
    struct rv_postgres_db *db = rv_postgres_db_of(base);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *why = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    ruvllm_status status = state ? status_of(state) : RUVLLM_IO;

    /* Without an SQLSTATE it was not the server who spoke; libpq does not always mark such a connection as bad. */
    if (!state || PQstatus(db->conn) != CONNECTION_OK || strncmp(state, "57P", 3) == 0 || strncmp(state, "08", 2) == 0)
        db->is_broken = true;
    if (db->is_broken)
        status = RUVLLM_IO;
    if (!why)
        why = db->is_silent ? "nothing, for too long" : PQerrorMessage(db->conn);
    return rv_fail_kind(err, status, status == RUVLLM_NO_MEMORY ? RUVLLM_ERROR_OUT_OF_MEMORY : RUVLLM_ERROR_STORAGE,
                        "cannot %s: the database says: %.*s", doing, (int)strcspn(why, "\n"), why);
}

/* Runs constant SQL; `tag` is how a success is called, NULL: in any way. */
static ruvllm_status run_tagged(struct rv_store_db *base, const char *sql, const char *tag, const char *doing,
                                struct ruvllm_error *err)
{
    PGresult *result = rv_postgres_ask(rv_postgres_db_of(base), sql, NULL);
    ExecStatusType status = PQresultStatus(result);
    ruvllm_status rc = RUVLLM_OK;

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        rc = rv_postgres_db_fail(base, result, doing, err);
    else if (tag && strcmp(PQcmdStatus(result), tag) != 0)
        rc = rv_fail_kind(err, RUVLLM_IO, RUVLLM_ERROR_STORAGE, "cannot %s: the database undid the transaction", doing);
    PQclear(result);
    return rc;
}

static ruvllm_status run(struct rv_store_db *base, const char *sql, const char *doing, struct ruvllm_error *err)
{
    return run_tagged(base, sql, NULL, doing, err);
}

static bool is_lost(const struct rv_store_db *base)
{
    const struct rv_postgres_db *db = (const struct rv_postgres_db *)base;

    return db->is_broken || PQstatus(db->conn) != CONNECTION_OK;
}

/* ---- connecting ---------------------------------------------------------------------------- */

/* What a new connection, also one that replaces a lost one, has to be told. */
static ruvllm_status prepare(struct rv_postgres_db *db, struct ruvllm_error *err)
{
    static const char SETTINGS[] =
        "SET search_path = ruvllm; SET client_min_messages = warning; SET lock_timeout = '5s';"
        "SET statement_timeout = '60s'; SET idle_in_transaction_session_timeout = '60s';"
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";
    const char *encoding = PQparameterStatus(db->conn, "server_encoding");
    ruvllm_status rc;

    if (!encoding || strcmp(encoding, "UTF8") != 0)
        return rv_fail_kind(err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_STORAGE,
                            "the database keeps its texts as %.40s: make one with the encoding UTF8",
                            encoding ? encoding : "nobody knows what");
    /* So that libpq waits for nothing by itself: that is done in one place, and has an end. */
    if (PQsetnonblocking(db->conn, 1))
        return rv_postgres_db_fail(&db->base, NULL, "prepare the connection", err);
    rc = run(&db->base, SETTINGS, "prepare the connection", err);
    if (!rc && db->is_reader)
        rc = run(&db->base, "SET default_transaction_read_only = on", "prepare the connection", err);
    if (!rc && db->is_listening)
        rc = run(&db->base, "LISTEN " RV_SQL_NEWS_CHANNEL, "listen for news", err);
    return rc;
}

/* An attempt that took long, because nobody answers, is not soon made again: somebody waits for each. */
static void put_off(struct rv_postgres_db *db, int64_t began_us)
{
    int64_t now = rv_clock_us(), pause = 10 * (now - began_us);

    db->retry_us = now + (pause > RETRY_US ? pause : RETRY_US);
}

ruvllm_status rv_postgres_db_revive(struct rv_store_db *base, const char *doing, struct ruvllm_error *err)
{
    struct rv_postgres_db *db = rv_postgres_db_of(base);
    int64_t began_us = rv_clock_us();
    ruvllm_status rc;

    if (!is_lost(base))
        return RUVLLM_OK;
    if (db->is_inside || began_us < db->retry_us)
        return rv_fail_kind(err, RUVLLM_IO, RUVLLM_ERROR_STORAGE, "cannot %s: the database is away", doing);
    db->has_missed = true;
    db->is_broken = db->is_silent = false;
    PQreset(db->conn);
    rc = PQstatus(db->conn) == CONNECTION_OK ? prepare(db, err) : rv_postgres_db_fail(base, NULL, doing, err);
    if (rc)
        put_off(db, began_us);
    db->is_broken = rc != RUVLLM_OK; // one that is not prepared must not be used
    return rc;
}

/* What matters comes as a failure; a library does not write to its program's terminal. */
static void ignore_notice(void *user, const char *text)
{
    (void)user;
    (void)text;
}

/* Whether a URL wants to wait for ever, which nobody can: its callers hold locks. */
static bool is_endless(const char *url)
{
    PQconninfoOption *options = PQconninfoParse(url, NULL);
    bool is_so = false;

    for (const PQconninfoOption *o = options; o && o->keyword; o++)
        is_so = is_so || (strcmp(o->keyword, "connect_timeout") == 0 && o->val && strtol(o->val, NULL, 10) <= 0);
    PQconninfoFree(options);
    return is_so;
}

static ruvllm_status connect_to(struct rv_postgres_db *db, const char *url, struct ruvllm_error *err)
{
    /*
     * What comes later wins: the URL may set everything but the encoding. Three seconds are for each address that the
     * URL has, with all that is said until both know each other; who is alive answers within that.
     */
    const char *const names[] = {"connect_timeout",
                                 "application_name",
                                 "keepalives_idle",
                                 "tcp_user_timeout",
                                 "dbname",
                                 "client_encoding",
                                 is_endless(url) ? "connect_timeout" : NULL,
                                 NULL};
    const char *const values[] = {"3", "ruvllm", "10", "10000", url, "UTF8", "3", NULL};

    db->conn = PQconnectdbParams(names, values, 1);
    if (!db->conn)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a connection");
    PQsetNoticeProcessor(db->conn, ignore_notice, NULL);
    return PQstatus(db->conn) == CONNECTION_OK ? prepare(db, err)
                                               : rv_postgres_db_fail(&db->base, NULL, "connect", err);
}

bool rv_postgres_db_is_mended(int version)
{
    static const int first[] = {140021, 150016, 160012, 170008, 180002}; // of each that is still looked after
    const int n = (int)(sizeof(first) / sizeof(first[0]));

    for (int i = 0; i < n; i++) {
        if (version / 10000 == first[i] / 10000)
            return version >= first[i];
    }
    return version > first[n - 1];
}

void rv_postgres_db_warn_of_age(struct rv_store_db *base)
{
    int version = PQserverVersion(rv_postgres_db_of(base)->conn);

    if (!rv_postgres_db_is_mended(version))
        rv_log(RUVLLM_LOG_WARN, "PostgreSQL %d.%d has known holes: update to 14.21, 15.16, 16.12, 17.8, 18.2 or later",
               version / 10000, version % 10000);
}

static void close_db(struct rv_store_db *base)
{
    struct rv_postgres_db *db = rv_postgres_db_of(base);

    PQfinish(db->conn);
    rv_free(db);
}

/* ---- transactions -------------------------------------------------------------------------- */

static ruvllm_status begin(struct rv_store_db *base, struct ruvllm_error *err)
{
    ruvllm_status rc;

    /* A server that was started anew has dropped connections which look alive until they are used. */
    for (int tries = 0; tries < 2; tries++) {
        rc = rv_postgres_db_revive(base, "begin to write", err);
        if (!rc)
            rc = run(base, "BEGIN", "begin to write", err);
        if (!rc || !is_lost(base))
            break;
    }
    rv_postgres_db_of(base)->is_inside = !rc;
    return rc;
}

static ruvllm_status end(struct rv_store_db *base, ruvllm_status rc, struct ruvllm_error *err)
{
    /* A transaction in which something failed is undone by COMMIT too, which then says so by its tag. */
    if (!rc)
        rc = run_tagged(base, "COMMIT", "COMMIT", "write to the disk", err);
    else
        (void)run(base, "ROLLBACK", "undo", NULL); // where that fails the connection is lost, and so is what was done
    rv_postgres_db_of(base)->is_inside = rv_postgres_db_of(base)->is_alone = false;
    return rc;
}

static ruvllm_status begin_alone(struct rv_store_db *base, struct ruvllm_error *err)
{
    static const char ALONE[] = "SET LOCAL lock_timeout = '300s'; SET LOCAL statement_timeout = '300s';"
                                "SELECT pg_advisory_xact_lock(1383429708)";
    _Static_assert(TABLES_LOCK == 1383429708 && RV_POSTGRES_DB_ALONE_SECONDS == 300, "the numbers above are these");
    ruvllm_status rc = begin(base, err);

    if (rc)
        return rc;
    rv_postgres_db_of(base)->is_alone = true;
    rc = run(base, ALONE, "wait for others who change the tables", err);
    return rc ? end(base, rc, err) : RUVLLM_OK;
}

/* ---- whose schema it is -------------------------------------------------------------------- */

static ruvllm_status read_number(struct rv_store_db *db, const char *sql, int64_t *out, struct ruvllm_error *err)
{
    struct rv_sql_statement s;
    bool has_row;
    ruvllm_status rc = rv_sql_statement_begin(&s, db, sql, "read the version of the database", err);

    if (rc)
        return rc;
    rc = rv_sql_statement_step(&s, &has_row, err);
    if (!rc) {
        *out = has_row ? rv_sql_statement_int(&s) : 0;
        rc = has_row ? rv_sql_statement_status(&s, err) : RUVLLM_OK;
    }
    rv_sql_statement_end(&s);
    return rc;
}

static ruvllm_status version_of(struct rv_store_db *db, int64_t *version, struct ruvllm_error *err)
{
    static const char TABLES[] = "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = 'ruvllm'";
    static const char VERSIONS[] =
        "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = 'ruvllm' AND tablename = 'version'";
    int64_t n_tables = 0, n_versions = 0;
    ruvllm_status rc = read_number(db, VERSIONS, &n_versions, err);

    *version = 0;
    if (!rc && n_versions)
        return read_number(db, "SELECT n FROM ruvllm.version", version, err);
    if (!rc)
        rc = read_number(db, TABLES, &n_tables, err);
    if (!rc && n_tables)
        rc = rv_fail_kind(err, RUVLLM_FORMAT, RUVLLM_ERROR_STORAGE,
                          "its schema 'ruvllm' is of another program; give another database");
    return rc;
}

/* ---- what takes more than one process ------------------------------------------------------ */

/* The number of a message, and where it ends; NULL: there is none. */
static const char *read_number_of(const char *text, int64_t *out)
{
    char *end;

    if (*text < '0' || *text > '9')
        return NULL;
    *out = strtoll(text, &end, 10);
    return end;
}

/* A message as RV_SQL_NEWS_CHANNEL has them. One that is not of our making means: look everywhere. */
static void read_message(const char *text, struct rv_store_news *out)
{
    size_t tenant_len = strcspn(text, " "), model_len;
    const char *rest = text[tenant_len] ? read_number_of(text + tenant_len + 1, &out->seq) : NULL;

    *out = (struct rv_store_news){.kind = RV_STORE_NEWS_ANY, .seq = out->seq};
    model_len = rest && *rest == ' ' ? strlen(rest + 1) : RV_STORE_MODEL_MAX + 1;
    if (tenant_len > RV_STORE_TENANT_MAX || model_len > RV_STORE_MODEL_MAX)
        return;
    out->kind = out->seq > 0 ? RV_STORE_NEWS_EVENTS : RV_STORE_NEWS_CHANGE;
    memcpy(out->tenant, text, tenant_len);
    memcpy(out->model, rest + 1, model_len);
}

/* Tells of all that has come already; false: nothing. */
static bool tell_news(struct rv_postgres_db *db, rv_store_news_fn fn, void *user)
{
    bool is_any = false;
    PGnotify *message;

    while ((message = PQnotifies(db->conn)) != NULL) {
        struct rv_store_news news = {0};

        read_message(message->extra, &news);
        PQfreemem(message);
        fn(user, &news);
        is_any = true;
    }
    return is_any;
}

static void rest(int32_t ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&pause, NULL);
}

static ruvllm_status start_listening(struct rv_postgres_db *db, struct ruvllm_error *err)
{
    ruvllm_status rc;

    if (db->is_listening)
        return rv_postgres_db_revive(&db->base, "listen for news", err);
    rc = rv_postgres_db_revive(&db->base, "listen for news", err);
    if (!rc)
        rc = run(&db->base, "LISTEN " RV_SQL_NEWS_CHANNEL, "listen for news", err);
    db->is_listening = db->has_missed = !rc; // who begins to listen has missed all before
    return rc;
}

static ruvllm_status wait_news(struct rv_store_db *base, int32_t ms, rv_store_news_fn fn, void *user,
                               struct ruvllm_error *err)
{
    struct rv_postgres_db *db = rv_postgres_db_of(base);
    int64_t deadline = rv_clock_us() + (int64_t)ms * 1000;
    ruvllm_status rc = start_listening(db, err);

    if (rc) {
        rest(ms < 100 ? ms : 100); // who asks in a loop shall not spin
        return rc;
    }
    if (db->has_missed) {
        db->has_missed = false;
        fn(user, &(struct rv_store_news){.kind = RV_STORE_NEWS_ANY});
        return RUVLLM_OK;
    }
    while (!tell_news(db, fn, user)) {
        struct pollfd socket = {.fd = PQsocket(db->conn), .events = POLLIN};
        int64_t left = deadline - rv_clock_us();

        if (left <= 0)
            return RUVLLM_OK;
        (void)poll(&socket, 1, (int)(left / 1000) + 1); // whatever it says: consuming tells
        if (!PQconsumeInput(db->conn) || is_lost(base))
            return rv_postgres_db_fail(base, NULL, "listen for news", err);
    }
    return RUVLLM_OK;
}

static const struct rv_sql_ops engine = {
    .dialect = RV_SQL_POSTGRES,
    .close = close_db,
    .start = rv_postgres_statement_start,
    .step = rv_postgres_statement_step,
    .stop = rv_postgres_statement_stop,
    .column = rv_postgres_statement_column,
    .run = run,
    .begin = begin,
    .end = end,
    .begin_alone = begin_alone,
    .version = version_of,
    .is_lost = is_lost,
    .wait_news = wait_news,
};

ruvllm_status rv_postgres_db_open(struct rv_store_db **out, const char *url, bool is_reader, struct ruvllm_error *err)
{
    struct rv_postgres_db *db = rv_calloc(1, sizeof(*db));
    ruvllm_status rc;

    *out = NULL;
    if (!db)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a connection");
    db->base.sql = &engine;
    db->is_reader = is_reader;
    rc = connect_to(db, url, err);
    if (rc)
        close_db(&db->base);
    else
        *out = &db->base;
    return rc;
}
