/*
 * Every path there is, with who may ask for it and who answers. What is not in the table does not exist; a row that
 * says nothing about access needs a key.
 *
 * A '*' in a pattern stands for one segment, "**" at its end for all the rest; what it stood for is the route's
 * argument. HEAD is answered as GET.
 */
#ifndef RV_SERVER_ROUTE_TABLE_H
#define RV_SERVER_ROUTE_TABLE_H

#include "server/auth.h"
#include "server/http/http_server.h"

struct rv_call;

enum { RV_ROUTE_ARG = 257 };

struct rv_route {
    enum rv_http_method method;
    const char *pattern;
    enum rv_auth_access access;
    /* On the I/O thread, at once; for what needs neither body nor store. NULL: `work`. */
    void (*answer)(struct rv_call *call);
    /* On a worker; see call.h. */
    bool (*work)(struct rv_call *call);
    bool is_slow; // may take seconds: on workers of its own
    bool is_vote; // waits for the disk: likewise
};

enum rv_route_found {
    RV_ROUTE_FOUND,
    RV_ROUTE_OTHER_METHOD, // the path exists
    RV_ROUTE_NONE
};

size_t rv_route_table_count(void);
const struct rv_route *rv_route_table_at(size_t i_route);
size_t rv_route_table_index(const struct rv_route *route);
/*
 * The route of a request. FOUND fills *route and `arg` ("" where the pattern has no '*'); OTHER_METHOD fills `arg` with
 * the methods the path takes: "GET, HEAD".
 */
enum rv_route_found rv_route_table_find(enum rv_http_method method, const char *path, const struct rv_route **route,
                                        char arg[RV_ROUTE_ARG]);
const char *rv_route_method_name(enum rv_http_method method);

#endif
