/* A kind of database that can be a store: a line in store.c's list. */
#ifndef RV_STORE_STORE_BACKEND_H
#define RV_STORE_STORE_BACKEND_H

#include "store/store_rows.h"

/* What connections are for; a backend may prepare them differently. */
enum rv_store_role {
    RV_STORE_ROLE_FIRST, // makes what is missing, checks the version, migrates; then reads and writes
    RV_STORE_ROLE_READER,
    RV_STORE_ROLE_WRITER,
    RV_STORE_ROLE_EVENTS // writes the event log: much, and all the time
};

struct rv_store_backend {
    const char *scheme; // of the URL: "sqlite"
    bool takes_url;     // the location is the whole URL
    bool has_spool;     // it may be away: then events wait on this machine's disk
    ruvllm_status (*open)(struct rv_store_db **out, const char *location, enum rv_store_role role,
                          const struct ruvllm_store_params *params, struct ruvllm_error *err);
};

#endif
