/*
 * What every fuzz_<name>.c defines. It must return 0, keep no state from one input to the next, and abort() when
 * the code under test breaks a promise. Each is built twice: with libFuzzer (RUVLLM_FUZZ) and with replay_main.c.
 */
#ifndef RV_TESTS_FUZZ_FUZZ_TARGET_H
#define RV_TESTS_FUZZ_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
