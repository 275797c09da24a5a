/* Reading /proc and /sys line by line; nothing here can fail, only be unknown. */
#include "system_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The rest of the first line that begins with `key`, its blanks and colon skipped; false when there is none. */
static bool find_line(const char *path, const char *key, char *out, size_t out_size)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    bool found = false;

    if (!file)
        return false;
    while (!found && getline(&line, &cap, file) > 0) {
        if (strncmp(line, key, strlen(key)) == 0) {
            const char *value = line + strlen(key);

            value += strspn(value, " \t:");
            snprintf(out, out_size, "%.*s", (int)strcspn(value, "\n"), value);
            found = true;
        }
    }
    free(line);
    fclose(file);
    return found;
}

static bool has_word(const char *text, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        bool begins = at == text || at[-1] == ' ';

        if (begins && (at[len] == ' ' || at[len] == '\0'))
            return true;
    }
    return false;
}

static void read_cpu(struct rv_system_facts *facts)
{
    static const char *const wanted[] = {"avx2",        "fma",         "f16c",     "avx512f",  "avx512bw",
                                         "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_int8", "avx512_fp16",
                                         "asimd",       "asimddp",     "i8mm",     "sve"};
    char flags[8192] = "";
    size_t used = 0;

    if (!find_line("/proc/cpuinfo", "model name", facts->cpu_name, sizeof(facts->cpu_name)))
        find_line("/proc/cpuinfo", "Hardware", facts->cpu_name, sizeof(facts->cpu_name));
    if (!find_line("/proc/cpuinfo", "flags", flags, sizeof(flags)))
        find_line("/proc/cpuinfo", "Features", flags, sizeof(flags));
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        if (has_word(flags, wanted[i]) && used < sizeof(facts->cpu_features))
            used += (size_t)snprintf(facts->cpu_features + used, sizeof(facts->cpu_features) - used, "%s%s",
                                     used ? " " : "", wanted[i]);
    }
    facts->has_fast_features = has_word(flags, "avx2") || has_word(flags, "asimd");
}

/* "0-3,8" has five numbers. */
static int count_list(const char *list)
{
    int n = 0;

    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;

        if (end == list)
            break;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        n += (int)(last - first + 1);
        list = *end == ',' ? end + 1 : end;
    }
    return n;
}

static uint64_t kib_line(const char *key)
{
    char text[64];

    return find_line("/proc/meminfo", key, text, sizeof(text)) ? strtoull(text, NULL, 10) * 1024 : 0;
}

static void read_memory(struct rv_system_facts *facts)
{
    char text[128];
    long page = sysconf(_SC_PAGESIZE);

    facts->memory_total = kib_line("MemTotal");
    facts->memory_available = kib_line("MemAvailable");
    facts->page_bytes = page > 0 ? (uint64_t)page : 0;
    if (find_line("/sys/fs/cgroup/memory.max", "", text, sizeof(text)) && text[0] >= '0' && text[0] <= '9')
        facts->memory_limit = strtoull(text, NULL, 10);
    /* The chosen mode stands in brackets: "always [madvise] never". */
    if (find_line("/sys/kernel/mm/transparent_hugepage/enabled", "", text, sizeof(text)) && strchr(text, '[')) {
        const char *chosen = strchr(text, '[') + 1;

        snprintf(facts->huge_pages, sizeof(facts->huge_pages), "%.*s", (int)strcspn(chosen, "]"), chosen);
    }
}

void rv_system_facts_init(struct rv_system_facts *facts)
{
    char allowed[256];

    memset(facts, 0, sizeof(*facts));
    read_cpu(facts);
    read_memory(facts);
    facts->n_cpus_online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (find_line("/proc/self/status", "Cpus_allowed_list", allowed, sizeof(allowed)))
        facts->n_cpus_allowed = count_list(allowed);
}
