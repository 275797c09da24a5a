/*
 * News of learning from whoever shares the store, this handle too: other processes, and with PostgreSQL other machines.
 * A listener has a connection of its own and belongs to one thread.
 */
#ifndef RV_STORE_STORE_NEWS_H
#define RV_STORE_STORE_NEWS_H

#include "store/store.h"

struct rv_store_news_listener;

/* The store must stay open as long as the listener. */
RV_CHECKED ruvllm_status rv_store_news_open(struct rv_store_news_listener **out, struct ruvllm_store *store,
                                            struct ruvllm_error *err);
/* Accepts NULL. */
void rv_store_news_close(struct rv_store_news_listener *listener);
/*
 * Waits up to `ms` until events were added to a log, something was forgotten, or learning was paused or resumed, and
 * tells `fn` of all that has come by then. Events are told of after they were committed, one of them standing for those
 * before it. The first call says ANY, as does one after the connection was lost: look at everything you have. SQLite
 * says ANY also for what is no event, because it knows no more. A failure leaves the listener usable: it connects again
 * by itself.
 */
RV_CHECKED ruvllm_status rv_store_news_wait(struct rv_store_news_listener *listener, int32_t ms, rv_store_news_fn fn,
                                            void *user, struct ruvllm_error *err);

#endif
