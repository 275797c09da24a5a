/* SQLite as a store. */
#ifndef RV_STORE_STORE_SQLITE_H
#define RV_STORE_STORE_SQLITE_H

#include "store/store_ops.h"

extern const struct rv_store_ops rv_store_sqlite_ops;

#endif
