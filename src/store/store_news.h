/*
 * News of generations from whoever shares the store: other processes, and with PostgreSQL other machines. A listener
 * has a connection of its own and belongs to one thread.
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
 * Waits up to `ms` for a generation that was added or made active, here or elsewhere. The first call says ANY, as does
 * one after the connection was lost: look at everything you have. SQLite knows that something changed, not what, and
 * says ANY each time. A failure leaves the listener usable: it connects again by itself.
 */
RV_CHECKED ruvllm_status rv_store_news_wait(struct rv_store_news_listener *listener, int32_t ms,
                                            struct rv_store_news *out, struct ruvllm_error *err);

#endif
