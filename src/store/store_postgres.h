/* PostgreSQL as a store. */
#ifndef RV_STORE_STORE_POSTGRES_H
#define RV_STORE_STORE_POSTGRES_H

#include "store/store_backend.h"

/* Two names of the same: "postgres://" and "postgresql://" are both in use. */
extern const struct rv_store_backend rv_store_postgres;
extern const struct rv_store_backend rv_store_postgresql;

#endif
