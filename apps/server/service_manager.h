/*
 * What a service manager (systemd) hands to us and wants to hear: sockets it opened, "ready", "stopping", and a sign of
 * life. Without one every function does nothing.
 */
#ifndef RV_SERVER_SERVICE_MANAGER_H
#define RV_SERVER_SERVICE_MANAGER_H

#include "base/error.h"

enum { RV_SERVICE_MANAGER_MAX_SOCKETS = 16 };

/* Sockets we were started with; returns how many. More than there is room for is INVALID. */
RV_CHECKED ruvllm_status rv_service_manager_sockets(int fds[RV_SERVICE_MANAGER_MAX_SOCKETS], size_t *n,
                                                    struct ruvllm_error *err);
/* Tells the manager "READY=1", "STOPPING=1", "WATCHDOG=1" or what else it knows. Never blocks. */
void rv_service_manager_notify(const char *state);
/* How often it wants to hear WATCHDOG=1, halved so that one may come late; 0: never. */
int32_t rv_service_manager_watchdog_ms(void);

#endif
