/* Streams, colours, errors and JSON. */
#include "output.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool rv_output_is_terminal(FILE *stream)
{
    return isatty(fileno(stream)) == 1;
}

bool rv_output_has_colour(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    return !(no_color && *no_color) && term && *term && strcmp(term, "dumb") != 0 && rv_output_is_terminal(stream);
}

const char *rv_output_style(FILE *stream, enum rv_style style)
{
    static const char *const codes[] = {
        [RV_STYLE_RESET] = "\033[0m", [RV_STYLE_BOLD] = "\033[1m",   [RV_STYLE_DIM] = "\033[2m",
        [RV_STYLE_RED] = "\033[31m",  [RV_STYLE_GREEN] = "\033[32m", [RV_STYLE_YELLOW] = "\033[33m",
        [RV_STYLE_CYAN] = "\033[36m",
    };

    return rv_output_has_colour(stream) ? codes[style] : "";
}

size_t rv_output_width(FILE *stream)
{
    struct winsize size;

    if (rv_output_is_terminal(stream) && ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        return size.ws_col;
    return 80;
}

static void write_visible(FILE *stream, uint32_t cp, const char *bytes, size_t len)
{
    if (cp < 0x20 || cp == 0x7F)
        fprintf(stream, "^%c", (char)(cp ^ 0x40));
    else if (cp >= 0x80 && cp < 0xA0)
        fprintf(stream, "\\x%02x", (unsigned)cp);
    else
        fwrite(bytes, 1, len, stream);
}

void rv_output_text(FILE *stream, const char *text, size_t len)
{
    uint32_t cp;

    if (!rv_output_is_terminal(stream)) {
        fwrite(text, 1, len, stream);
        return;
    }
    for (size_t i = 0; i < len;) {
        int n = rv_utf8_decode(text + i, len - i, &cp);

        if (n <= 0) {
            fputs("\xEF\xBF\xBD", stream);
            n = 1;
        } else if (cp == '\n' || cp == '\t') {
            putc((int)cp, stream);
        } else {
            write_visible(stream, cp, text + i, (size_t)n);
        }
        i += (size_t)n;
    }
}

void rv_output_field(FILE *stream, const char *text, size_t len)
{
    uint32_t cp;

    for (size_t i = 0; i < len;) {
        int n = rv_utf8_decode(text + i, len - i, &cp);

        if (n <= 0) {
            fprintf(stream, "\\x%02x", (unsigned)(unsigned char)text[i]);
            n = 1;
        } else if (cp == '\n') {
            fputs("\\n", stream);
        } else if (cp == '\t') {
            fputs("\\t", stream);
        } else if (cp == '\r') {
            fputs("\\r", stream);
        } else {
            write_visible(stream, cp, text + i, (size_t)n);
        }
        i += (size_t)n;
    }
}

static void message(enum rv_style style, const char *label, const char *text)
{
    fprintf(stderr, "%s%s:%s ", rv_output_style(stderr, style), label, rv_output_style(stderr, RV_STYLE_RESET));
    rv_output_field(stderr, text, strlen(text));
    putc('\n', stderr);
}

void rv_output_error(const char *hint, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    /* What was printed so far belongs before the complaint. */
    fflush(stdout);
    message(RV_STYLE_RED, "error", text);
    if (hint)
        message(RV_STYLE_CYAN, "hint", hint);
}

void rv_output_warning(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    fflush(stdout);
    message(RV_STYLE_YELLOW, "warning", text);
}

static const char *advice(ruvllm_status status)
{
    switch (status) {
    case RUVLLM_TOO_LARGE:
        return "shorten the input, or give a larger --ctx if the model allows it";
    case RUVLLM_NO_MEMORY:
        return "give a smaller --ctx, or use a model with fewer bits per weight";
    case RUVLLM_FORMAT:
        return "'ruvllm info FILE' shows what can be read; a damaged download has to be fetched again";
    case RUVLLM_UNSUPPORTED:
        return "'ruvllm info FILE' shows what the file holds; a newer ruvllm may know more";
    case RUVLLM_BACKEND:
        return "'ruvllm doctor' checks this machine; '--device CPU' avoids other devices";
    case RUVLLM_NO_SPACE:
        return "make room on the disk and run it again";
    case RUVLLM_INTERNAL:
        return "this is a bug in ruvllm: please report it with the command you ran";
    default:
        return NULL;
    }
}

int rv_output_failure(const struct ruvllm_error *err, const char *hint)
{
    if (err->status == RUVLLM_CANCELLED)
        return RV_EXIT_INTERRUPTED;
    rv_output_error(hint ? hint : advice(err->status), "%s", err->message);
    return RV_EXIT_FAILURE;
}

const char *rv_output_bytes(uint64_t bytes, char out[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    snprintf(out, 24, unit == 0 || value >= 100 ? "%.0f %s" : value >= 10 ? "%.1f %s" : "%.2f %s", value, units[unit]);
    return out;
}

const char *rv_output_count(uint64_t n, char out[32])
{
    char digits[24];
    size_t len = (size_t)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), used = 0;

    for (size_t i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}

double rv_output_rate(int64_t n, int64_t us)
{
    return us > 0 ? (double)n * 1e6 / (double)us : 0;
}

int rv_output_json(yyjson_mut_doc *doc, bool one_line)
{
    yyjson_write_flag flags = YYJSON_WRITE_NOFLAG;
    yyjson_write_err err;
    size_t len;
    char *text;

    if (!one_line && rv_output_is_terminal(stdout))
        flags = YYJSON_WRITE_PRETTY_TWO_SPACES;
    text = yyjson_mut_write_opts(doc, flags, NULL, &len, &err);
    yyjson_mut_doc_free(doc);
    if (!text) {
        rv_output_error(NULL, "cannot write JSON: %s", err.msg);
        return RV_EXIT_FAILURE;
    }
    fwrite(text, 1, len, stdout);
    putchar('\n');
    fflush(stdout);
    free(text);
    return RV_EXIT_OK;
}

yyjson_mut_val *rv_output_json_text(yyjson_mut_doc *doc, const char *text, size_t len)
{
    yyjson_mut_val *value;
    struct rv_buf clean;
    uint32_t cp;

    if (rv_utf8_valid(text, len))
        return yyjson_mut_strncpy(doc, text, len);
    rv_buf_init(&clean, 3 * len + 1);
    for (size_t i = 0; i < len;) {
        int n = rv_utf8_decode(text + i, len - i, &cp);

        if (n > 0)
            rv_buf_add(&clean, text + i, (size_t)n);
        else
            rv_buf_add_str(&clean, "\xEF\xBF\xBD");
        i += n > 0 ? (size_t)n : 1;
    }
    value = clean.failed ? NULL : yyjson_mut_strncpy(doc, clean.data, clean.len);
    rv_buf_release(&clean);
    return value;
}

yyjson_mut_val *rv_output_json_real(yyjson_mut_doc *doc, double value, int digits)
{
    double unit = pow(10, digits);

    return isfinite(value) ? yyjson_mut_real(doc, round(value * unit) / unit) : yyjson_mut_null(doc);
}

void rv_output_json_add(yyjson_mut_doc *doc, yyjson_mut_val *object, const char *key, yyjson_mut_val *value)
{
    yyjson_mut_obj_add(object, yyjson_mut_str(doc, key), value);
}
