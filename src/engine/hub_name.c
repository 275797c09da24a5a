/* What a name may look like, and which file it means. No file and no network is touched here. */
#include "engine/hub_name.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Not ctype's: these must not depend on the locale. */
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}

bool rv_hub_name_is_safe(const char *text, size_t len)
{
    if (len < 1 || len > RV_HUB_NAME_MAX || text[0] == '.')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_word(text[i]) && text[i] != '.' && text[i] != '_' && text[i] != '-')
            return false;
        if (text[i] == '.' && i + 1 < len && text[i + 1] == '.')
            return false;
    }
    return true;
}

bool rv_hub_name_is_safe_path(const char *path, const char **base)
{
    for (;;) {
        size_t len = strcspn(path, "/");

        if (!rv_hub_name_is_safe(path, len))
            return false;
        *base = path;
        if (!path[len])
            return true;
        path += len + 1;
    }
}

bool rv_hub_name_is_safe_revision(const char *revision)
{
    const char *base;

    return strnlen(revision, RV_HUB_NAME_MAX + 1) <= RV_HUB_NAME_MAX && rv_hub_name_is_safe_path(revision, &base);
}

const char *rv_hub_name_label(const char *text, char out[RV_HUB_NAME_LABEL])
{
    size_t len = strnlen(text, 65), shown = len > 64 ? 64 : len;

    for (size_t i = 0; i < shown; i++)
        out[i] = text[i] >= 0x20 && text[i] < 0x7F ? text[i] : '?';
    snprintf(out + shown, RV_HUB_NAME_LABEL - shown, "%s", len > 64 ? "..." : "");
    return out;
}

static void copy(char out[RV_HUB_NAME_MAX + 1], const char *text, size_t len)
{
    memcpy(out, text, len);
    out[len] = '\0';
}

ruvllm_status rv_hub_name_parse(struct rv_hub_name *out, const char *text, bool needs_owner, struct ruvllm_error *err)
{
    char label[RV_HUB_NAME_LABEL];
    size_t len = strcspn(text, ":");
    const char *slash = memchr(text, '/', len);
    const char *name = slash ? slash + 1 : text;
    size_t name_len = len - (size_t)(name - text);
    const char *wanted = text[len] ? text + len + 1 : "";

    *out = (struct rv_hub_name){0};
    if (!slash && needs_owner)
        return rv_fail(err, RUVLLM_INVALID,
                       "'%s' is no name of a model on a hub: write owner/name or owner/name:Q4_K_M",
                       rv_hub_name_label(text, label));
    if ((slash && !rv_hub_name_is_safe(text, (size_t)(slash - text))) || !rv_hub_name_is_safe(name, name_len) ||
        (text[len] && !rv_hub_name_is_safe(wanted, strnlen(wanted, RV_HUB_NAME_MAX + 1))))
        return rv_fail(err, RUVLLM_INVALID,
                       "'%s' is no name of a model: owner/name:file, each of letters, digits, '.', '_' and '-'",
                       rv_hub_name_label(text, label));
    if (slash)
        copy(out->owner, text, (size_t)(slash - text));
    copy(out->name, name, name_len);
    copy(out->wanted, wanted, strlen(wanted));
    return RUVLLM_OK;
}

void rv_hub_name_repository(const struct rv_hub_name *name, char out[2 * RV_HUB_NAME_MAX + 2])
{
    snprintf(out, 2 * RV_HUB_NAME_MAX + 2, "%s/%s", name->owner, name->name);
}

/* ---- quantisations in names ---------------------------------------------------------------- */

/* `word` in `text` with no letter, digit or (behind it) '_' touching it, whatever the case. */
static const char *find_word(const char *text, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = text; *at; at++) {
        if (strncasecmp(at, word, len) == 0 && (at == text || !is_word(at[-1])) && !is_word(at[len]) && at[len] != '_')
            return at;
    }
    return NULL;
}

/* Length of a quantisation that begins here: [I]Q<digit>..., TQ<digit>..., F16, F32, BF16, MXFP4; 0 for anything else.
 */
