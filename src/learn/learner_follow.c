/*
 * Following others who share the store. One thread waits for news, on a connection of its own, marks the tenants they
 * are about, where these are in memory, and brings them up to the end of their logs. Answers meanwhile have what they
 * had: they do not wait for it. What it could not read, because the store is away, is read by the tenant's next
 * feedback, or by the thread when it hears again.
 */
#include "learn/learner_follow.h"

#include "base/alloc.h"
#include "base/log.h"
#include "store/store_news.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    WAIT_MS = 200,   // for news, before it looks whether the end has come
    RETRY_MS = 1000, // between tries to listen, or to read
    MAX_NAMES = 64   // of tenants at a time; where there are more, all in memory are looked at
};

struct rv_learner_follower {
    struct rv_learner *learner;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_over; // guarded by lock

    /* The thread's own. */
    char names[MAX_NAMES][RV_STORE_TENANT_MAX + 1]; // who is to be brought up to date
    size_t n_names;
    bool is_round_due; // everybody in memory is
};

/* ---- hearing -------------------------------------------------------------------------------- */

struct hint {
    const struct rv_store_news *news;
    bool is_new; // in memory, and not by this learner's own doing
};

static void mark(void *user, struct rv_tenant_link *link)
{
    struct rv_learner_tenant *t = (struct rv_learner_tenant *)link;
    struct hint *hint = user;

    if (hint->news->kind == RV_STORE_NEWS_CHANGE) {
        t->is_changed = true;
        hint->is_new = true;
    } else if (hint->news->seq > t->known_seq) {
        hint->is_new = true;
        if (hint->news->seq > t->heard_seq) // nobody else raises it
            t->heard_seq = hint->news->seq;
    }
}

static void note(struct rv_learner_follower *f, const char *name)
{
    for (size_t i = 0; i < f->n_names; i++) {
        if (strcmp(f->names[i], name) == 0)
            return;
    }
    if (f->n_names < MAX_NAMES)
        snprintf(f->names[f->n_names++], sizeof(f->names[0]), "%s", name);
    else
        f->is_round_due = true;
}

/* Patterns in memory may be what was to be forgotten: they are dropped, last, because that may take its time. */
static void on_news(void *user, const struct rv_store_news *news)
{
    struct rv_learner_follower *f = user;
    struct rv_learner *l = f->learner;
    struct hint hint = {.news = news};

    if (news->kind == RV_STORE_NEWS_ANY) {
        l->n_missed++;
        f->is_round_due = true;
        rv_reasoning_bank_drop(l->bank, NULL);
        return;
    }
    if (news->kind == RV_STORE_NEWS_CHANGE || strcmp(news->model, l->model) == 0)
        rv_tenant_table_visit(l->tenants, news->tenant, mark, &hint);
    if (hint.is_new)
        note(f, news->tenant);
    if (news->kind == RV_STORE_NEWS_CHANGE)
        rv_reasoning_bank_drop(l->bank, news->tenant);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Of one that was let go meanwhile nothing is read. False: the store did not say. */
static bool catch_up(struct rv_learner *l, const char *name)
{
    struct rv_learner_tenant *t;
    struct ruvllm_error trouble;
    ruvllm_status rc = rv_learner_tenant_take(l, name, &t, &trouble);
    bool is_done;

    if (rc)
        return false;
    if (t->is_read || t->is_outrun)
        rc = rv_learner_tenant_read(l, t, &trouble);
    is_done = !rc && (!t->is_changed || !t->is_read);
    rv_learner_tenant_leave(l, t);
    return is_done;
}

static bool rest(struct rv_learner_follower *f, int32_t ms);

/* Everybody in memory; false when it is to be done again. */
static bool go_round(struct rv_learner_follower *f)
{
    size_t n;
    char **names = rv_learner_tenant_names(f->learner, &n); // who is left out is asked with its feedback
    bool is_done = names != NULL;

    for (size_t i = 0; i < n; i++) {
        if (is_done && names[i])
            is_done = rest(f, 0) && catch_up(f->learner, names[i]);
        rv_free(names[i]);
    }
    rv_free(names);
    return is_done;
}

static void catch_up_all(struct rv_learner_follower *f)
{
    for (size_t i = 0; i < f->n_names; i++) {
        if (rest(f, 0) && !f->is_round_due && !catch_up(f->learner, f->names[i]))
            f->is_round_due = true;
    }
    f->n_names = 0;
    if (f->is_round_due)
        f->is_round_due = !go_round(f);
}

/* ---- life ----------------------------------------------------------------------------------- */

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
            rc = rv_store_news_wait(listener, WAIT_MS, on_news, f, &trouble);
        if (rc && !was_told)
            rv_log(RUVLLM_LOG_WARN, "what other replicas learn counts later here: %.200s", trouble.message);
        was_told = rc != RUVLLM_OK;
        if (!rc)
            catch_up_all(f);
        if (rc || f->is_round_due)
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
