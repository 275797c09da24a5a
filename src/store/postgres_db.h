/*
 * PostgreSQL as an engine: connecting, and connecting again when the server was away; transactions; what its failures
 * mean. Our tables are in the schema "ruvllm" of the database that the URL names.
 */
#ifndef RV_STORE_POSTGRES_DB_H
#define RV_STORE_POSTGRES_DB_H

#include "store/sql_db.h"

#include <libpq-fe.h>

/* How long whoever changes the tables' form may take for a statement, and wait for another who does. */
enum { RV_POSTGRES_DB_ALONE_SECONDS = 300 };

struct rv_postgres_db {
    struct rv_store_db base; // first: what others hold is a pointer to it
    PGconn *conn;
    bool is_reader;
    bool is_broken;    // it failed in a way that only a new connection mends
    bool is_silent;    // it broke because the server said nothing for too long
    bool is_alone;     // nobody else changes the tables' form
    bool is_inside;    // of a transaction: a connection that is lost there is not made again before its end
    bool is_listening; // for news
    bool has_missed;   // news, while the connection was lost
    int64_t retry_us;  // when to try again to reach the server
};

/* Connects and prepares. IO: the server cannot be reached, or refuses us. */
RV_CHECKED ruvllm_status rv_postgres_db_open(struct rv_store_db **out, const char *url, bool is_reader,
                                             struct ruvllm_error *err);

/*
 * Whether a server of this version (as PQserverVersion counts) has what its makers mended up to February 2026:
 * CVE-2026-2005 and CVE-2026-2006 let one who may write run code in it.
 */
bool rv_postgres_db_is_mended(int version);
/* Says so in the log where the server at the other end does not. */
void rv_postgres_db_warn_of_age(struct rv_store_db *db);

/* What of a connection is PostgreSQL's. */
struct rv_postgres_db *rv_postgres_db_of(struct rv_store_db *db);
/* Connects again if the connection was lost, at most once a second and not inside a transaction. */
RV_CHECKED ruvllm_status rv_postgres_db_revive(struct rv_store_db *db, const char *doing, struct ruvllm_error *err);
/* Reports a failure; `result`, which may be NULL, is what the server said. */
ruvllm_status rv_postgres_db_fail(struct rv_store_db *db, const PGresult *result, const char *doing,
                                  struct ruvllm_error *err);

#endif
