/* Ids are compared, never taken apart beyond their first '/'. */
#include "server/adapter_choice.h"

#include "server/model_set.h"

#include <string.h>

bool rv_adapter_choice_may_use(const struct rv_auth_key *key, const char *id)
{
    const char *slash = strchr(id, '/');
    size_t len = slash ? (size_t)(slash - id) : 0;

    return !slash || (strlen(key->tenant) == len && strncmp(key->tenant, id, len) == 0);
}

bool rv_adapter_choice_may_see(const struct rv_auth_key *key, const char *id)
{
    return key->is_admin || rv_adapter_choice_may_use(key, id);
}

int32_t rv_adapter_choice_find_model(const struct rv_model_set *models, const char *name, const char **adapter)
{
    int32_t i_model = rv_model_set_find(models, name);
    const char *colon = strrchr(name, ':');
    char base[RV_MODEL_SET_NAME + 1];
    size_t len = colon ? (size_t)(colon - name) : 0;

    *adapter = "";
    if (i_model >= 0 || len == 0 || len > RV_MODEL_SET_NAME || colon[1] == '\0')
        return i_model;
    memcpy(base, name, len);
    base[len] = '\0';
    *adapter = colon + 1;
    return rv_model_set_find(models, base);
}

/* Only what makes text can be made with an adapter. */
static bool can_adapt(enum rv_api_kind kind)
{
    return kind == RV_API_CHAT || kind == RV_API_COMPLETION || kind == RV_API_RESPONSE;
}

static bool check_ids(const struct rv_auth_key *key, const struct rv_adapter_choice *choice, struct rv_api_error *err)
{
    for (size_t i = 0; i < choice->n; i++) {
        const char *id = choice->uses[i].id;

        if (!rv_api_adapter_is_id(id) || !rv_adapter_choice_may_use(key, id)) {
            rv_api_adapter_missing(err, id);
            return false;
        }
    }
    return true;
}

bool rv_adapter_choice_make(const struct rv_model_set *models, const struct rv_auth_key *key,
                            const struct rv_api_request *request, const struct rv_adapter_choice *defaults,
                            int32_t *i_model, struct rv_adapter_choice *out, struct rv_api_error *err)
{
    const char *named;

    *out = (struct rv_adapter_choice){0};
    *i_model = rv_adapter_choice_find_model(models, request->model, &named);
    if (*i_model < 0 || (*named && !can_adapt(request->kind))) {
        *i_model = -1;
        rv_api_error_model(err, request->model);
        return false;
    }
    if (*named && request->n_adapters > 0) {
        rv_api_error_set(err, 400, "invalid_value", "adapter",
                         "the adapter is named by 'model' already; leave 'adapter' out, or the ':%.*s' of 'model'",
                         RV_API_ERROR_NAME, named);
        return false;
    }
    if (*named) {
        out->is_suffix = true;
        out->uses[out->n++] = (struct rv_api_adapter_use){.id = named, .weight = 1};
    }
    for (size_t i = 0; i < request->n_adapters; i++)
        out->uses[out->n++] = request->adapters[i];
    if (out->n == 0 && can_adapt(request->kind))
        *out = *defaults;
    return check_ids(key, out, err);
}
