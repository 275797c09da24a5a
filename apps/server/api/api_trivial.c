/* Values that ask for nothing. */
#include "server/api/api_trivial.h"

bool rv_api_trivial_string(yyjson_val *value)
{
    return yyjson_is_str(value);
}

bool rv_api_trivial_bool(yyjson_val *value)
{
    return yyjson_is_bool(value);
}

bool rv_api_trivial_array(yyjson_val *value)
{
    return yyjson_is_arr(value);
}

bool rv_api_trivial_false(yyjson_val *value)
{
    return yyjson_is_false(value);
}

bool rv_api_trivial_empty(yyjson_val *value)
{
    return yyjson_is_arr(value) && yyjson_arr_size(value) == 0;
}

bool rv_api_trivial_no_text(yyjson_val *value)
{
    return yyjson_equals_str(value, "");
}

bool rv_api_trivial_tool_choice(yyjson_val *value)
{
    return yyjson_equals_str(value, "none") || yyjson_equals_str(value, "auto");
}

bool rv_api_trivial_tier(yyjson_val *value)
{
    return yyjson_equals_str(value, "auto") || yyjson_equals_str(value, "default");
}

bool rv_api_trivial_medium(yyjson_val *value)
{
    return yyjson_equals_str(value, "medium");
}

bool rv_api_trivial_in_memory(yyjson_val *value)
{
    return yyjson_equals_str(value, "in_memory");
}

bool rv_api_trivial_disabled(yyjson_val *value)
{
    return yyjson_equals_str(value, "disabled");
}

bool rv_api_trivial_only_text(yyjson_val *value)
{
    return yyjson_arr_size(value) == 1 && yyjson_equals_str(yyjson_arr_get_first(value), "text");
}
