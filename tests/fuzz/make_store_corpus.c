/*
 * Writes the corpus of fuzz_store_db: small stores, whose pages have 512 bytes. Run it by hand when the tables change,
 * and commit what it writes:
 *
 *     build/release/tests/fuzz/make_store_corpus tests/fuzz/corpus/store_db
 */
#include "ruvllm_store.h"
#include "store/store_checkpoints.h"
#include "store/store_events.h"
#include "store/store_generations.h"
#include "store/store_learner.h"
#include "store/store_patterns.h"
#include "store/store_policies.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "cannot write '%s'\n", what);
    exit(1);
}

static void run(const char *path, const char *sql)
{
    sqlite3 *db;

    must(sqlite3_open(path, &db) == SQLITE_OK && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, sql);
    sqlite3_close(db);
}

/* An empty file whose pages will be small. */
static void make_small(const char *path)
{
    (void)unlink(path);
    run(path, "PRAGMA page_size=512; VACUUM");
}

static void fill_learning(ruvllm_store *store, const char *path)
{
    struct rv_store_event e = {.tenant = "acme",
                               .model = "m",
                               .response_id = "r",
                               .kind = RV_STORE_EVENT_CORRECTION,
                               .score = 0.25,
                               .prompt = {.data = "ask", .len = 3},
                               .correction = {.data = "answer", .len = 6},
                               .delta = {.data = "\1\2\3", .len = 3}};
    struct rv_store_generation gen = {.kind = RV_STORE_GENERATION_DEEP, .is_active = true, .applied_seq = 1};
    struct rv_store_pattern p = {.tenant = "acme", .model = "m", .text = {.data = "p", .len = 1}};
    static struct rv_store_learner learner;

    (void)snprintf(gen.tenant, sizeof(gen.tenant), "acme");
    (void)snprintf(gen.model, sizeof(gen.model), "m");
    must(!rv_store_events_append(store, &e, 1, NULL), path);
    must(!rv_store_generations_add(store, &gen, "content", 7, NULL), path);
    must(!rv_store_patterns_add(store, &p, NULL), path);
    must(!rv_store_policies_put(store, "acme", "a.kv", "q8", 2, NULL), path);
    must(!rv_store_learner_get(store, "acme", "m", &learner, NULL), path);
    learner.n_votes = 1;
    must(!rv_store_learner_put(store, &learner, NULL), path);
    must(!rv_store_checkpoints_put(store, "acme", "m", 1, 0, "checkpoint", 10, NULL), path);
}

static void fill(ruvllm_store *store, const char *path)
{
    struct ruvllm_session session = {
        .struct_size = sizeof(session), .tenant = "acme", .id = "s", .messages = "[]", .messages_len = 2};
    struct ruvllm_witness entry = {.struct_size = sizeof(entry), .tenant = "acme", .model = "m", .time_us = 1};
    struct ruvllm_key_params params = ruvllm_key_params_default();
    char key[RUVLLM_KEY_SIZE];

    params.tenant = "acme";
    must(!ruvllm_keys_create(store, &params, key, NULL, NULL), path);
    must(!ruvllm_sessions_put(store, &session, NULL), path);
    must(!ruvllm_witness_append(store, &entry, NULL) && !ruvllm_witness_flush(store, NULL), path);
    fill_learning(store, path);
}

static void save(const char *folder, const char *name, bool is_full, const char *then)
{
    ruvllm_store *store;
    char path[1024];

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    make_small(path);
    must(!ruvllm_store_open(&store, path, NULL, NULL), path);
    if (is_full)
        fill(store, path);
    ruvllm_store_close(store);
    if (then)
        run(path, then);
    run(path, "PRAGMA journal_mode=DELETE"); // all of it in one file
}

int main(int argc, char **argv)
{
    char path[1024];
    FILE *file;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    save(argv[1], "empty", false, NULL);
    save(argv[1], "full", true, NULL);
    save(argv[1], "newer", false, "PRAGMA user_version=99");
    save(argv[1], "older", false, "DROP TABLE checkpoint; PRAGMA user_version=6");
    save(argv[1], "foreign", false, "PRAGMA application_id=7");
    save(argv[1], "no_table", true, "DROP TABLE event");
    save(argv[1], "trigger", true, "CREATE TRIGGER t AFTER INSERT ON api_key BEGIN DELETE FROM event; END");
    (void)snprintf(path, sizeof(path), "%s/no_database", argv[1]);
    file = fopen(path, "wb");
    must(file && fputs("no database", file) >= 0 && fclose(file) == 0, path);
    return 0;
}
