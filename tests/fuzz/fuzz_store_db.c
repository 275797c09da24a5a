/*
 * Any bytes as the file of a store. It opens or is refused with a sentence; what opens answers every question, or says
 * why it cannot, and takes what is written to it, or says why not; what it said it took is there when asked again.
 */
#include "base/alloc.h"
#include "fuzz_target.h"
#include "ruvllm_store.h"
#include "store/store_checkpoints.h"
#include "store/store_events.h"
#include "store/store_generations.h"
#include "store/store_learner.h"
#include "store/store_patterns.h"
#include "store/store_policies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void promise(bool kept)
{
    if (!kept)
        abort();
}

/* A failure is one of what a file can be the reason of, and has a sentence. */
static bool went_well(ruvllm_status rc, struct ruvllm_error *err)
{
    bool is_well = rc == RUVLLM_OK;

    if (!is_well)
        promise(err->message[0] != '\0' && rc != RUVLLM_INTERNAL && rc != RUVLLM_NO_MEMORY);
    memset(err, 0, sizeof(*err));
    return is_well;
}

/* In memory where there is such a place: the disk is not what is tried here. */
static const char *path_of_store(void)
{
    static char path[64];

    if (!path[0])
        (void)snprintf(path, sizeof(path), "%s/ruvllm-fuzz-%d.db", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
                       (int)getpid());
    return path;
}

static void remove_store(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char name[80];

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        (void)snprintf(name, sizeof(name), "%s%s", path_of_store(), ends[i]);
        (void)unlink(name);
    }
}

