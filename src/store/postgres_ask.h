/*
 * Asking the server, with an end to every wait: one that is frozen, or behind a network that swallows what is sent, is
 * as good as one that is gone. All that is ever said to a server after the connection is made goes through here.
 */
#ifndef RV_STORE_POSTGRES_ASK_H
#define RV_STORE_POSTGRES_ASK_H

#include "store/postgres_db.h"

/* Values of a statement as libpq takes them; borrowed for the call. */
struct rv_postgres_values {
    int n;
    const Oid *types;
    const char *const *data;
    const int *lens;
    const int *formats;
};

/*
 * Runs SQL and waits for all of the answer, of which the last part is the caller's to clear. With values it is one
 * statement whose rows come in binary; NULL: one or several that take none. What is returned is NULL, or the failure of
 * one of them, when it did not go well: rv_postgres_db_fail tells why. Where the server kept silent for too long the
 * connection is closed, and counts as lost.
 */
PGresult *rv_postgres_ask(struct rv_postgres_db *db, const char *sql, const struct rv_postgres_values *values);

#endif
