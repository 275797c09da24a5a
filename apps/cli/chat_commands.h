/* What can be typed in a chat besides messages: lines that begin with a slash. */
#ifndef RV_CLI_CHAT_COMMANDS_H
#define RV_CLI_CHAT_COMMANDS_H

#include "chat_session.h"

/* Runs `line`, which begins with '/'. False: the chat is over. Failures are reported, not returned. */
bool rv_chat_commands_run(struct rv_chat_session *chat, const char *line);
/* "/help", "/system", ... for completion; NULL-terminated, static. */
const char *const *rv_chat_commands_words(void);

#endif