static void write_store(const uint8_t *data, size_t size)
{
    FILE *file;

    remove_store();
    file = fopen(path_of_store(), "wb");
    promise(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    promise(chmod(path_of_store(), 0600) == 0);
}

/* ---- questions ------------------------------------------------------------------------------ */

static size_t n_rows;

static bool on_key(void *user, const struct ruvllm_key_info *key)
{
    (void)user;
    promise(strlen(key->tenant) <= 64 && strlen(key->name) <= 128 && key->requests_per_minute >= 0);
    return ++n_rows < 1000;
}

static bool on_session(void *user, const struct ruvllm_session *session)
{
    (void)user;
    promise(strlen(session->id) <= 64 && strlen(session->title) <= 256);
    return ++n_rows < 1000;
}

static bool on_witness(void *user, const struct ruvllm_witness *entry)
{
    (void)user;
    promise(strlen(entry->tenant) <= 64 && strlen(entry->model) <= 128);
    return ++n_rows < 1000;
}

static bool on_event(void *user, const struct rv_store_event *e)
{
    (void)user;
    promise(e->prompt.len <= RV_STORE_EVENT_BYTES_MAX && e->kind >= RV_STORE_EVENT_VOTE &&
            e->kind <= RV_STORE_EVENT_DEEP && strlen(e->tenant) <= RV_STORE_TENANT_MAX);
    return ++n_rows < 1000;
}

static bool on_pattern(void *user, const struct rv_store_pattern *p)
{
    (void)user;
    promise(p->embedding.len <= RV_STORE_EMBEDDING_MAX);
    return ++n_rows < 1000;
}

static bool on_policy(void *user, const struct rv_store_policy *p)
{
    (void)user;
    promise(strlen(p->name) <= RV_STORE_POLICY_MAX);
    return ++n_rows < 1000;
}

static void ask_server(ruvllm_store *store)
{
    struct ruvllm_error err = {0};
    struct ruvllm_session *session = NULL;
    ruvllm_key_verdict verdict;
    uint64_t n;
    char key[RUVLLM_KEY_SIZE];

    memset(key, 'A', sizeof(key));
    memcpy(key, "rv-", 3);
    (void)went_well(ruvllm_keys_list(store, NULL, on_key, NULL, &err), &err);
    (void)went_well(ruvllm_keys_count(store, &n, &err), &err);
    (void)went_well(ruvllm_keys_check(store, key, sizeof(key) - 1, &verdict, NULL, &err), &err);
    (void)went_well(ruvllm_sessions_list(store, "acme", 0, NULL, 100, on_session, NULL, &err), &err);
    if (ruvllm_sessions_get(store, "acme", "s", &session, &err) == RUVLLM_OK)
        promise(session != NULL);
    ruvllm_free(session);
    (void)went_well(ruvllm_witness_query(store, NULL, on_witness, NULL, &err), &err);
}

static void ask_generations(ruvllm_store *store)
{
    static struct rv_store_generation rows[8];
    struct ruvllm_error err = {0};
    void *content;
    bool found;
    size_t n = 0;

    if (went_well(rv_store_generations_active(store, "acme", "m", rows, &found, &err), &err) && found &&
        rows[0].n_bytes < 1 << 20 && went_well(rv_store_generations_content(store, rows, &content, &err), &err))
        rv_free(content);
    if (went_well(rv_store_generations_list(store, "acme", "m", 0, rows, 8, &n, &err), &err))
        promise(n <= 8);
}

static void ask_learning(ruvllm_store *store)
{
    static struct rv_store_learner learner;
    struct ruvllm_error err = {0};
    int64_t seq;
    size_t len;
    void *bytes;

    (void)went_well(rv_store_events_replay(store, "acme", 0, on_event, NULL, &err), &err);
    (void)went_well(rv_store_events_about(store, "acme", "r", &seq, &err), &err);
    if (went_well(rv_store_learner_get(store, "acme", "m", &learner, &err), &err))
        promise(learner.extra_len <= RV_STORE_EXTRA_MAX);
    (void)went_well(rv_store_patterns_list(store, "acme", "m", 0, on_pattern, NULL, &err), &err);
    (void)went_well(rv_store_policies_list(store, "acme", on_policy, NULL, &err), &err);
    if (went_well(rv_store_checkpoints_get(store, "acme", "m", &seq, &bytes, &len, &err), &err))
        promise(len <= RV_STORE_CHECKPOINT_MAX);
    rv_free(bytes);
}

/* ---- what is written ------------------------------------------------------------------------ */

static void write_and_look(ruvllm_store *store)
{
    struct rv_store_event e = {.tenant = "acme", .kind = RV_STORE_EVENT_VOTE, .score = 1};
    struct ruvllm_key_params params = ruvllm_key_params_default();
    struct ruvllm_error err = {0};
    char key[RUVLLM_KEY_SIZE];
    ruvllm_key_verdict verdict;

    params.tenant = "acme";
    if (went_well(ruvllm_keys_create(store, &params, key, NULL, &err), &err) &&
        went_well(ruvllm_keys_check(store, key, sizeof(key) - 1, &verdict, NULL, &err), &err))
        promise(verdict == RUVLLM_KEY_VALID || verdict == RUVLLM_KEY_UNKNOWN); // an index may lie
    if (went_well(rv_store_events_append(store, &e, 1, &err), &err))
        promise(e.fate == RV_STORE_EVENT_ADDED || e.fate == RV_STORE_EVENT_KNOWN);
    (void)went_well(rv_store_checkpoints_put(store, "acme", "m", 1, 0, "x", 1, &err), &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ruvllm_store_params params = ruvllm_store_params_default();
    struct ruvllm_error err = {0};
    ruvllm_store *store;

    params.busy_timeout_ms = 0;
    n_rows = 0;
    write_store(data, size);
    for (int round = 0; round < 2; round++) {
        if (!went_well(ruvllm_store_open(&store, path_of_store(), &params, &err), &err)) {
            promise(store == NULL);
            break;
        }
        ask_server(store);
        ask_generations(store);
        ask_learning(store);
        if (round == 0)
            write_and_look(store);
        ruvllm_store_close(store);
    }
    remove_store();
    return 0;
}
