/* A router's text, as a store may hand it back: read or refused; what was read chooses, learns and writes itself again.
 */
#include "fuzz_target.h"

#include "base/alloc.h"
#include "learn/router.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint16_t question[64] = {0x3f00, 0xbf00, 0x3f40};
    struct rv_router router, again;
    struct ruvllm_error err;
    char *text;
    size_t len;

    if (rv_router_read(&router, (const char *)data, size, &err))
        return 0;
    if (rv_router_write(&router, &text, &len, &err) || rv_router_read(&again, text, len, &err) ||
        memcmp(&router, &again, sizeof(router)) != 0)
        abort();
    rv_free(text);
    for (int i = 0; i < 3; i++) {
        int32_t arm = rv_router_choose(&router, question, 64, 0.5);

        if (arm < 0 || arm >= router.n_arms || rv_router_learn(&router, arm, question, 64, 1, &err))
            abort();
    }
    return 0;
}
