/* Queries of a list of sessions. An accepted one is within its limits, and what it asks for, written down, is the same.
 */
#include "fuzz_target.h"
#include "server/session_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_page(const struct rv_session_page *page)
{
    char next[RV_SESSION_PAGE_NEXT], query[RV_SESSION_PAGE_NEXT + 32];
    struct rv_session_page again;
    struct rv_api_error wrong;

    if (page->limit < 1 || page->limit > RV_SESSION_PAGE_MAX || page->before_us < 0 ||
        strlen(page->before_id) >= RV_SESSION_PAGE_ID || !page->before_us != !page->before_id[0])
        abort();
    rv_session_page_next(page->before_us, page->before_id, next);
    snprintf(query, sizeof(query), "limit=%d%s%s", page->limit, page->before_us ? "&after=" : "",
             page->before_us ? next : "");
    if (!rv_session_page_read(&again, query, &wrong) || again.limit != page->limit ||
        again.before_us != page->before_us || strcmp(again.before_id, page->before_id) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rv_session_page page;
    struct rv_api_error wrong = {0};
    char *query = malloc(size + 1); // of its own size, so that a byte read beyond it is seen

    if (!query)
        return 0;
    memcpy(query, data, size);
    query[size] = '\0';
    if (rv_session_page_read(&page, query, &wrong))
        check_page(&page);
    else if (wrong.http_status != 400 || !wrong.message[0])
        abort();
    free(query);
    return 0;
}
