/*
 * What answers each route, one file a subject: handle_status.c, handle_generate.c, handle_embeddings.c, handle_text.c,
 * handle_models.c, handle_sessions.c, handle_adapters.c, handle_learning.c, handle_learning_log.c,
 * handle_patterns.c, handle_deep.c. Who calls them, and what they must leave behind, is in call.h.
 */
#ifndef RV_SERVER_HANDLERS_H
#define RV_SERVER_HANDLERS_H

#include "server/call.h"

void rv_handle_page(struct rv_call *call);
void rv_handle_openapi(struct rv_call *call);
void rv_handle_healthz(struct rv_call *call);
void rv_handle_readyz(struct rv_call *call);
void rv_handle_metrics(struct rv_call *call);

bool rv_handle_chat(struct rv_call *call);
bool rv_handle_completions(struct rv_call *call);
bool rv_handle_responses(struct rv_call *call);
bool rv_handle_embeddings(struct rv_call *call);
bool rv_handle_tokenize(struct rv_call *call);
bool rv_handle_detokenize(struct rv_call *call);
bool rv_handle_template(struct rv_call *call);
bool rv_handle_models(struct rv_call *call);
bool rv_handle_model(struct rv_call *call);
bool rv_handle_sessions(struct rv_call *call);
bool rv_handle_session(struct rv_call *call);
bool rv_handle_session_delete(struct rv_call *call);
bool rv_handle_session_save(struct rv_call *call);
bool rv_handle_session_restore(struct rv_call *call);
bool rv_handle_adapters(struct rv_call *call);
bool rv_handle_adapter_load(struct rv_call *call);
bool rv_handle_adapter(struct rv_call *call);
bool rv_handle_adapter_unload(struct rv_call *call);
bool rv_handle_adapter_export(struct rv_call *call);
bool rv_handle_adapter_diff(struct rv_call *call);
bool rv_handle_feedback(struct rv_call *call);
bool rv_handle_learning(struct rv_call *call);
bool rv_handle_learning_rollback(struct rv_call *call);
bool rv_handle_patterns(struct rv_call *call);
bool rv_handle_patterns_delete(struct rv_call *call);
bool rv_handle_learning_history(struct rv_call *call);
bool rv_handle_learning_pause(struct rv_call *call);
bool rv_handle_learning_resume(struct rv_call *call);
bool rv_handle_learning_forget(struct rv_call *call);
bool rv_handle_learning_export(struct rv_call *call);
bool rv_handle_deep(struct rv_call *call);
bool rv_handle_deep_begin(struct rv_call *call);
bool rv_handle_deep_stop(struct rv_call *call);

#endif
