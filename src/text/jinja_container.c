/* Lists and dicts: their methods, sorting, and paths into them. */
#include "text/jinja_container.h"

#include "text/jinja_string.h"

#include <string.h>

static ruvllm_status pair_list(struct rv_jinja_run *run, const struct rv_jinja_pair *pair, struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_list_new(run, 2, out);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_push(run, out->as.list, rv_jinja_text(pair->key));
    return rc ? rc : rv_jinja_list_push(run, out->as.list, pair->value);
}

ruvllm_status rv_jinja_dict_items(struct rv_jinja_run *run, struct rv_jinja_value self,
                                  const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_want(run, self, RV_JINJA_T_DICT);

    (void)args;
    if (rc == RUVLLM_OK)
        rc = rv_jinja_charge(run, self.as.dict->len);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_new(run, self.as.dict->len, out);
    for (size_t i = 0; rc == RUVLLM_OK && i < self.as.dict->len; i++) {
        struct rv_jinja_value pair;

        rc = pair_list(run, &self.as.dict->pairs[i], &pair);
        if (rc == RUVLLM_OK)
            rc = rv_jinja_list_push(run, out->as.list, pair);
    }
    return rc;
}

static ruvllm_status dict_column(struct rv_jinja_run *run, struct rv_jinja_value self, bool keys,
                                 struct rv_jinja_value *out)
{
    const struct rv_jinja_dict *dict = self.as.dict;
    ruvllm_status rc = rv_jinja_charge(run, dict->len);

    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_new(run, dict->len, out);
    for (size_t i = 0; rc == RUVLLM_OK && i < dict->len; i++)
        rc = rv_jinja_list_push(run, out->as.list, keys ? rv_jinja_text(dict->pairs[i].key) : dict->pairs[i].value);
    return rc;
}

ruvllm_status rv_jinja_dict_keys(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out)
{
    (void)args;
    return dict_column(run, self, true, out);
}

static ruvllm_status dict_values(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out)
{
    (void)args;
    return dict_column(run, self, false, out);
}

static ruvllm_status dict_get(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                              struct rv_jinja_value *out)
{
    const struct rv_jinja_value *fallback = rv_jinja_arg(args, 1, "default"), *found;
    struct rv_jinja_string key = {.data = NULL};
    ruvllm_status rc = rv_jinja_arg_string(run, args, 0, "key", &key);

    if (rc)
        return rc;
    if (!key.data)
        return rv_jinja_fail(run, "get() needs a key");
    found = rv_jinja_dict_find(run, self.as.dict, key.data, key.len);
    *out = found ? *found : fallback ? *fallback : rv_jinja_none();
    return RUVLLM_OK;
}

static ruvllm_status list_append(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out)
{
    const struct rv_jinja_value *item = rv_jinja_arg(args, 0, NULL);

    *out = rv_jinja_none();
    if (!item)
        return rv_jinja_fail(run, "append() needs an item");
    return rv_jinja_list_push(run, self.as.list, *item);
}

static ruvllm_status list_pop(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                              struct rv_jinja_value *out)
{
    struct rv_jinja_list *list = self.as.list;
    int64_t index = -1, len = (int64_t)list->len;
    ruvllm_status rc = rv_jinja_arg_integer(run, args, 0, NULL, &index);

    if (rc)
        return rc;
    if (index < 0)
        index += len;
    if (index < 0 || index >= len)
        return rv_jinja_fail(run, "pop() from a list of %lld with no such place", (long long)len);
    *out = list->items[index];
    memmove(list->items + index, list->items + index + 1, (size_t)(len - index - 1) * sizeof(*list->items));
    list->len--;
    return rv_jinja_charge(run, (size_t)(len - index) / 8);
}

/* ---- sorting -------------------------------------------------------------------------------- */

struct rv_jinja_value rv_jinja_attribute(const struct rv_jinja_run *run, struct rv_jinja_value value,
                                         struct rv_jinja_string path)
{
    size_t start = 0;

