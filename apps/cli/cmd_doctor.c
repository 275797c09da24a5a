/* ruvllm doctor: is this machine ready, and does this model work on it. */
#include "commands.h"
#include "doctor_model.h"
#include "doctor_report.h"
#include "model_options.h"
#include "output.h"
#include "system_facts.h"

#include "ruvllm_hub.h"

#include <ctype.h>
#include <langinfo.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct doctor_options {
    struct rv_model_options model;
    bool json;
};

static const struct rv_option own_options[] = {
    {.name = "json",
     .type = RV_OPTION_FLAG,
     .offset = offsetof(struct doctor_options, json),
     .help = "Print one JSON object"},
};

static const struct rv_option_group groups[] = {
    {"Output", own_options, RV_OPTION_COUNT(own_options), 0},
    RV_MODEL_GROUP_FILE(offsetof(struct doctor_options, model)),
    RV_MODEL_GROUP_COMPUTE(offsetof(struct doctor_options, model)),
    RV_MODEL_GROUP_THREADS(offsetof(struct doctor_options, model)),
    RV_MODEL_GROUP_ROPE(offsetof(struct doctor_options, model)),
};

/* "cuda:0" means "CUDA0", and "cuda" the first of them, as when a model is opened. */
static bool is_device(const char *wanted, const char *name)
{
    size_t i = 0;

    for (; *wanted; wanted++) {
        if (*wanted == ':')
            continue;
        if (!name[i] || tolower((unsigned char)*wanted) != tolower((unsigned char)name[i++]))
            return false;
    }
    return name[i + strspn(name + i, "0123456789")] == '\0';
}

static void check_devices(struct rv_doctor_report *report, const char *wanted)
{
    size_t n = ruvllm_device_count();
    bool is_wanted_there = !wanted || strcasecmp(wanted, "auto") == 0;

    if (n == 0)
        rv_doctor_report_add(report, RV_VERDICT_FAIL, "devices", "reinstall ggml: not even its CPU part was found",
                             "none");
    for (size_t i = 0; i < n; i++) {
        struct ruvllm_device_info device = {.struct_size = sizeof(device)};
        struct ruvllm_error err = {0};
        char bytes[24];

        if (ruvllm_device_at(i, &device, &err)) {
            rv_doctor_report_add(report, RV_VERDICT_FAIL, "device", NULL, "%s", err.message);
            continue;
        }
        rv_doctor_report_add(report, RV_VERDICT_OK, "device", NULL, "%s (%s): %s, %s", device.name, device.type,
                             device.description, rv_output_bytes(device.memory_total, bytes));
        is_wanted_there = is_wanted_there || is_device(wanted, device.name);
    }
    if (!is_wanted_there)
        rv_doctor_report_add(report, RV_VERDICT_FAIL, "device", "take a name from the lines above, or auto",
                             "'%.64s' was asked for and is not here", wanted);
}

static void check_cpu(struct rv_doctor_report *report, const struct rv_system_facts *facts, int32_t threads)
{
    if (!facts->cpu_name[0] && !facts->cpu_features[0])
        rv_doctor_report_add(report, RV_VERDICT_WARN, "processor", NULL, "unknown: /proc/cpuinfo tells nothing");
    else if (!facts->has_fast_features)
        rv_doctor_report_add(report, RV_VERDICT_WARN, "processor",
                             "expect slow answers: a processor with AVX2 or NEON is several times faster",
                             "%s without AVX2 or NEON", facts->cpu_name);
    else
        rv_doctor_report_add(report, RV_VERDICT_OK, "processor", NULL, "%s: %s", facts->cpu_name, facts->cpu_features);
    if (threads > facts->n_cpus_allowed && facts->n_cpus_allowed > 0)
        rv_doctor_report_add(report, RV_VERDICT_WARN, "threads", "more threads than processors make it slower",
                             "%d wanted, %d processors usable", threads, facts->n_cpus_allowed);
    else if (facts->n_cpus_allowed > 0 && facts->n_cpus_allowed < facts->n_cpus_online)
        rv_doctor_report_add(report, RV_VERDICT_WARN, "threads",
                             "the rest is reserved by an affinity or container rule", "%d of %d processors usable",
                             facts->n_cpus_allowed, facts->n_cpus_online);
    else
        rv_doctor_report_add(report, RV_VERDICT_OK, "threads", NULL, "%d processors usable", facts->n_cpus_online);
}

static void check_memory(struct rv_doctor_report *report, const struct rv_system_facts *facts)
{
    char a[24], b[24];

    if (!facts->memory_total)
        rv_doctor_report_add(report, RV_VERDICT_WARN, "memory", NULL, "unknown: /proc/meminfo tells nothing");
    else if (facts->memory_available < facts->memory_total / 10)
        rv_doctor_report_add(report, RV_VERDICT_WARN, "memory", "close other programs, or take a smaller model",
                             "only %s of %s available", rv_output_bytes(facts->memory_available, a),
                             rv_output_bytes(facts->memory_total, b));
    else
        rv_doctor_report_add(report, RV_VERDICT_OK, "memory", NULL, "%s of %s available",
                             rv_output_bytes(facts->memory_available, a), rv_output_bytes(facts->memory_total, b));
    if (facts->memory_limit && facts->memory_limit < facts->memory_total)
        rv_doctor_report_add(report, RV_VERDICT_WARN, "memory limit",
                             "the container or session may use no more than that", "%s",
                             rv_output_bytes(facts->memory_limit, a));
    rv_doctor_report_add(report, RV_VERDICT_OK, "pages", NULL, "%s each, huge pages: %s",
                         rv_output_bytes(facts->page_bytes, a), *facts->huge_pages ? facts->huge_pages : "unknown");
}

