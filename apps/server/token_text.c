/*
 * Some tokenizers lose a word's leading space when its token is decoded alone. In a row of two, the second one has it:
 * what the row is longer than the token alone is the token's own text.
 */
#include "server/token_text.h"

#include <string.h>

ruvllm_status rv_token_text(const ruvllm_model *model, int32_t token, char **text, size_t *len,
                            struct ruvllm_error *err)
{
    const int32_t row[2] = {token, token};
    char *alone = NULL, *both = NULL;
    size_t alone_len, both_len;
    ruvllm_status rc = ruvllm_detokenize(model, row, 1, true, &alone, &alone_len, err);

    *text = NULL;
    *len = 0;
    ruvllm_free(alone);
    if (!rc)
        rc = ruvllm_detokenize(model, row, 2, true, &both, &both_len, err);
    if (rc)
        return rc;
    *len = both_len > alone_len ? both_len - alone_len : 0;
    memmove(both, both + both_len - *len, *len + 1);
    *text = both;
    return RUVLLM_OK;
}
