/* Statements of PostgreSQL; the contracts are those of struct rv_sql_ops. */
#ifndef RV_STORE_POSTGRES_STATEMENT_H
#define RV_STORE_POSTGRES_STATEMENT_H

#include "store/sql_statement.h"

RV_CHECKED ruvllm_status rv_postgres_statement_start(struct rv_sql_statement *s, struct ruvllm_error *err);
RV_CHECKED ruvllm_status rv_postgres_statement_step(struct rv_sql_statement *s, bool *has_row,
                                                    struct ruvllm_error *err);
void rv_postgres_statement_stop(struct rv_sql_statement *s);
bool rv_postgres_statement_column(struct rv_sql_statement *s, int i, struct rv_sql_value *out);

#endif
