/* Which database it is, whatever it is called and wherever it was moved: a word that it was given when it was made. */
#ifndef RV_STORE_SQL_IDENTITY_H
#define RV_STORE_SQL_IDENTITY_H

#include "store/sql_db.h"

enum { RV_SQL_IDENTITY_LEN = 32 };

/* Of hexadecimal digits, so that it may be part of a file's name. */
RV_CHECKED ruvllm_status rv_sql_identity_read(struct rv_store_db *db, char id[RV_SQL_IDENTITY_LEN + 1],
                                              struct ruvllm_error *err);

#endif
