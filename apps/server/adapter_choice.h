/*
 * Which model and which adapters a request is for, and whose adapters a key may see. A request says it with the name of
 * its model, "base:adapter", or with its field `adapter`. An adapter of another tenant does not exist for a key: what
 * is refused and what is not there look alike.
 */
#ifndef RV_SERVER_ADAPTER_CHOICE_H
#define RV_SERVER_ADAPTER_CHOICE_H

#include "server/api/api_adapter.h"
#include "server/auth.h"

struct rv_model_set;

/* Whether a key may use an adapter: a shared one, or one of its own tenant. */
bool rv_adapter_choice_may_use(const struct rv_auth_key *key, const char *id);
/* Whether it may look at it: admins may at all of them. */
bool rv_adapter_choice_may_see(const struct rv_auth_key *key, const char *id);

struct rv_adapter_choice {
    struct rv_api_adapter_use uses[RV_API_MAX_ADAPTERS];
    size_t n;       // 0: the model as it is
    bool is_suffix; // named behind the model's name
};

/*
 * The model that `name` means: a model's own name, or else "base:adapter", where *adapter is what is behind the last
 * ':' and "" otherwise. -1: there is none.
 */
int32_t rv_adapter_choice_find_model(const struct rv_model_set *models, const char *name, const char **adapter);

/*
 * Fills *i_model and *out for a parsed request; the ids live as long as it and `defaults`, which are for a request that
 * names none. False and an error: no such model, an adapter named in two ways, or one that is not this key's. Whether
 * an adapter is there, its engine will say.
 */
RV_CHECKED bool rv_adapter_choice_make(const struct rv_model_set *models, const struct rv_auth_key *key,
                                       const struct rv_api_request *request, const struct rv_adapter_choice *defaults,
                                       int32_t *i_model, struct rv_adapter_choice *out, struct rv_api_error *err);

#endif
