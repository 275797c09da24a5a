/* The command line's door. */
#include "ruvllm.h"

#include <stdio.h>

int main(void)
{
    printf("ruvllm %s\n", ruvllm_version());
    return 0;
}
