/*
 * The form of the tables, as a list of steps that can be gone both ways. A database says which step it stands on;
 * 0 is an empty one. Each engine has its own texts of the same steps.
 */
#ifndef RV_STORE_MIGRATION_H
#define RV_STORE_MIGRATION_H

#include "store/sql_db.h"

/* The newest version this library knows. */
int32_t rv_migration_newest(void);
/*
 * What the database says of itself. Reads only. FORMAT: it is a database, but not a store. UNSUPPORTED: a newer version
 * of this program wrote it.
 */
RV_CHECKED ruvllm_status rv_migration_version(struct rv_store_db *db, int32_t *version, struct ruvllm_error *err);
/*
 * Goes up or down to `target`, one transaction a step: a failure leaves the last version that was reached. Several
 * processes may do so at once. Going down loses what the older form has no place for.
 */
RV_CHECKED ruvllm_status rv_migration_run(struct rv_store_db *db, int32_t target, struct ruvllm_error *err);

#endif
