/*
 * What Linux tells about the machine in /proc and /sys. Each answer may be missing (another system, a container
 * that hides it): then numbers are 0 and texts empty, and the caller says "unknown" rather than guess.
 */
#ifndef RV_CLI_SYSTEM_FACTS_H
#define RV_CLI_SYSTEM_FACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rv_system_facts {
    char cpu_name[96];
    char cpu_features[160]; // those that matter for the kernels: "avx2 fma f16c avx512f ..."
    bool has_fast_features; // AVX2 or NEON: without them everything is slow
    int n_cpus_online;      // hardware threads of the machine
    int n_cpus_allowed;     // of those, what this process may use
    uint64_t memory_total;  // bytes
    uint64_t memory_available;
    uint64_t memory_limit; // of the control group; 0: none
    uint64_t page_bytes;
    char huge_pages[32]; // "always", "madvise", "never"
};

void rv_system_facts_init(struct rv_system_facts *facts);

#endif
