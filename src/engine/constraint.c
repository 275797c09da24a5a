/* A short list by last use under a lock. Compiling happens outside of it: two that compile the same at once both do. */
#include "engine/constraint.h"

#include "base/alloc.h"

#include <pthread.h>
#include <string.h>

enum { N_KEPT = 16 };

struct kept {
    struct rv_grammar_source source; // its text is ours
    struct rv_grammar *grammar;      // NULL: free
    uint64_t used;
};

struct rv_constraint_shelf {
    const struct rv_vocab *vocab;
    const struct rv_tool_style *style;
    pthread_mutex_t lock;
    struct rv_token_trie *trie; // guarded by lock until it is there, then only read
    struct kept kept[N_KEPT];   // guarded by lock, as is the clock
    uint64_t clock;
};

ruvllm_status rv_constraint_shelf_new(struct rv_constraint_shelf **out, const struct rv_vocab *vocab,
                                      const struct rv_tool_style *tools, struct ruvllm_error *err)
{
    struct rv_constraint_shelf *shelf = rv_calloc(1, sizeof(*shelf));

    *out = shelf;
    if (!shelf)
        return rv_fail(err, RUVLLM_NO_MEMORY, "cannot allocate a shelf of grammars");
    shelf->vocab = vocab;
    shelf->style = tools;
    pthread_mutex_init(&shelf->lock, NULL);
    return RUVLLM_OK;
}

static void drop(struct kept *kept)
{
    rv_grammar_unref(kept->grammar);
    rv_free((void *)(uintptr_t)kept->source.text);
    rv_free((void *)(uintptr_t)kept->source.tools.only);
    *kept = (struct kept){0};
}

void rv_constraint_shelf_free(struct rv_constraint_shelf *shelf)
{
    if (!shelf)
        return;
    for (size_t i = 0; i < N_KEPT; i++)
        drop(&shelf->kept[i]);
    rv_token_trie_free(shelf->trie);
    pthread_mutex_destroy(&shelf->lock);
    rv_free(shelf);
}

static bool is_same(const struct rv_grammar_source *a, const struct rv_grammar_source *b)
{
    return a->kind == b->kind && a->thought == b->thought && a->len == b->len &&
           (a->len == 0 || memcmp(a->text, b->text, a->len) == 0) && a->tools.must_call == b->tools.must_call &&
           a->tools.is_single == b->tools.is_single && !a->tools.only == !b->tools.only &&
           (!a->tools.only || strcmp(a->tools.only, b->tools.only) == 0);
}

/* With the lock held. */
static struct rv_grammar *look_up(struct rv_constraint_shelf *shelf, const struct rv_grammar_source *source)
{
    for (size_t i = 0; i < N_KEPT; i++)
        if (shelf->kept[i].grammar && is_same(&shelf->kept[i].source, source)) {
            shelf->kept[i].used = ++shelf->clock;
            return rv_grammar_ref(shelf->kept[i].grammar);
        }
    return NULL;
}

/* Likewise. Without memory for the copy it is not kept, which changes nothing but the next one's time. */
static void keep(struct rv_constraint_shelf *shelf, const struct rv_grammar_source *source, struct rv_grammar *grammar)
{
    struct kept *oldest = &shelf->kept[0];
    char *text = rv_strndup(source->text ? source->text : "", source->len);
    char *only = source->tools.only ? rv_strdup(source->tools.only) : NULL;

    for (size_t i = 1; i < N_KEPT; i++)
        if (shelf->kept[i].used < oldest->used)
            oldest = &shelf->kept[i];
    if (!text || (source->tools.only && !only)) {
        rv_free(text);
        rv_free(only);
        return;
    }
    drop(oldest);
    *oldest = (struct kept){.source = *source, .grammar = rv_grammar_ref(grammar), .used = ++shelf->clock};
    oldest->source.text = text;
    oldest->source.tools.only = only;
}

static ruvllm_status read_params(const struct ruvllm_generate_params *p, struct rv_grammar_source *source,
                                 const char **name, struct ruvllm_error *err)
{
    const struct {
        const char *name, *text;
        enum rv_grammar_kind kind;
    } wishes[] = {{"grammar", p->grammar, RV_GRAMMAR_GBNF},
                  {"regex", p->regex, RV_GRAMMAR_REGEX},
                  {"json_schema", p->json_schema, RV_GRAMMAR_JSON_SCHEMA},
                  {"json_object", p->json_object ? "" : NULL, RV_GRAMMAR_JSON_OBJECT},
                  {"tools", p->tools, RV_GRAMMAR_TOOLS}};
    int n = 0;

    *source = (struct rv_grammar_source){.thought = RV_GRAMMAR_NO_THOUGHT};
    if (p->thought == RUVLLM_THOUGHT_ALLOWED)
        source->thought = RV_GRAMMAR_MAY_THINK;
    else if (p->thought == RUVLLM_THOUGHT_OPEN)
        source->thought = RV_GRAMMAR_THINKS;
    *name = NULL;
    for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++) {
        if (!wishes[i].text)
            continue;
        if (n++ > 0)
            return rv_fail(err, RUVLLM_INVALID, "'%s' and '%s' are both given; give one", *name, wishes[i].name);
        *name = wishes[i].name;
        source->kind = wishes[i].kind;
        source->text = wishes[i].text;
        source->len = strnlen(wishes[i].text, RV_SYNTAX_MAX_BYTES + 1);
    }
    return RUVLLM_OK;
}

ruvllm_status rv_constraint_find(struct rv_constraint_shelf *shelf, const struct ruvllm_generate_params *params,
                                 struct rv_grammar **out, struct ruvllm_error *err)
{
    struct rv_grammar_source source;
    const char *name;
    ruvllm_status rc = read_params(params, &source, &name, err);

    *out = NULL;
    if (rc || !name)
        return rc;
    if (source.kind == RV_GRAMMAR_TOOLS) {
        if (!shelf->style)
            return rv_fail_kind(
                err, RUVLLM_UNSUPPORTED, RUVLLM_ERROR_MODEL,
                "the model's chat template has no place for tools, or calls them in a way that is not known");
        source.tools = (struct rv_tool_grammar_wish){.style = shelf->style,
                                                     .must_call = params->must_call_tool || params->tool_name,
                                                     .is_single = params->one_tool_call || params->tool_name,
                                                     .only = params->tool_name};
    }
    pthread_mutex_lock(&shelf->lock);
    if (!shelf->trie)
        rc = rv_token_trie_new(&shelf->trie, shelf->vocab, err);
    *out = rc ? NULL : look_up(shelf, &source);
    pthread_mutex_unlock(&shelf->lock);
    if (rc || *out)
        return rc;
    rc = rv_grammar_new(out, &source, shelf->trie, err);
    if (rc)
        return rv_fail_in(err, rc, "cannot use '%s'", name);
    pthread_mutex_lock(&shelf->lock);
    keep(shelf, &source, *out);
    pthread_mutex_unlock(&shelf->lock);
    return RUVLLM_OK;
}
