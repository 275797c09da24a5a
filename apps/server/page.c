/* Nothing of the page may come from, or be sent to, another place than this server. */
#include "server/page.h"

#include <string.h>

/* Written by cmake/embed_page.cmake. */
extern const struct rv_page_file rv_page_files[];

const struct rv_page_header rv_page_headers[] = {
    {"content-security-policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src "
     "'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
     "frame-ancestors 'none'"},
    {"x-content-type-options", "nosniff"},
    {"referrer-policy", "no-referrer"},
    {"x-frame-options", "DENY"},
    {"cross-origin-opener-policy", "same-origin"},
    {"cross-origin-resource-policy", "same-origin"},
    {"cache-control", "no-cache"},
    {NULL, NULL},
};

const struct rv_page_file *rv_page_find(const char *path)
{
    const char *name = NULL;

    if (strcmp(path, "/") == 0)
        name = "index.html";
    else if (strncmp(path, "/page/", 6) == 0)
        name = path + 6;
    for (const struct rv_page_file *file = rv_page_files; name && file->name; file++) {
        if (strcmp(file->name, name) == 0)
            return file;
    }
    return NULL;
}

const char *rv_page_content_type(const struct rv_page_file *file)
{
    static const struct {
        const char *ending;
        const char *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".mjs", "text/javascript; charset=utf-8"},
        {".json", "application/json"},
        {".svg", "image/svg+xml"},
        {".png", "image/png"},
        {".ico", "image/x-icon"},
        {".woff2", "font/woff2"},
        {".webmanifest", "application/manifest+json"},
    };
    const char *dot = strrchr(file->name, '.');

    for (size_t i = 0; dot && i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(dot, types[i].ending) == 0)
            return types[i].type;
    }
    return "application/octet-stream";
}
