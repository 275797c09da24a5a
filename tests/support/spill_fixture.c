/* Linux lists a process's descriptors, and marks the files among them that have no name. */
#include "support/spill_fixture.h"

#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FD = 256 };

static bool is_nameless(int fd)
{
    struct stat info;

    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0;
}

static bool is_in_tmp(int fd)
{
    char link[64], target[64] = {0};

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    return readlink(link, target, sizeof(target) - 1) > 0 && strncmp(target, "/tmp/", 5) == 0;
}

int spill_fixture_fd(void)
{
    int found = -1;

    for (int fd = 3; fd < MAX_FD; fd++) {
        if (!is_nameless(fd) || !is_in_tmp(fd))
            continue;
        assert_int_equal(found, -1);
        found = fd;
    }
    assert_true(found >= 0);
    return found;
}

off_t spill_fixture_size(void)
{
    struct stat info;

    assert_int_equal(fstat(spill_fixture_fd(), &info), 0);
    return info.st_size;
}

void spill_fixture_damage(off_t offset, size_t n)
{
    int fd = spill_fixture_fd();

    for (size_t i = 0; i < n; i++) {
        unsigned char byte;

        assert_int_equal(pread(fd, &byte, 1, offset + (off_t)i), 1);
        byte = (unsigned char)~byte;
        assert_int_equal(pwrite(fd, &byte, 1, offset + (off_t)i), 1);
    }
}

int spill_fixture_break(void)
{
    int fd = spill_fixture_fd(), kept = dup(fd), dead = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_true(kept >= 0 && dead >= 0);
    assert_int_equal(dup2(dead, fd), fd);
    close(dead);
    /* Both numbers in one: where it is now, and where it belongs. */
    assert_true(kept < MAX_FD && fd < MAX_FD);
    return kept * MAX_FD + fd;
}

void spill_fixture_mend(int kept)
{
    assert_int_equal(dup2(kept / MAX_FD, kept % MAX_FD), kept % MAX_FD);
    close(kept / MAX_FD);
}
