/*
 * One metadata value of a GGUF file that has been parsed: where its bytes lie and how to read them. Nothing here
 * checks bounds; gguf_parse did so before it handed out the value. Bytes may lie at any address.
 */
#ifndef RV_MODEL_GGUF_VALUE_H
#define RV_MODEL_GGUF_VALUE_H

#include "model/gguf_file.h"

struct rv_gguf_value {
    enum rv_gguf_type type; // of the elements when is_array; never RV_GGUF_ARRAY
    bool is_array;
    size_t n;                   // elements; 1 unless is_array
    const unsigned char *bytes; // the first element; a string begins with its 8-byte length
};

enum { RV_GGUF_VALUE_LABEL = 72 };

/* The name the format gives a type, such as "u32" or "string". */
const char *rv_gguf_value_type_name(enum rv_gguf_type type);
/* Bytes an element takes in the file; 0 for strings and arrays, whose size differs. */
size_t rv_gguf_value_type_size(enum rv_gguf_type type);
bool rv_gguf_value_is_integer(enum rv_gguf_type type);

/* One element at `bytes`. False, with *out untouched, for another kind of type or a value that does not fit. */
bool rv_gguf_value_u64(enum rv_gguf_type type, const unsigned char *bytes, uint64_t *out);
bool rv_gguf_value_i64(enum rv_gguf_type type, const unsigned char *bytes, int64_t *out);
bool rv_gguf_value_f64(enum rv_gguf_type type, const unsigned char *bytes, double *out);
/* A string element; the next one begins where it ends. */
struct rv_str rv_gguf_value_str(const unsigned char *bytes);

uint32_t rv_gguf_value_load_u32(const unsigned char *bytes);
uint64_t rv_gguf_value_load_u64(const unsigned char *bytes);

/*
 * A key or name from a file, made fit for a message: at most 64 characters (then "..."), anything but printable
 * ASCII shown as '?', so that a file cannot forge log lines or drive a terminal. Returns `out`.
 */
const char *rv_gguf_value_label(const char *text, size_t len, char out[RV_GGUF_VALUE_LABEL]);

#endif
