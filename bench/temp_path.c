#include "temp_path.h"

#include <stdio.h>
#include <stdlib.h>

const char *temp_path_folder(void)
{
    const char *folder = getenv("TMPDIR");

    return folder && *folder ? folder : "/tmp";
}

void temp_path_of(char *out, size_t size, const char *name)
{
    int len = snprintf(out, size, "%s/%s", temp_path_folder(), name);

    if (len > 0 && (size_t)len < size)
        return;
    (void)fprintf(stderr, "the path '%s' of temporary files is too long\n", temp_path_folder());
    exit(1);
}
