/* Prints the route table that is linked into the server, a route a line: method, pattern and who may ask. */
#include "server/route_table.h"

#include <stdio.h>

int main(void)
{
    static const char *const access[] = {[RV_AUTH_KEY] = "key", [RV_AUTH_ADMIN] = "admin", [RV_AUTH_OPEN] = "open"};

    for (size_t i = 0; i < rv_route_table_count(); i++) {
        const struct rv_route *route = rv_route_table_at(i);

        printf("%s %s %s\n", rv_route_method_name(route->method), route->pattern, access[route->access]);
    }
    return 0;
}
