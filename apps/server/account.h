/* The books: every call that is over is counted, logged and witnessed, once. */
#ifndef RV_SERVER_ACCOUNT_H
#define RV_SERVER_ACCOUNT_H

#include "server/call.h"

/* On the I/O thread, when the call is over and all of it is the caller's. */
void rv_account_call(struct rv_call *call);

#endif
