/* Reading single metadata values. The format is little-endian, and so are the machines we run on. */
#include "model/gguf_value.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weights are used where they lie: little-endian only");

static const struct {
    const char *name;
    unsigned char size;
    bool is_integer;
} types[RV_GGUF_N_TYPES] = {
    [RV_GGUF_U8] = {"u8", 1, true},        [RV_GGUF_I8] = {"i8", 1, true},      [RV_GGUF_U16] = {"u16", 2, true},
    [RV_GGUF_I16] = {"i16", 2, true},      [RV_GGUF_U32] = {"u32", 4, true},    [RV_GGUF_I32] = {"i32", 4, true},
    [RV_GGUF_F32] = {"f32", 4, false},     [RV_GGUF_BOOL] = {"bool", 1, false}, [RV_GGUF_STRING] = {"string", 0, false},
    [RV_GGUF_ARRAY] = {"array", 0, false}, [RV_GGUF_U64] = {"u64", 8, true},    [RV_GGUF_I64] = {"i64", 8, true},
    [RV_GGUF_F64] = {"f64", 8, false},
};

const char *rv_gguf_value_type_name(enum rv_gguf_type type)
{
    return types[type].name;
}

size_t rv_gguf_value_type_size(enum rv_gguf_type type)
{
    return types[type].size;
}

bool rv_gguf_value_is_integer(enum rv_gguf_type type)
{
    return types[type].is_integer;
}

uint32_t rv_gguf_value_load_u32(const unsigned char *bytes)
{
    uint32_t value;

    memcpy(&value, bytes, sizeof(value));
    return value;
}

uint64_t rv_gguf_value_load_u64(const unsigned char *bytes)
{
    uint64_t value;

    memcpy(&value, bytes, sizeof(value));
    return value;
}

/* The integer as 64 bits, sign-extended where the type has a sign. */
static uint64_t load_integer(enum rv_gguf_type type, const unsigned char *bytes)
{
    size_t size = types[type].size;
    unsigned shift = (unsigned)(64 - 8 * size);
    uint64_t bits = 0;

    memcpy(&bits, bytes, size);
    switch (type) {
    case RV_GGUF_I8:
    case RV_GGUF_I16:
    case RV_GGUF_I32:
        return (uint64_t)((int64_t)(bits << shift) >> shift);
    default:
        return bits;
    }
}

static bool is_signed(enum rv_gguf_type type)
{
    return type == RV_GGUF_I8 || type == RV_GGUF_I16 || type == RV_GGUF_I32 || type == RV_GGUF_I64;
}

bool rv_gguf_value_u64(enum rv_gguf_type type, const unsigned char *bytes, uint64_t *out)
{
    uint64_t bits;

    if (!types[type].is_integer)
        return false;
    bits = load_integer(type, bytes);
    if (is_signed(type) && (int64_t)bits < 0)
        return false;
    *out = bits;
    return true;
}

bool rv_gguf_value_i64(enum rv_gguf_type type, const unsigned char *bytes, int64_t *out)
{
    uint64_t bits;

    if (!types[type].is_integer)
        return false;
    bits = load_integer(type, bytes);
    if (!is_signed(type) && bits > INT64_MAX)
        return false;
    *out = (int64_t)bits;
    return true;
}

bool rv_gguf_value_f64(enum rv_gguf_type type, const unsigned char *bytes, double *out)
{
    float single;

    if (type == RV_GGUF_F32) {
        memcpy(&single, bytes, sizeof(single));
        *out = (double)single;
    } else if (type == RV_GGUF_F64) {
        memcpy(out, bytes, sizeof(*out));
    } else if (is_signed(type)) {
        *out = (double)(int64_t)load_integer(type, bytes);
    } else if (types[type].is_integer) {
        *out = (double)load_integer(type, bytes);
    } else {
        return false;
    }
    return true;
}

struct rv_str rv_gguf_value_str(const unsigned char *bytes)
{
    return (struct rv_str){.data = (const char *)bytes + 8, .len = (size_t)rv_gguf_value_load_u64(bytes)};
}

const char *rv_gguf_value_label(const char *text, size_t len, char out[RV_GGUF_VALUE_LABEL])
{
    size_t n = len > 64 ? 64 : len;

    for (size_t i = 0; i < n; i++)
        out[i] = text[i] >= 0x20 && text[i] < 0x7F ? text[i] : '?';
    memcpy(out + n, len > n ? "..." : "", len > n ? 4 : 1);
    return out;
}
