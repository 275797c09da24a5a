/* Regular expressions, hostile: compiled or refused with a sentence, and followed for some tokens. */
#include "fuzz_target.h"
#include "support/grammar_drive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rv_buf out;
    bool is_whole;

    rv_buf_init(&out, 1 << 16);
    grammar_drive(RV_GRAMMAR_REGEX, size ? (const char *)data : "", size, GRAMMAR_DRIVE_SHARE, &out, &is_whole);
    rv_buf_release(&out);
    return 0;
}
