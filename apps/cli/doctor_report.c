/* Collecting and printing findings. */
#include "doctor_report.h"

#include <stdarg.h>
#include <string.h>

static const char *const verdict_names[] = {"ok", "warn", "fail"};

void rv_doctor_report_init(struct rv_doctor_report *report, bool json)
{
    report->n = 0;
    report->json = json;
}

static void print_finding(const struct rv_finding *finding)
{
    static const enum rv_style styles[] = {RV_STYLE_GREEN, RV_STYLE_YELLOW, RV_STYLE_RED};

    printf("%s%-4s%s  %-14s ", rv_output_style(stdout, styles[finding->verdict]), verdict_names[finding->verdict],
           rv_output_style(stdout, RV_STYLE_RESET), finding->topic);
    rv_output_field(stdout, finding->text, strlen(finding->text));
    putchar('\n');
    if (finding->advice)
        printf("%*s%s%s%s\n", 21, "", rv_output_style(stdout, RV_STYLE_CYAN), finding->advice,
               rv_output_style(stdout, RV_STYLE_RESET));
    fflush(stdout);
}

void rv_doctor_report_add(struct rv_doctor_report *report, enum rv_verdict verdict, const char *topic,
                          const char *advice, const char *format, ...)
{
    struct rv_finding *finding;
    va_list args;

    RV_ASSERT(report->n < RV_DOCTOR_FINDINGS_MAX);
    finding = &report->findings[report->n++];
    finding->verdict = verdict;
    finding->topic = topic;
    finding->advice = advice;
    va_start(args, format);
    if (vsnprintf(finding->text, sizeof(finding->text), format, args) < 0)
        finding->text[0] = '\0';
    va_end(args);
    if (!report->json)
        print_finding(finding);
}

static size_t count(const struct rv_doctor_report *report, enum rv_verdict verdict)
{
    size_t n = 0;

    for (size_t i = 0; i < report->n; i++)
        n += report->findings[i].verdict == verdict;
    return n;
}

static int print_json(const struct rv_doctor_report *report)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = yyjson_mut_obj(doc), *list;

    yyjson_mut_doc_set_root(doc, root);
    yyjson_mut_obj_add_str(doc, root, "version", ruvllm_version());
    yyjson_mut_obj_add_uint(doc, root, "n_ok", count(report, RV_VERDICT_OK));
    yyjson_mut_obj_add_uint(doc, root, "n_warn", count(report, RV_VERDICT_WARN));
    yyjson_mut_obj_add_uint(doc, root, "n_fail", count(report, RV_VERDICT_FAIL));
    list = yyjson_mut_obj_add_arr(doc, root, "checks");
    for (size_t i = 0; i < report->n; i++) {
        const struct rv_finding *finding = &report->findings[i];
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(doc, list);

        yyjson_mut_obj_add_str(doc, o, "verdict", verdict_names[finding->verdict]);
        yyjson_mut_obj_add_str(doc, o, "topic", finding->topic);
        rv_output_json_add(doc, o, "text", rv_output_json_text(doc, finding->text, strlen(finding->text)));
        if (finding->advice)
            yyjson_mut_obj_add_str(doc, o, "advice", finding->advice);
    }
    return rv_output_json(doc, false);
}

int rv_doctor_report_end(const struct rv_doctor_report *report)
{
    size_t n_warn = count(report, RV_VERDICT_WARN), n_fail = count(report, RV_VERDICT_FAIL);
    int code = RV_EXIT_OK;

    if (report->json)
        code = print_json(report);
    else
        printf("\n%zu ok, %zu to look at, %zu failed\n", report->n - n_warn - n_fail, n_warn, n_fail);
    return n_fail ? RV_EXIT_FAILURE : code;
}
