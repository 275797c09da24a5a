#include "server/api/api_patterns.h"

#include "server/api/api_json.h"

static const char *name_of(ruvllm_verdict verdict)
{
    return verdict == RUVLLM_VERDICT_GOOD ? "good" : verdict == RUVLLM_VERDICT_BAD ? "bad" : "mixed";
}

void rv_api_patterns_reply(struct rv_buf *out, const char *model, const struct ruvllm_pattern *pattern)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", "learning.pattern");
    rv_api_json_str(out, "model", model);
    rv_api_json_int(out, "sequence", pattern->sequence);
    rv_api_json_int(out, "created", pattern->time_us / 1000000);
    rv_api_json_float(out, "quality", (float)pattern->quality);
    rv_api_json_str(out, "verdict", name_of(pattern->verdict));
    rv_api_json_int(out, "used", pattern->n_used);
    rv_api_json_end(out, '}');
}

void rv_api_patterns_reply_deleted(struct rv_buf *out)
{
    rv_api_json_begin(out, NULL, '{');
    rv_api_json_str(out, "object", "learning.patterns");
    rv_api_json_bool(out, "deleted", true);
    rv_api_json_end(out, '}');
}
