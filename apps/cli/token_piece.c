/*
 * Decoding a whole text drops the space that some tokenizers put before the first word, so a token decoded alone
 * may lose its space. Decoding it twice in a row shows the difference: what the second one adds is the piece.
 */
#include "token_piece.h"

#include "base/alloc.h"
#include "base/utf8.h"

#include <string.h>

ruvllm_status rv_token_piece(const ruvllm_model *model, int32_t token, char **piece, size_t *len,
                             struct ruvllm_error *err)
{
    int32_t twice[2] = {token, token};
    char *once_text, *twice_text;
    size_t once_len, twice_len;
    ruvllm_status rc;

    *piece = NULL;
    rc = ruvllm_detokenize(model, twice, 1, true, &once_text, &once_len, err);
    if (rc)
        return rc;
    ruvllm_free(once_text);
    rc = ruvllm_detokenize(model, twice, 2, true, &twice_text, &twice_len, err);
    if (rc)
        return rc;
    RV_ASSERT(twice_len >= once_len);
    *len = twice_len - once_len;
    memmove(twice_text, twice_text + once_len, *len);
    twice_text[*len] = '\0';
    *piece = twice_text;
    return RUVLLM_OK;
}

void rv_token_piece_json(yyjson_mut_doc *doc, yyjson_mut_val *object, const ruvllm_model *model, int32_t token)
{
    static const char digits[] = "0123456789abcdef";
    char *piece, *hex;
    size_t len;

    if (rv_token_piece(model, token, &piece, &len, NULL) != RUVLLM_OK)
        return;
    rv_output_json_add(doc, object, "text", rv_output_json_text(doc, piece, len));
    if (!rv_utf8_valid(piece, len) && (hex = rv_calloc(2 * len + 1, 1)) != NULL) {
        for (size_t i = 0; i < len; i++) {
            hex[2 * i] = digits[(unsigned char)piece[i] >> 4];
            hex[2 * i + 1] = digits[(unsigned char)piece[i] & 15];
        }
        yyjson_mut_obj_add_strcpy(doc, object, "bytes", hex);
        rv_free(hex);
    }
    ruvllm_free(piece);
}
