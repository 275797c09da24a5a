/*
 * The web page in the binary: files of apps/server/page, put into a table when the program is built. They are open to
 * everybody (the page asks for a key itself) and hold nothing secret.
 */
#ifndef RV_SERVER_PAGE_H
#define RV_SERVER_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct rv_page_file {
    const char *name; // "index.html"; NULL ends the table
    const unsigned char *data;
    size_t len;
    const char *etag; // quoted, from the content
};

/* The file for a path: "/" is index.html, "/page/NAME" is NAME. NULL: there is none. */
const struct rv_page_file *rv_page_find(const char *path);
/* The API's document, apps/server/api/openapi.json; embedded like the page's files but none of them: it needs a key. */
extern const struct rv_page_file rv_page_document[];
/* By its name's ending. */
const char *rv_page_content_type(const struct rv_page_file *file);

/* Headers that go with every file, NULL-terminated pairs. */
struct rv_page_header {
    const char *name;
    const char *value;
};
extern const struct rv_page_header rv_page_headers[];

#endif
