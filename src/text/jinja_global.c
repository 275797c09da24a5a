/* The functions a template finds without asking for them. strftime_now is the only window to the machine. */
#include "text/jinja_builtin.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_RANGE 100000

static ruvllm_status make_range(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                                struct rv_jinja_value *out)
{
    int64_t bounds[3] = {0, 0, 1}, span;
    uint64_t n = 0;
    ruvllm_status rc = RUVLLM_OK;

    (void)self;
    if (args->n_positional < 1 || args->n_positional > 3 || args->n != args->n_positional)
        return rv_jinja_fail(run, "range() takes one to three numbers");
    for (size_t i = 0; rc == RUVLLM_OK && i < args->n; i++) {
        if (args->values[i].type != RV_JINJA_T_INTEGER)
            return rv_jinja_fail(run, "range() takes integers, not %s", rv_jinja_type_name(args->values[i]));
        bounds[args->n == 1 ? 1 : i] = args->values[i].as.integer;
    }
    if (bounds[2] == 0 || bounds[2] == INT64_MIN || __builtin_sub_overflow(bounds[1], bounds[0], &span))
        return rv_jinja_fail(run, "range() cannot count with these numbers");
    if ((span > 0 && bounds[2] > 0) || (span < 0 && bounds[2] < 0)) {
        uint64_t step = (uint64_t)(bounds[2] < 0 ? -bounds[2] : bounds[2]);

        n = ((span < 0 ? 0 - (uint64_t)span : (uint64_t)span) + step - 1) / step;
    }
    if (n > MAX_RANGE)
        return rv_jinja_fail(run, "range() of more than %d numbers", MAX_RANGE);
    rc = rv_jinja_charge(run, (size_t)n);
    if (rc == RUVLLM_OK)
        rc = rv_jinja_list_new(run, (size_t)n, out);
    for (uint64_t i = 0; rc == RUVLLM_OK && i < n; i++)
        rc = rv_jinja_list_push(run, out->as.list, rv_jinja_integer(bounds[0] + (int64_t)i * bounds[2]));
    return rc;
}

/* The pairs of a dict or of a list of pairs, then the named arguments. */
static ruvllm_status make_dict(struct rv_jinja_run *run, struct rv_jinja_value self, const struct rv_jinja_args *args,
                               struct rv_jinja_value *out)
{
    ruvllm_status rc = rv_jinja_dict_new(run, out);

    (void)self;
    if (rc == RUVLLM_OK && args->n_positional > 1)
        return rv_jinja_fail(run, "expected at most one positional argument, got %zu", args->n_positional);
    if (rc == RUVLLM_OK && args->n_positional == 1) {
        const struct rv_jinja_value *from = &args->values[0];

        if (from->type != RV_JINJA_T_DICT)
            return rv_jinja_fail(run, "expected a dict, got %s", rv_jinja_type_name(*from));
        rc = rv_jinja_charge(run, from->as.dict->len);
        for (size_t i = 0; rc == RUVLLM_OK && i < from->as.dict->len; i++)
            rc = rv_jinja_dict_set(run, out->as.dict, from->as.dict->pairs[i].key, from->as.dict->pairs[i].value);
    }
    for (size_t i = args->n_positional; rc == RUVLLM_OK && i < args->n; i++)
        rc = rv_jinja_dict_set(run, out->as.dict, args->names[i - args->n_positional], args->values[i]);
    return rc;
}

static ruvllm_status make_namespace(struct rv_jinja_run *run, struct rv_jinja_value self,
                                    const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    ruvllm_status rc = make_dict(run, self, args, out);

    if (rc == RUVLLM_OK)
        out->type = RV_JINJA_T_NAMESPACE;
    return rc;
}

static ruvllm_status raise_exception(struct rv_jinja_run *run, struct rv_jinja_value self,
                                     const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    struct rv_jinja_string message = {.data = "the template refuses this conversation", .len = 38};
    ruvllm_status rc = rv_jinja_arg_string(run, args, 0, "message", &message);

    (void)self;
    (void)out;
    return rc ? rc : rv_jinja_fail(run, "%.*s", (int)(message.len < 160 ? message.len : 160), message.data);
}

/* One directive; names of days and months are English whatever the locale. */
static void format_field(char *out, size_t cap, char directive, const struct tm *tm)
{
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
    const char *month = months[tm->tm_mon], *day = days[tm->tm_wday];
    int hour = tm->tm_hour % 12 ? tm->tm_hour % 12 : 12;

    switch (directive) {
    case 'Y':
        snprintf(out, cap, "%d", tm->tm_year + 1900);
        break;
    case 'y':
        snprintf(out, cap, "%02d", tm->tm_year % 100);
        break;
    case 'm':
        snprintf(out, cap, "%02d", tm->tm_mon + 1);
        break;
    case 'd':
        snprintf(out, cap, "%02d", tm->tm_mday);
        break;
    case 'j':
        snprintf(out, cap, "%03d", tm->tm_yday + 1);
        break;
    case 'H':
        snprintf(out, cap, "%02d", tm->tm_hour);
        break;
    case 'I':
        snprintf(out, cap, "%02d", hour);
        break;
    case 'M':
        snprintf(out, cap, "%02d", tm->tm_min);
        break;
    case 'S':
        snprintf(out, cap, "%02d", tm->tm_sec);
        break;
    case 'p':
        snprintf(out, cap, "%s", tm->tm_hour < 12 ? "AM" : "PM");
        break;
    case 'B':
    case 'b':
        snprintf(out, cap, "%.*s", directive == 'B' ? 9 : 3, month);
        break;
    case 'A':
    case 'a':
        snprintf(out, cap, "%.*s", directive == 'A' ? 9 : 3, day);
        break;
    case '%':
        snprintf(out, cap, "%%");
        break;
    default:
        snprintf(out, cap, "%%%c", directive);
        break;
    }
}

static ruvllm_status strftime_now(struct rv_jinja_run *run, struct rv_jinja_value self,
                                  const struct rv_jinja_args *args, struct rv_jinja_value *out)
{
    struct rv_jinja_string format = {.data = NULL}, string;
    size_t mark = rv_jinja_mark(run);
    time_t now = (time_t)run->now;
    struct tm tm;
    ruvllm_status rc = rv_jinja_arg_string(run, args, 0, "format", &format);

    (void)self;
    if (rc)
        return rc;
    if (!format.data)
        return rv_jinja_fail(run, "strftime_now() needs a format");
    if (!localtime_r(&now, &tm))
        return rv_jinja_fail(run, "cannot tell the date");
    for (size_t i = 0; rc == RUVLLM_OK && i < format.len; i++) {
        char field[24];

        if (format.data[i] == '%' && i + 1 < format.len) {
            format_field(field, sizeof(field), format.data[++i], &tm);
            rc = rv_jinja_emit_as(run, field, strlen(field), format.mask ? format.mask[i] : 0);
        } else {
            rc = rv_jinja_emit(run, rv_jinja_substring(format, i, 1));
        }
    }
    if (rc == RUVLLM_OK)
        rc = rv_jinja_cut(run, mark, &string);
    if (rc == RUVLLM_OK)
        *out = rv_jinja_text(string);
    return rc;
}

const struct rv_jinja_builtin rv_jinja_globals[] = {
    {"dict", make_dict},   {"namespace", make_namespace},  {"raise_exception", raise_exception},
    {"range", make_range}, {"strftime_now", strftime_now}, {NULL, NULL},
};
