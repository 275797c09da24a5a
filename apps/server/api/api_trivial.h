/* Tests for values of fields we do not act on: true when the value asks for nothing that is not so anyway. */
#ifndef RV_API_API_TRIVIAL_H
#define RV_API_API_TRIVIAL_H

#include <stdbool.h>

#include <yyjson.h>

bool rv_api_trivial_string(yyjson_val *value);
bool rv_api_trivial_bool(yyjson_val *value);
bool rv_api_trivial_array(yyjson_val *value);
bool rv_api_trivial_false(yyjson_val *value);
bool rv_api_trivial_empty(yyjson_val *value);   // an array without elements
bool rv_api_trivial_no_text(yyjson_val *value); // a string without bytes
bool rv_api_trivial_tool_choice(yyjson_val *value);
bool rv_api_trivial_tier(yyjson_val *value);
bool rv_api_trivial_medium(yyjson_val *value);
bool rv_api_trivial_in_memory(yyjson_val *value);
bool rv_api_trivial_disabled(yyjson_val *value);
bool rv_api_trivial_only_text(yyjson_val *value); // ["text"]

#endif
