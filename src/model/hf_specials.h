/*
 * Which tokens begin, end and pad a text, and the chat template: from tokenizer_config.json, the post-processor of
 * tokenizer.json and what config.json and generation_config.json say.
 */
#ifndef RV_MODEL_HF_SPECIALS_H
#define RV_MODEL_HF_SPECIALS_H

#include "model/hf_config.h"
#include "model/hf_tokenizer.h"

/*
 * Writes them into the image. tokenizer_config.json and chat_template.jinja of the open folder may be missing, and so
 * may the folder (-1). A post-processor that does more than put a token before and one behind the text is UNSUPPORTED.
 */
RV_CHECKED ruvllm_status rv_hf_specials_read(const struct rv_hf_tokenizer *tokenizer, const struct rv_hf_config *config,
                                             int folder, struct rv_gguf_image *image, struct ruvllm_error *err);

#endif