static size_t quantization_len(const char *at)
{
    static const char *const plain[] = {"F32", "F16", "BF16", "MXFP4", "NVFP4"};
    size_t i = 0;

    for (size_t k = 0; k < sizeof(plain) / sizeof(plain[0]); k++) {
        if (strncasecmp(at, plain[k], strlen(plain[k])) == 0)
            return strlen(plain[k]);
    }
    if (strchr("iItT", at[0]) && at[0])
        i++;
    if ((at[i] != 'q' && at[i] != 'Q') || !is_digit(at[i + 1]))
        return 0;
    while (is_word(at[i]) || at[i] == '_')
        i++;
    return i;
}

void rv_hub_name_quantization(const char *file, char out[RV_HUB_NAME_QUANT])
{
    out[0] = '\0';
    for (const char *at = file; *at; at++) {
        size_t len = at == file || !is_word(at[-1]) ? quantization_len(at) : 0;

        if (len == 0 || len >= RV_HUB_NAME_QUANT || is_word(at[len]))
            continue;
        for (size_t i = 0; i < len; i++)
            out[i] = at[i] >= 'a' && at[i] <= 'z' ? (char)(at[i] - 'a' + 'A') : at[i];
        out[len] = '\0'; // the last one counts: names of models come first
    }
}

bool rv_hub_name_is_gguf(const char *file)
{
    size_t len = strlen(file);

    return len > 5 && strcasecmp(file + len - 5, ".gguf") == 0;
}

bool rv_hub_name_is_split(const char *file)
{
    static const char form[] = "-#####-of-#####.gguf";
    size_t len = strlen(file), form_len = sizeof(form) - 1;

    if (len < form_len)
        return false;
    file += len - form_len;
    for (size_t i = 0; i < form_len; i++) {
        if (form[i] == '#' ? !is_digit(file[i]) : strncasecmp(&form[i], &file[i], 1) != 0)
            return false;
    }
    return true;
}

/* ---- choosing ------------------------------------------------------------------------------ */

static const char *base_of(const char *file)
{
    const char *slash = strrchr(file, '/');

    return slash ? slash + 1 : file;
}

/* The files with this quantisation in their name: how many, and the first two. */
static size_t count_quantized(const char *const *files, size_t n, const char *quantization, size_t found[2])
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (!find_word(base_of(files[i]), quantization))
            continue;
        if (count < 2)
            found[count] = i;
        count++;
    }
    return count;
}

static ruvllm_status accept(const char *const *files, size_t i, size_t *index, struct ruvllm_error *err)
{
    if (rv_hub_name_is_split(files[i]))
        return rv_fail(
            err, RUVLLM_UNSUPPORTED,
            "'%s' is one part of a model split over several files, which is not supported; choose another file",
            files[i]);
    *index = i;
    return RUVLLM_OK;
}

static ruvllm_status fail_not_there(const char *const *files, size_t n, const char *wanted, struct ruvllm_error *err)
{
    char list[160] = "";
    size_t at = 0;

    for (size_t i = 0; i < n && at + strlen(base_of(files[i])) + 3 < sizeof(list); i++)
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", i ? ", " : "", base_of(files[i]));
    return rv_fail(err, RUVLLM_NOT_FOUND, "there is no '%s'; there is %s", wanted, list);
}

ruvllm_status rv_hub_name_choose(const char *const *files, size_t n, const char *wanted, size_t *index,
                                 struct ruvllm_error *err)
{
    static const char *const preferred[] = {"Q4_K_M", "Q4_K_S", "Q5_K_M", "Q8_0"};
    size_t found[2], count;

    if (n == 0)
        return rv_fail(err, RUVLLM_NOT_FOUND, "there are no GGUF files");
    for (size_t i = 0; *wanted && i < n; i++) {
        if (strcmp(files[i], wanted) == 0 || strcmp(base_of(files[i]), wanted) == 0)
            return accept(files, i, index, err);
    }
    if (!*wanted) {
        for (size_t k = 0; k < sizeof(preferred) / sizeof(preferred[0]); k++) {
            if (count_quantized(files, n, preferred[k], found))
                return accept(files, found[0], index, err);
        }
        return accept(files, 0, index, err);
    }
    count = count_quantized(files, n, wanted, found);
    if (count == 0)
        return fail_not_there(files, n, wanted, err);
    if (count > 1 && !rv_hub_name_is_split(files[found[0]]))
        return rv_fail(err, RUVLLM_INVALID, "'%s' fits several files, such as '%.64s' and '%.64s': name one", wanted,
                       base_of(files[found[0]]), base_of(files[found[1]]));
    return accept(files, found[0], index, err);
}
