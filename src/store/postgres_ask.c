/*
 * The measure is silence: a wait ends when no byte went either way for so long. An answer that takes its time to come
 * over the network has all the time it needs as long as it comes.
 */
#include "store/postgres_ask.h"

#include "base/clock.h"

#include <poll.h>
#include <sys/socket.h>

/*
 * Silence that ends a connection. Nearly everything we ask for is found by an index or is a page of rows, so ten
 * seconds without a word mean that nobody is there (a search of the witness log that finds nothing in millions is lost
 * by it); and a server that only waits for somebody's lock says so before (lock_timeout). Who changes the tables' form
 * may have to go over all of their rows.
 */
static const int64_t SILENCE_US = (int64_t)10 * 1000000;
static const int64_t SILENCE_ALONE_US = (int64_t)RV_POSTGRES_DB_ALONE_SECONDS * 1100000;

/*
 * How long to sleep at most before libpq looks for itself. It may hold bytes back in its layer of encryption, of which
 * the socket knows nothing.
 */
enum { LOOK_MS = 1000 };

static int64_t patience(const struct rv_postgres_db *db)
{
    return db->is_alone ? SILENCE_ALONE_US : SILENCE_US;
}

/* The server learns of it when it wakes; what it has been sent until now it may still do. */
static void give_up(struct rv_postgres_db *db)
{
    db->is_silent = db->is_broken = true;
    (void)shutdown(PQsocket(db->conn), SHUT_RDWR);
}

/* Lets bytes pass, either way, as soon as there are some. False: none came in time, or the connection broke. */
static bool exchange(struct rv_postgres_db *db, bool is_sending, int64_t *until_us)
{
    struct pollfd socket = {.fd = PQsocket(db->conn), .events = (short)(is_sending ? POLLIN | POLLOUT : POLLIN)};

    if (poll(&socket, 1, LOOK_MS) > 0) {
        *until_us = rv_clock_us() + patience(db);
    } else if (rv_clock_us() >= *until_us) {
        give_up(db);
        return false;
    }
    return PQconsumeInput(db->conn) != 0;
}

static bool send_rest(struct rv_postgres_db *db, int64_t *until_us)
{
    int left;

    while ((left = PQflush(db->conn)) > 0) {
        if (!exchange(db, true, until_us))
            return false;
    }
    return left == 0;
}

static bool wait_for_result(struct rv_postgres_db *db, int64_t *until_us)
{
    while (PQisBusy(db->conn)) {
        if (!exchange(db, false, until_us))
            return false;
    }
    return true;
}

PGresult *rv_postgres_ask(struct rv_postgres_db *db, const char *sql, const struct rv_postgres_values *values)
{
    const struct rv_postgres_values *v = values;
    int64_t until_us = rv_clock_us() + patience(db);
    PGresult *last = NULL, *next;
    int is_sent = v ? PQsendQueryParams(db->conn, sql, v->n, v->types, v->data, v->lens, v->formats, 1)
                    : PQsendQuery(db->conn, sql);

    if (!is_sent || !send_rest(db, &until_us))
        return NULL;
    while (wait_for_result(db, &until_us) && (next = PQgetResult(db->conn)) != NULL) {
        PQclear(last);
        last = next;
    }
    if (db->is_silent) { // a part of an answer is none
        PQclear(last);
        last = NULL;
    }
    return last;
}
