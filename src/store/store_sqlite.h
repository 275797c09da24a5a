/* SQLite as a store. */
#ifndef RV_STORE_STORE_SQLITE_H
#define RV_STORE_STORE_SQLITE_H

#include "store/store_backend.h"

extern const struct rv_store_backend rv_store_sqlite;

#endif
