/*
 * Adapters as files have them: pairs of matrices with the numbers in the types they came in, in GGUF's layout and with
 * GGUF's names, whatever the file was. Three formats:
 *
 *   GGUF   a LoRA file as llama.cpp reads it: NAME.lora_a, NAME.lora_b, one alpha for all
 *   PEFT   a folder with adapter_config.json and adapter_model.safetensors
 *   own    GGUF with adapter.type "ruvllm": a scale for each pair, the head's input, the hashes of content and base,
 *          and what is needed to write the PEFT folder it came from again, bit by bit
 *
 * Everything is checked before it is handed out: names and shapes against the model, ranks 1 to 256 and no larger than
 * the matrix, scales and every number finite, and the base model. Nothing is guessed: what cannot be honoured (DoRA,
 * whole modules, biases, embeddings, heads) is refused with a sentence.
 */
#ifndef RV_MODEL_ADAPTER_FILE_H
#define RV_MODEL_ADAPTER_FILE_H

#include "base/sha256.h"
#include "model/adapter.h"

#include "ruvllm_adapter.h"

/* Tensor names of the head's input. */
#define RV_ADAPTER_FILE_HEAD "head_input"

/* The model an adapter belongs to. */
struct rv_adapter_file_base {
    const struct rv_hparams *hparams;
    const struct rv_manifest *manifest;
    /*
     * Over the architecture, the widths and the norms' weights, which are the same 32 bits in every quantisation of a
     * model: what tells it from its neighbours of the same shape.
     */
    char hash[RV_SHA256_HEX_LEN + 1];
};

struct rv_adapter_file_matrix {
    enum ggml_type type;
    const void *data;
};

/* A change of one matrix: scale B A. */
struct rv_adapter_file_pair {
    int32_t layer; // -1: the head's input
    enum rv_part part;
    int32_t rank;
    int32_t n_in;
    int32_t n_out;
    float scale;
    struct rv_adapter_file_matrix a; // [rank][n_in], the last one fastest
    struct rv_adapter_file_matrix b; // [n_out][rank]
};

struct rv_adapter_file {
    struct rv_adapter_file_pair *pairs; // in the order of layers and parts, the head last
    size_t n_pairs;
    size_t n_layer_pairs; // without the head
    int32_t max_rank;
    char hash[RV_SHA256_HEX_LEN + 1];        // of the content: names, types, scales and numbers
    char layers_hash[RV_SHA256_HEX_LEN + 1]; // the same without the head; "" when no layer is changed
    struct rv_str peft_config;               // adapter_config.json, when it came from PEFT; else empty
    struct rv_str peft_header;               // the header of its safetensors file
    struct rv_adapter_file_storage *storage;
};

/* `hparams` and `manifest` must outlive it. */
void rv_adapter_file_base_init(struct rv_adapter_file_base *base, const struct rv_hparams *hparams,
                               const struct rv_manifest *manifest);

/* A folder is PEFT, anything else GGUF. Messages name the path. */
RV_CHECKED ruvllm_status rv_adapter_file_open(struct rv_adapter_file **out, const char *path,
                                              const struct rv_adapter_file_base *base, struct ruvllm_error *err);
/* What an adapter in memory would be as a file, in 16 bits. */
RV_CHECKED ruvllm_status rv_adapter_file_from(struct rv_adapter_file **out, const struct rv_adapter *adapter,
                                              const struct rv_adapter_file_base *base, struct ruvllm_error *err);
/* Accepts NULL. */
void rv_adapter_file_close(struct rv_adapter_file *file);

/* What steps compute with; *out has one reference and does not need the file any more. */
RV_CHECKED ruvllm_status rv_adapter_file_adapter(const struct rv_adapter_file *file,
                                                 const struct rv_adapter_file_base *base, struct rv_adapter **out,
                                                 struct ruvllm_error *err);

/*
 * Whole or not at all: a GGUF file takes the place of what is at `path` with a rename; a PEFT folder is made under
 * another name and renamed, and `path` must be free. What a format cannot say is UNSUPPORTED: the head's input in PEFT,
 * and in GGUF for a model whose head is its embedding.
 */
RV_CHECKED ruvllm_status rv_adapter_file_write(const struct rv_adapter_file *file,
                                               const struct rv_adapter_file_base *base, const char *path,
                                               ruvllm_adapter_format format, struct ruvllm_error *err);

/* ---- for those who make and read them (adapter_gguf, adapter_peft, adapter_merge) -------------- */

RV_CHECKED ruvllm_status rv_adapter_file_new(struct rv_adapter_file **out, struct ruvllm_error *err);
/* Memory that lives as long as the file; NULL when there is none. */
void *rv_adapter_file_alloc(struct rv_adapter_file *file, size_t bytes);
/* Closed with the file. */
void rv_adapter_file_keep_gguf(struct rv_adapter_file *file, struct rv_gguf_file *gguf);
/*
 * The pair of a matrix of the model, its widths filled in, made when it is not there: layer -1 for the head's input.
 * Neither rank nor data are set. INVALID when the model has no such matrix.
 */
RV_CHECKED ruvllm_status rv_adapter_file_pair_at(struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                                 int32_t layer, enum rv_part part, struct rv_adapter_file_pair **out,
                                                 struct ruvllm_error *err);
/* Puts the pairs in order, checks all there is to check, and computes the hashes. */
RV_CHECKED ruvllm_status rv_adapter_file_seal(struct rv_adapter_file *file, const struct rv_adapter_file_base *base,
                                              struct ruvllm_error *err);

/* "blk.3.attn_q.weight", or the head's name. */
struct rv_str rv_adapter_file_pair_name(const struct rv_adapter_file_base *base,
                                        const struct rv_adapter_file_pair *pair);
/* Rows of `row_len` numbers each, of any type. */
void rv_adapter_file_floats(const struct rv_adapter_file_matrix *matrix, int64_t row_len, int64_t first_row,
                            int64_t n_rows, float *out);
size_t rv_adapter_file_bytes(const struct rv_adapter_file_matrix *matrix, int64_t row_len, int64_t n_rows);
/* How each of the two in a pair lies in memory. */
enum rv_adapter_file_side { RV_ADAPTER_FILE_A, RV_ADAPTER_FILE_B };
struct rv_adapter_file_view {
    const struct rv_adapter_file_matrix *matrix;
    int64_t row_len; // the fastest dimension
    int64_t n_rows;
};
struct rv_adapter_file_view rv_adapter_file_side(const struct rv_adapter_file_pair *pair,
                                                 enum rv_adapter_file_side side);

#endif
