/*
 * Which part of a list of sessions is asked for: `limit` and `after` of a query. What to go on after is a time and an
 * id, not an id alone: a session that is updated between two pages moves to the front, and the next page still begins
 * where the last one ended.
 */
#ifndef RV_SERVER_SESSION_PAGE_H
#define RV_SERVER_SESSION_PAGE_H

#include "server/api/api_error.h"

#include <stdint.h>

enum { RV_SESSION_PAGE_MAX = 1000, RV_SESSION_PAGE_ID = 65, RV_SESSION_PAGE_NEXT = 88 };

struct rv_session_page {
    int32_t limit;
    int64_t before_us; // 0: from the beginning
    char before_id[RV_SESSION_PAGE_ID];
};

/* Reads "limit=100&after=..."; "" is a page of the largest size from the beginning. False with a 400 in *err. */
bool rv_session_page_read(struct rv_session_page *page, const char *query, struct rv_api_error *err);
/* What `after` says to go on behind this session. */
void rv_session_page_next(int64_t updated_us, const char *id, char out[RV_SESSION_PAGE_NEXT]);

#endif
