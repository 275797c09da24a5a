/* Alphabets and lengths. Everything a caller hands to the store by name passes here before it comes near SQL. */
#include "store/store_name.h"

#include "base/utf8.h"
#include "store/store_rows.h"

#include <string.h>

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Whether text is min..max bytes of letters, digits and `others`. Reads no further than max + 1 bytes. */
static bool is_name(const char *text, size_t min, size_t max, const char *others)
{
    size_t len = text ? strnlen(text, max + 1) : 0;

    if (len < min || len > max)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_letter_or_digit(text[i]) && !strchr(others, text[i]))
            return false;
    }
    return true;
}

ruvllm_status rv_store_name_tenant(const char *text, struct ruvllm_error *err)
{
    if (is_name(text, 1, RV_STORE_TENANT_MAX, "._-"))
        return RUVLLM_OK;
    return rv_fail(err, RUVLLM_INVALID, "a tenant is named by 1 to %d letters (A-Z, a-z), digits, '.', '_' or '-'",
                   RV_STORE_TENANT_MAX);
}

ruvllm_status rv_store_name_key_id(const char *text, struct ruvllm_error *err)
{
    if (is_name(text, RV_STORE_KEY_ID_LEN, RV_STORE_KEY_ID_LEN, "_-"))
        return RUVLLM_OK;
    return rv_fail(err, RUVLLM_INVALID, "the id of a key is the %d characters after its 'rv-'", RV_STORE_KEY_ID_LEN);
}

ruvllm_status rv_store_name_session(const char *text, struct ruvllm_error *err)
{
    if (is_name(text, 1, RV_STORE_SESSION_ID_MAX, "_-"))
        return RUVLLM_OK;
    return rv_fail(err, RUVLLM_INVALID, "the id of a session is 1 to %d letters (A-Z, a-z), digits, '_' or '-'",
                   RV_STORE_SESSION_ID_MAX);
}

ruvllm_status rv_store_name_snapshot(const char *text, struct ruvllm_error *err)
{
    if (is_name(text, 0, RV_STORE_SNAPSHOT_MAX, "._-") && !(text && text[0] == '.'))
        return RUVLLM_OK;
    return rv_fail(err, RUVLLM_INVALID,
                   "a snapshot is named by up to %d letters (A-Z, a-z), digits, '.', '_' or '-', and no '.' first",
                   RV_STORE_SNAPSHOT_MAX);
}

ruvllm_status rv_store_name_policy(const char *text, struct ruvllm_error *err)
{
    if (is_name(text, 1, RV_STORE_POLICY_MAX, "._-"))
        return RUVLLM_OK;
    return rv_fail(err, RUVLLM_INVALID, "a policy is named by 1 to %d letters (A-Z, a-z), digits, '.', '_' or '-'",
                   RV_STORE_POLICY_MAX);
}

/* Neither broken UTF-8 nor anything a terminal would obey. */
static bool is_plain_text(const char *text, size_t len)
{
    uint32_t cp = 0;

    for (size_t i = 0; i < len;) {
        int n = rv_utf8_decode(text + i, len - i, &cp);

        if (n <= 0 || cp < 0x20 || (cp >= 0x7F && cp < 0xA0))
            return false;
        i += (size_t)n;
    }
    return true;
}

ruvllm_status rv_store_name_text(const char *text, size_t max, const char *what, struct ruvllm_error *err)
{
    size_t len = text ? strnlen(text, max + 1) : 0;

    if (len > max)
        return rv_fail(err, RUVLLM_INVALID, "%s is longer than %zu bytes", what, max);
    if (len && !is_plain_text(text, len))
        return rv_fail(err, RUVLLM_INVALID, "%s must be UTF-8 without control characters", what);
    return RUVLLM_OK;
}

void rv_store_name_copy(char *out, size_t max, const char *text)
{
    size_t len = text ? strnlen(text, max) : 0;

    if (len)
        memcpy(out, text, len);
    out[len] = '\0';
}
