/* Schemas, hostile: compiled or refused with a sentence. An answer that came to its end is JSON. */
#include "fuzz_target.h"
#include "support/grammar_drive.h"

#include <yyjson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rv_buf out;
    bool is_whole;

    rv_buf_init(&out, 1 << 16);
    grammar_drive(RV_GRAMMAR_JSON_SCHEMA, size ? (const char *)data : "", size, GRAMMAR_DRIVE_SHARE, &out, &is_whole);
    if (is_whole) {
        yyjson_doc *doc = yyjson_read(out.len ? out.data : "", out.len, 0);

        RV_ASSERT(doc);
        yyjson_doc_free(doc);
    }
    rv_buf_release(&out);
    return 0;
}
