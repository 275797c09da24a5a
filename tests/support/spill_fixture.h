/*
 * The spill file from outside. It has no name, but the process has it open: here it is found among the descriptors, and
 * made to fail as disks do. One spill file may be open at a time.
 */
#ifndef RV_TESTS_SUPPORT_SPILL_FIXTURE_H
#define RV_TESTS_SUPPORT_SPILL_FIXTURE_H

#include <stddef.h>
#include <sys/types.h>

/* The library's own descriptor. */
int spill_fixture_fd(void);
off_t spill_fixture_size(void);
/* Turns n bytes at an offset, which must be in the file, into others. */
void spill_fixture_damage(off_t offset, size_t n);
/* From here on every read and write fails; returns what spill_fixture_mend() needs to make it good again. */
int spill_fixture_break(void);
void spill_fixture_mend(int kept);

#endif
