/* Builtins on lists and dicts that filters and methods share. */
#ifndef RV_TEXT_JINJA_CONTAINER_H
#define RV_TEXT_JINJA_CONTAINER_H

#include "text/jinja_builtin.h"

/* A list of [key, value] lists. */
ruvllm_status rv_jinja_dict_items(struct rv_jinja_run *run, struct rv_jinja_value self,
                                  const struct rv_jinja_args *args, struct rv_jinja_value *out);
ruvllm_status rv_jinja_dict_keys(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                 struct rv_jinja_value *out);

/* What to sort by: an attribute path of each item (empty: the item itself), with or without case. */
struct rv_jinja_order {
    struct rv_jinja_string attribute;
    bool reverse;
    bool case_sensitive;
};

/* Sorts in place, keeping the order of equal items. */
RV_CHECKED ruvllm_status rv_jinja_list_sort(struct rv_jinja_run *run, struct rv_jinja_list *list,
                                            const struct rv_jinja_order *order);
/* Follows "a.b.0" through dicts and lists; undefined where it leads nowhere. */
struct rv_jinja_value rv_jinja_attribute(const struct rv_jinja_run *run, struct rv_jinja_value value,
                                         struct rv_jinja_string path);
/* The items of a list, the keys of a dict or the characters of a string, as a list; else it fails. */
RV_CHECKED ruvllm_status rv_jinja_iterate(struct rv_jinja_run *run, struct rv_jinja_value value,
                                          struct rv_jinja_value *out);

#endif