/* Whether a folder can be made in `path`, or in the nearest parent that exists: trying is the only sure way. */
static bool is_writable(const char *path)
{
    char probe[PATH_MAX], *slash;
    size_t len;

    snprintf(probe, sizeof(probe), "%s", path);
    while (access(probe, F_OK) != 0 && (slash = strrchr(probe, '/')) != NULL && slash != probe)
        *slash = '\0';
    len = strlen(probe);
    snprintf(probe + len, sizeof(probe) - len, "/.ruvllm-XXXXXX");
    return mkdtemp(probe) && rmdir(probe) == 0;
}

static void check_models_folder(struct rv_doctor_report *report)
{
    struct ruvllm_error err = {0};
    char *path;

    if (ruvllm_models_dir(&path, &err)) {
        rv_doctor_report_add(report, RV_VERDICT_WARN, "models folder", "set RUVLLM_MODELS", "%s", err.message);
        return;
    }
    if (is_writable(path))
        rv_doctor_report_add(report, RV_VERDICT_OK, "models folder", NULL, "%.200s is writable", path);
    else
        rv_doctor_report_add(report, RV_VERDICT_FAIL, "models folder",
                             "make it writable, or set RUVLLM_MODELS to a folder that is", "%.200s cannot be written",
                             path);
    ruvllm_free(path);
}

static void check_terminal(struct rv_doctor_report *report)
{
    const char *term = getenv("TERM");
    const char *codeset = nl_langinfo(CODESET);

    if (strcmp(codeset, "UTF-8") == 0)
        rv_doctor_report_add(report, RV_VERDICT_OK, "language", NULL, "UTF-8");
    else
        rv_doctor_report_add(report, RV_VERDICT_WARN, "language", "set LANG to a UTF-8 locale, such as C.UTF-8",
                             "%s: answers may look garbled", codeset);
    rv_doctor_report_add(report, RV_VERDICT_OK, "terminal", NULL, "%s, %zu columns, %s", term && *term ? term : "none",
                         rv_output_width(stdout), rv_output_has_colour(stdout) ? "colours" : "no colours");
}

static void check_limit(struct rv_doctor_report *report, const char *topic, int which, rlim_t least, const char *advice)
{
    struct rlimit limit;
    char now[24] = "unlimited";

    if (getrlimit(which, &limit) != 0)
        return;
    if (limit.rlim_cur != RLIM_INFINITY && which == RLIMIT_NOFILE)
        snprintf(now, sizeof(now), "%llu", (unsigned long long)limit.rlim_cur);
    else if (limit.rlim_cur != RLIM_INFINITY)
        rv_output_bytes(limit.rlim_cur, now);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < least)
        rv_doctor_report_add(report, RV_VERDICT_WARN, topic, advice, "%s", now);
    else
        rv_doctor_report_add(report, RV_VERDICT_OK, topic, NULL, "%s", now);
}

static void check_machine(struct rv_doctor_report *report, const struct rv_system_facts *facts,
                          const struct rv_model_options *options)
{
    rv_doctor_report_add(report, RV_VERDICT_OK, "version", NULL, "ruvllm %s", ruvllm_version());
    check_devices(report, options->params.device);
    check_cpu(report, facts, options->params.n_threads);
    check_memory(report, facts);
    check_models_folder(report);
    check_terminal(report);
    check_limit(report, "address limit", RLIMIT_AS, (rlim_t)-2, "'ulimit -v unlimited': models are mapped into memory");
    check_limit(report, "open files", RLIMIT_NOFILE, 64, "'ulimit -n 1024'");
    check_limit(report, "stack", RLIMIT_STACK, 256 * 1024, "'ulimit -s 8192'");
}

static int run(int argc, char **argv)
{
    struct doctor_options options = {0};
    struct rv_doctor_report report;
    struct rv_system_facts facts;
    struct rv_arguments args;
    int code;

    rv_model_options_init(&options.model);
    if (!rv_options_parse(&rv_cmd_doctor, &options, argc, argv, &args, &code))
        return code;
    if (options.model.path || args.n) {
        code = rv_model_options_settle(&options.model, &rv_cmd_doctor, &args);
        if (code == RV_EXIT_OK)
            code = rv_options_finish(&rv_cmd_doctor, &args);
        if (code)
            return code;
    }
    rv_system_facts_init(&facts);
    rv_doctor_report_init(&report, options.json);
    check_machine(&report, &facts, &options.model);
    if (options.model.path)
        rv_doctor_model_check(&report, &options.model, facts.memory_available);
    return rv_doctor_report_end(&report);
}

const struct rv_command rv_cmd_doctor = {
    .name = "doctor",
    .arguments = "[MODEL]",
    .summary = "check this machine, and a model on it",
    .about = "Checks what ruvllm needs and says for each point whether it is ok, and what to do if not. With MODEL the "
             "model is opened and tried: tokenizer, chat template, memory, a short answer. Exit code 1 if anything "
             "failed.",
    .examples = "ruvllm doctor\n"
                "ruvllm doctor model.gguf\n"
                "ruvllm doctor --json | jq '.checks[] | select(.verdict != \"ok\")'\n",
    .groups = groups,
    .n_groups = RV_OPTION_COUNT(groups),
    .run = run,
};
