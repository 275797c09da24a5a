/*
 * Following others who share the store. One thread waits for news and marks the tenants they are about, where these are
 * in memory; whoever takes such a tenant next looks at its log (learner_tenant.c). The thread reads no log, takes no
 * tenant's lock and waits for the store on a connection of its own, so one tenant's disk is not another's delay.
 */
#include "learn/learner_follow.h"

#include "base/alloc.h"
#include "base/log.h"
#include "store/store_news.h"

#include <string.h>
#include <time.h>

enum {
    WAIT_MS = 200,   // for news, before it looks whether the end has come
    RETRY_MS = 1000, // between tries to listen
};

struct rv_learner_follower {
    struct rv_learner *learner;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_over; // guarded by lock
};

static void mark(void *user, struct rv_tenant_link *link)
{
    struct rv_learner_tenant *t = (struct rv_learner_tenant *)link;
    const struct rv_store_news *news = user;

    if (news->kind == RV_STORE_NEWS_CHANGE)
        t->is_changed = true;
    else if (news->seq > t->heard_seq) // nobody else raises it
        t->heard_seq = news->seq;
}

static void on_news(void *user, const struct rv_store_news *news)
{
    struct rv_learner *l = user;
    struct rv_store_news copy = *news;

    /* Patterns in memory may be what was to be forgotten. */
    if (news->kind == RV_STORE_NEWS_ANY) {
        rv_reasoning_bank_drop(l->bank, NULL);
        l->n_missed++;
        return;
    }
    if (news->kind == RV_STORE_NEWS_CHANGE)
        rv_reasoning_bank_drop(l->bank, news->tenant);
    if (news->kind == RV_STORE_NEWS_CHANGE || strcmp(news->model, l->model) == 0)
        rv_tenant_table_visit(l->tenants, news->tenant, mark, &copy);
}

/* Waits, unless the end has come; false then. */
static bool rest(struct rv_learner_follower *f, int32_t ms)
{
    struct timespec until;
    bool is_over;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&f->lock);
    if (ms && !f->is_over)
        (void)pthread_cond_timedwait(&f->wake, &f->lock, &until); // waking early does no harm
    is_over = f->is_over;
    pthread_mutex_unlock(&f->lock);
    return !is_over;
}

static void *follow(void *arg)
{
    struct rv_learner_follower *f = arg;
    struct rv_store_news_listener *listener = NULL;
    bool was_told = false;

    while (rest(f, 0)) {
        struct ruvllm_error trouble;
        ruvllm_status rc = listener ? RUVLLM_OK : rv_store_news_open(&listener, f->learner->config.store, &trouble);

        if (!rc)
            rc = rv_store_news_wait(listener, WAIT_MS, on_news, f->learner, &trouble);
        if (rc && !was_told)
            rv_log(RUVLLM_LOG_WARN, "what other replicas learn counts later here: %.200s", trouble.message);
        was_told = rc != RUVLLM_OK;
        if (rc)
            (void)rest(f, RETRY_MS);
    }
    rv_store_news_close(listener);
    return NULL;
}

ruvllm_status rv_learner_follow(struct rv_learner *learner, struct ruvllm_error *err)
{
    struct rv_learner_follower *f;
    pthread_condattr_t monotonic;
    int failed;

    if (!learner->config.store)
        return RUVLLM_OK;
    f = rv_calloc(1, sizeof(*f));
    if (!f)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate who follows others");
    f->learner = learner;
    pthread_mutex_init(&f->lock, NULL); // cannot fail with default attributes, as the rest
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&f->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    learner->follower = f;
    failed = pthread_create(&f->thread, NULL, follow, f);
    if (!failed)
        return RUVLLM_OK;
    learner->follower = NULL;
    pthread_cond_destroy(&f->wake);
    pthread_mutex_destroy(&f->lock);
    rv_free(f);
    return rv_fail_errno(err, failed, "cannot start who follows others");
}

void rv_learner_follow_end(struct rv_learner *learner)
{
    struct rv_learner_follower *f = learner->follower;

    if (!f)
        return;
    pthread_mutex_lock(&f->lock);
    f->is_over = true;
    pthread_cond_signal(&f->wake);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    pthread_cond_destroy(&f->wake);
    pthread_mutex_destroy(&f->lock);
    rv_free(f);
    learner->follower = NULL;
}
