/*
 * What a token is for, told by how it is spelled. Files often leave this unsaid, or mark such tokens as ordinary
 * text; the spellings are those the model families publish.
 */
#ifndef RV_TEXT_TOKEN_NAMES_H
#define RV_TEXT_TOKEN_NAMES_H

#include "base/error.h"
#include "base/str.h"

enum rv_token_role {
    RV_TOKEN_ROLE_NONE = 0,
    RV_TOKEN_ROLE_CONTROL = 1 << 0, // never ordinary text
    RV_TOKEN_ROLE_END = 1 << 1,     // ends an answer
};

/* Flags of rv_token_role for a spelling. */
uint32_t rv_token_names_role(struct rv_str text);
bool rv_token_names_equal(struct rv_str text, const char *name);

#endif