    while (start <= path.len) {
        const char *dot = start < path.len ? memchr(path.data + start, '.', path.len - start) : NULL;
        size_t len = (dot ? (size_t)(dot - path.data) : path.len) - start, index = 0;
        const struct rv_jinja_value *found = NULL;

        if (value.type == RV_JINJA_T_DICT || value.type == RV_JINJA_T_NAMESPACE) {
            found = rv_jinja_dict_find(run, value.as.dict, path.data + start, len);
        } else if (value.type == RV_JINJA_T_LIST && len > 0 && len < 9) {
            for (size_t i = start; i < start + len; i++)
                index = path.data[i] >= '0' && path.data[i] <= '9' ? index * 10 + (size_t)(path.data[i] - '0')
                                                                   : value.as.list->len;
            if (index < value.as.list->len)
                found = &value.as.list->items[index];
        }
        if (!found)
            return rv_jinja_undefined();
        value = *found;
        start += len + 1;
    }
    return value;
}

struct sort_item {
    struct rv_jinja_value key, item;
};

static ruvllm_status merge(struct rv_jinja_run *run, const struct sort_item *from, struct sort_item *to, size_t start,
                           size_t middle, size_t end, bool reverse)
{
    size_t left = start, right = middle;

    for (size_t i = start; i < end; i++) {
        int order = 0;
        bool take_left = right >= end;

        if (left < middle && right < end) {
            ruvllm_status rc = rv_jinja_compare(run, from[left].key, from[right].key, &order);

            if (rc == RUVLLM_OK)
                rc = rv_jinja_charge(run, 1);
            if (rc)
                return rc;
            take_left = reverse ? order >= 0 : order <= 0;
        }
        to[i] = take_left ? from[left++] : from[right++];
    }
    return RUVLLM_OK;
}

ruvllm_status rv_jinja_list_sort(struct rv_jinja_run *run, struct rv_jinja_list *list,
                                 const struct rv_jinja_order *order)
{
    struct sort_item *from = rv_jinja_alloc(run, list->len, sizeof(*from)), *swap;
    struct sort_item *to = rv_jinja_alloc(run, list->len, sizeof(*to));
    ruvllm_status rc = RUVLLM_OK;

    if (!from || !to)
        return rv_jinja_no_memory(run);
    for (size_t i = 0; rc == RUVLLM_OK && i < list->len; i++) {
        struct rv_jinja_value key = list->items[i];

        if (order->attribute.len)
            key = rv_jinja_attribute(run, key, order->attribute);
        if (key.type == RV_JINJA_T_STRING && !order->case_sensitive)
            rc = rv_jinja_string_fold(run, key.as.string, &key.as.string);
        from[i] = (struct sort_item){key, list->items[i]};
    }
    for (size_t width = 1; rc == RUVLLM_OK && width < list->len; width *= 2) {
        for (size_t i = 0; rc == RUVLLM_OK && i < list->len; i += 2 * width) {
            size_t middle = i + width < list->len ? i + width : list->len;
            size_t end = middle + width < list->len ? middle + width : list->len;

            rc = merge(run, from, to, i, middle, end, order->reverse);
        }
        swap = from;
        from = to;
        to = swap;
    }
    for (size_t i = 0; rc == RUVLLM_OK && i < list->len; i++)
        list->items[i] = from[i].item;
    return rc;
}

ruvllm_status rv_jinja_iterate(struct rv_jinja_run *run, struct rv_jinja_value value, struct rv_jinja_value *out)
{
    switch (value.type) {
    case RV_JINJA_T_LIST:
        *out = value;
        return RUVLLM_OK;
    case RV_JINJA_T_DICT:
        return dict_column(run, value, true, out);
    case RV_JINJA_T_STRING:
        return rv_jinja_string_chars(run, value.as.string, out);
    default:
        return rv_jinja_fail(run, "expected a list, a dict or a string, got %s", rv_jinja_type_name(value));
    }
}

const struct rv_jinja_builtin rv_jinja_list_methods[] = {
    {"append", list_append},
    {"pop", list_pop},
    {NULL, NULL},
};

const struct rv_jinja_builtin rv_jinja_dict_methods[] = {
    {"get", dict_get}, {"items", rv_jinja_dict_items}, {"keys", rv_jinja_dict_keys}, {"values", dict_values},
    {NULL, NULL},
};
