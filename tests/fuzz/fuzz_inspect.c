/*
 * Any bytes as a model file to be described: the answer is JSON, whatever they are. Apart from fuzz_gguf, which it
 * would slow down to a third.
 */
#include "base/alloc.h"
#include "fuzz_target.h"
#include "model/gguf_inspect.h"

#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    yyjson_doc *doc;
    char *json;

    if (rv_gguf_inspect_memory(data, size, &json, NULL) != RUVLLM_OK)
        abort();
    doc = yyjson_read(json, strlen(json), 0);
    if (!doc)
        abort();
    yyjson_doc_free(doc);
    rv_free(json);
    return 0;
}
