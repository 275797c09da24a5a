#include "server/http/http_server.h"

struct rv_http_config rv_http_config_default(void)
{
    return (struct rv_http_config){.max_header = 16 << 10,
                                   .max_body = 8 << 20,
                                   .max_buffered = 256 << 10,
                                   .max_connections = 20000,
                                   .header_ms = 10000,
                                   .body_ms = 30000,
                                   .stall_ms = 30000,
                                   .idle_ms = 75000,
                                   .ping_ms = 15000};
}
