/* Findings of `ruvllm doctor`: each with a verdict and, where something can be done, what. */
#ifndef RV_CLI_DOCTOR_REPORT_H
#define RV_CLI_DOCTOR_REPORT_H

#include "output.h"

enum rv_verdict { RV_VERDICT_OK, RV_VERDICT_WARN, RV_VERDICT_FAIL };

struct rv_finding {
    enum rv_verdict verdict;
    const char *topic;  // literal
    const char *advice; // literal; NULL: nothing to do
    char text[256];
};

enum { RV_DOCTOR_FINDINGS_MAX = 64 };

struct rv_doctor_report {
    struct rv_finding findings[RV_DOCTOR_FINDINGS_MAX];
    size_t n;
    bool json; // collect for rv_doctor_report_end instead of printing at once
};

void rv_doctor_report_init(struct rv_doctor_report *report, bool json);
/* Adds one finding, and prints it unless the report is JSON. `topic` and `advice` are literals. */
void rv_doctor_report_add(struct rv_doctor_report *report, enum rv_verdict verdict, const char *topic,
                          const char *advice, const char *format, ...) RV_PRINTF(5, 6);
/* Prints the sum or the JSON object; returns the exit code, 1 when anything failed. */
int rv_doctor_report_end(const struct rv_doctor_report *report);

#endif
