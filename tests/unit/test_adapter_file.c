/* Adapters as GGUF files: each kind against the numbers that went in, and what is no adapter of the model. */
#include "model/adapter_gguf.h"
#include "model/adapter_norm.h"
#include "support/gguf_writer.h"
#include "support/paper_model.h"
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void assert_same_changes(const struct rv_adapter_file *a, const struct rv_adapter_file *b, double tolerance)
{
    assert_int_equal(a->n_pairs, b->n_pairs);
    for (size_t i = 0; i < a->n_pairs; i++) {
        double *x = paper_adapter_change(&a->pairs[i]), *y = paper_adapter_change(&b->pairs[i]);

        assert_int_equal(a->pairs[i].layer, b->pairs[i].layer);
        assert_int_equal(a->pairs[i].part, b->pairs[i].part);
        for (size_t j = 0; j < (size_t)a->pairs[i].n_in * (size_t)a->pairs[i].n_out; j++)
            assert_true(fabs(x[j] - y[j]) <= tolerance);
        free(x);
        free(y);
    }
}

/* ---- GGUF ---------------------------------------------------------------------------------- */

static void own_files_keep_everything(void **state)
{
    static const enum ggml_type types[] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct paper_adapter wanted = {.seed = i,
                                       .rank = 4,
                                       .head_rank = 2,
                                       .scale = 0.3f,
                                       .scale_step = 0.01f,
                                       .differing = true,
                                       .type = types[i]};
        struct rv_adapter_file *file = paper_adapter_new(&paper_llama, &wanted), *again;
        const char *path = test_temp_path(".gguf");

        assert_ok(rv_adapter_file_write(file, &paper_llama.base, path, RUVLLM_ADAPTER_OWN, err));
        again = paper_adapter_open(&paper_llama, path);
        assert_string_equal(again->hash, file->hash);
        assert_string_equal(again->layers_hash, file->layers_hash);
        assert_int_equal(again->max_rank, 4);
        assert_int_equal(again->n_layer_pairs + 1, again->n_pairs);
        assert_same_changes(file, again, 0);
        assert_int_equal(again->pairs[0].a.type, types[i]);
        rv_adapter_file_close(file);
        rv_adapter_file_close(again);
    }
}

/* One alpha for all is what the format has: nothing is converted. */
static void lora_files_read_back_as_they_were(void **state)
{
    struct paper_adapter wanted = {.seed = 3, .rank = 4, .scale = 2.0f, .type = GGML_TYPE_F16};
    struct rv_adapter_file *file = paper_adapter_new(&paper_llama, &wanted), *again;
    const char *path = test_temp_path(".gguf");
    struct rv_gguf_file *gguf;
    struct rv_str text;
    float alpha = 0;

    (void)state;
    assert_ok(rv_adapter_file_write(file, &paper_llama.base, path, RUVLLM_ADAPTER_GGUF, err));
    again = paper_adapter_open(&paper_llama, path);
    assert_string_equal(again->hash, file->hash);
    assert_ok(rv_gguf_file_open(&gguf, path, err));
    assert_ok(rv_gguf_file_f32(gguf, "adapter.lora.alpha", &alpha, err));
    assert_true(alpha == 8.0f);
    assert_ok(rv_gguf_file_str(gguf, "adapter.type", &text, err));
    assert_memory_equal(text.data, "lora", 4);
    assert_non_null(rv_gguf_file_tensor_find(gguf, "blk.1.attn_q.weight.lora_a"));
    assert_int_equal(rv_gguf_file_tensor_find(gguf, "blk.1.ffn_down.weight.lora_b")->ne[0], 4);
    assert_int_equal(rv_gguf_file_tensor_find(gguf, "blk.1.ffn_down.weight.lora_b")->ne[1], PAPER_EMBD);
    rv_gguf_file_close(gguf);
    rv_adapter_file_close(file);
    rv_adapter_file_close(again);
}

static void differing_scales_go_into_b(void **state)
{
    struct paper_adapter wanted = {
        .seed = 4, .rank = 4, .scale = 0.7f, .scale_step = 0.1f, .differing = true, .type = GGML_TYPE_BF16};
    struct rv_adapter_file *file = paper_adapter_new(&paper_llama, &wanted), *again;
    const char *path = test_temp_path(".gguf");

    (void)state;
    assert_ok(rv_adapter_file_write(file, &paper_llama.base, path, RUVLLM_ADAPTER_GGUF, err));
    again = paper_adapter_open(&paper_llama, path);
    assert_same_changes(file, again, 1e-6);
    assert_true(again->pairs[3].scale == 1.0f && again->pairs[3].b.type == GGML_TYPE_F32);
    rv_adapter_file_close(file);
    rv_adapter_file_close(again);
}

/* W (h + s B A h) = (W + s (W B) A) h. */
static void the_heads_input_becomes_a_change_of_the_head(void **state)
{
    struct paper_adapter wanted = {.seed = 5, .rank = 2, .head_rank = 2, .scale = 0.5f, .type = GGML_TYPE_F32};
    struct rv_adapter_file *file = paper_adapter_new(&paper_llama, &wanted), *again;
    const struct rv_adapter_file_pair *pair = paper_adapter_pair(file, -1, RV_PART_ATTN_NORM);
    const char *path = test_temp_path(".gguf");
    const struct rv_gguf_tensor *t;
    const float *b = pair->b.data, *made;
    struct rv_gguf_file *gguf;
    struct ruvllm_error fault = {0};

    (void)state;
    assert_ok(rv_adapter_file_write(file, &paper_llama.base, path, RUVLLM_ADAPTER_GGUF, err));
    assert_ok(rv_gguf_file_open(&gguf, path, err));
    t = rv_gguf_file_tensor_find(gguf, "output.weight.lora_b");
    assert_non_null(t);
    assert_int_equal(t->ne[0], 2);
    assert_int_equal(t->ne[1], PAPER_VOCAB);
    made = t->data;
    for (size_t v = 0; v < PAPER_VOCAB; v++) {
        for (size_t r = 0; r < 2; r++) {
            double sum = 0;

            for (size_t i = 0; i < PAPER_EMBD; i++)
                sum += (double)paper_llama.head[v * PAPER_EMBD + i] * (double)b[i * 2 + r];
            assert_true(fabs(sum - (double)made[v * 2 + r]) < 1e-6);
        }
    }
    rv_gguf_file_close(gguf);
    assert_fails(rv_adapter_file_open(&again, path, &paper_llama.base, &fault), RUVLLM_UNSUPPORTED, fault,
                 "the head's input is");
    rv_adapter_file_close(file);
    file = paper_adapter_new(&paper_qwen2, &wanted);
    assert_fails(rv_adapter_file_write(file, &paper_qwen2.base, test_temp_path(".gguf"), RUVLLM_ADAPTER_GGUF, &fault),
                 RUVLLM_UNSUPPORTED, fault, "head is its embedding");
    rv_adapter_file_close(file);
}

/* ---- the base ------------------------------------------------------------------------------ */

static void another_base_is_refused(void **state)
{
    struct paper_adapter wanted = {.seed = 6, .rank = 2, .scale = 1.0f, .type = GGML_TYPE_F32};
    struct rv_adapter_file *file = paper_adapter_new(&paper_llama, &wanted), *again;
    const char *own = test_temp_path(".gguf"), *lora = test_temp_path(".gguf");
    struct paper_model other;
    struct ruvllm_error fault = {0};

    (void)state;
    paper_model_init(&other, "llama", 99, false);
    assert_ok(rv_adapter_file_write(file, &paper_llama.base, own, RUVLLM_ADAPTER_OWN, err));
    assert_ok(rv_adapter_file_write(file, &paper_llama.base, lora, RUVLLM_ADAPTER_GGUF, err));
    assert_fails(rv_adapter_file_open(&again, own, &other.base, &fault), RUVLLM_FORMAT, fault, "another base model");
    assert_null(again);
    assert_fails(rv_adapter_file_open(&again, lora, &other.base, &fault), RUVLLM_FORMAT, fault, "weights of the norms");
    assert_fails(rv_adapter_file_open(&again, own, &paper_qwen2.base, &fault), RUVLLM_FORMAT, fault,
                 "general.architecture");
    paper_model_release(&other);
    rv_adapter_file_close(file);
}

/* A LoRA file with one pair and the chance to change it. */
struct small {
    const char *type, *arch, *kind, *name;
    int64_t n_in, n_out, rank_a, rank_b;
    float alpha, first; // first is the first number of A
    bool has_b;
};

static const struct small good = {.type = "adapter",
                                  .arch = "llama",
                                  .kind = "lora",
                                  .name = "blk.1.attn_q.weight",
                                  .n_in = PAPER_EMBD,
                                  .n_out = PAPER_HEADS * PAPER_HEAD_DIM,
                                  .rank_a = 2,
                                  .rank_b = 2,
                                  .alpha = 4.0f,
                                  .first = 0.5f,
                                  .has_b = true};

static ruvllm_status open_small(const struct small *s, struct ruvllm_error *err)
{
    float *zeros = calloc((size_t)1 << 16, sizeof(*zeros));
    struct rv_adapter_file *file = NULL;
    struct gguf_writer w;
    char name[128], *bytes;
    size_t len;
    ruvllm_status rc;

    assert_non_null(zeros);
    zeros[0] = s->first;
    gguf_writer_init(&w);
    gguf_writer_str(&w, "general.type", s->type);
    gguf_writer_str(&w, "general.architecture", s->arch);
    gguf_writer_str(&w, "adapter.type", s->kind);
    gguf_writer_f32(&w, "adapter.lora.alpha", s->alpha);
    (void)snprintf(name, sizeof(name), "%s.lora_a", s->name);
    gguf_writer_tensor(&w, name, GGML_TYPE_F32, 2, (int64_t[]){s->n_in, s->rank_a}, zeros);
    (void)snprintf(name, sizeof(name), "%s.lora_b", s->name);
    if (s->has_b)
        gguf_writer_tensor(&w, name, GGML_TYPE_F32, 2, (int64_t[]){s->rank_b, s->n_out}, NULL);
    bytes = gguf_writer_finish(&w, &len);
    rc = rv_adapter_gguf_open_memory(&file, bytes, len, &paper_llama.base, err);
    if (rc)
        assert_null(file);
    else
        assert_true(file->pairs[0].scale == 2.0f);
    rv_adapter_file_close(file);
    free(bytes);
    free(zeros);
    return rc;
}

static void what_is_no_adapter_of_this_model_is_refused(void **state)
{
    struct ruvllm_error fault = {0};
    struct small s = good;

    (void)state;
    assert_int_equal(open_small(&s, &fault), RUVLLM_OK);
#define REFUSED(status, text, ...)                                                                                     \
    do {                                                                                                               \
        s = good;                                                                                                      \
        __VA_ARGS__;                                                                                                   \
        assert_fails(open_small(&s, &fault), status, fault, text);                                                     \
    } while (0)
    REFUSED(RUVLLM_FORMAT, "no adapter: 'general.type'", s.type = "model");
    REFUSED(RUVLLM_FORMAT, "another base model: 'general.architecture' is 'qwen2'", s.arch = "qwen2");
    REFUSED(RUVLLM_FORMAT, "'adapter.type'", s.kind = "other");
    REFUSED(RUVLLM_FORMAT, "no matrix 'blk.2.attn_q.weight'", s.name = "blk.2.attn_q.weight");
    REFUSED(RUVLLM_FORMAT, "no matrix 'blk.-1.attn_q.weight'", s.name = "blk.-1.attn_q.weight");
    REFUSED(RUVLLM_FORMAT, "no matrix 'blk.1.attn_qkv.weight'", s.name = "blk.1.attn_qkv.weight");
    REFUSED(RUVLLM_FORMAT, "no matrix 'head_input'", s.name = "head_input");
    REFUSED(RUVLLM_UNSUPPORTED, "changes the embedding", s.name = "token_embd.weight");
    REFUSED(RUVLLM_UNSUPPORTED, "changes a norm", s.name = "blk.1.attn_norm.weight");
    REFUSED(RUVLLM_FORMAT, "has 32: it was made for another base", s.n_in = PAPER_EMBD * 2);
    REFUSED(RUVLLM_FORMAT, "has 32: it was made for another base", s.n_out = 8);
    REFUSED(RUVLLM_FORMAT, "ranks 2 and 3", s.rank_b = 3);
    REFUSED(RUVLLM_FORMAT, "rank 33 is not between 1 and 32", s.rank_a = s.rank_b = 33);
    REFUSED(RUVLLM_FORMAT, "rank 300 is more than 256", s.rank_a = s.rank_b = 300);
    REFUSED(RUVLLM_FORMAT, "NaN or infinity", s.first = NAN);
    REFUSED(RUVLLM_FORMAT, "NaN or infinity", s.first = -INFINITY);
    REFUSED(RUVLLM_FORMAT, "adapter.lora.alpha", s.alpha = NAN);
    REFUSED(RUVLLM_FORMAT, "its B is missing", s.has_b = false);
#undef REFUSED
}

static void a_changed_bit_in_an_own_file_is_seen(void **state)
{
    struct paper_adapter wanted = {.seed = 7, .rank = 2, .head_rank = 1, .scale = 1.0f, .type = GGML_TYPE_F16};
    struct rv_adapter_file *file = paper_adapter_new(&paper_llama, &wanted), *again;
    const char *path = test_temp_path(".gguf");
    struct ruvllm_error fault = {0};
    char *bytes;
    size_t len;

    (void)state;
    assert_ok(rv_adapter_file_write(file, &paper_llama.base, path, RUVLLM_ADAPTER_OWN, err));
    bytes = test_read_file(path, &len);
    assert_ok(rv_adapter_gguf_open_memory(&again, bytes, len, &paper_llama.base, err));
    rv_adapter_file_close(again);
    bytes[len - 100] ^= 1;
    assert_fails(rv_adapter_gguf_open_memory(&again, bytes, len, &paper_llama.base, &fault), RUVLLM_FORMAT, fault,
                 "damaged");
    free(bytes);
    rv_adapter_file_close(file);
}

/* ---- memory -------------------------------------------------------------------------------- */

static void memory_and_files_are_the_same_adapter(void **state)
{
    struct paper_adapter wanted = {
        .seed = 8, .rank = 3, .head_rank = 2, .scale = 0.5f, .scale_step = 0.25f, .type = GGML_TYPE_F16};
    struct rv_adapter_file *file = paper_adapter_new(&paper_phi3, &wanted), *again;
    const struct rv_adapter_file_pair *pair = paper_adapter_pair(file, 1, RV_PART_QKV);
    const uint16_t *b = pair->b.data;
    struct rv_adapter *adapter;
    double norm2 = 0;

    (void)state;
    assert_ok(rv_adapter_file_adapter(file, &paper_phi3.base, &adapter, err));
    assert_int_equal(adapter->max_rank, 3);
    assert_int_equal(adapter->layers[1][RV_PART_QKV].n_out, pair->n_out);
    assert_memory_equal(adapter->layers[1][RV_PART_QKV].a, pair->a.data, (size_t)3 * PAPER_EMBD * sizeof(uint16_t));
    assert_int_equal(adapter->layers[1][RV_PART_QKV].b[2 * pair->n_out + 5], b[5 * 3 + 2]);
    assert_int_equal((uintptr_t)adapter->layers[1][RV_PART_QKV].b % 64, 0);
    assert_int_equal(adapter->layers[1][RV_PART_Q].rank, 0);
    assert_ok(rv_adapter_file_from(&again, adapter, &paper_phi3.base, err));
    assert_string_equal(again->hash, file->hash);
    for (size_t i = 0; i < file->n_pairs; i++) {
        double *change = paper_adapter_change(&file->pairs[i]);

        for (size_t j = 0; j < (size_t)file->pairs[i].n_in * (size_t)file->pairs[i].n_out; j++)
            norm2 += change[j] * change[j];
        free(change);
    }
    assert_true(fabs(rv_adapter_norm(adapter) - sqrt(norm2)) < 1e-9 * sqrt(norm2));
    assert_true(rv_adapter_norm_difference(adapter, adapter) == 0);
    rv_adapter_unref(adapter);
    rv_adapter_file_close(again);
    rv_adapter_file_close(file);
}

static void numbers_too_large_for_16_bits_are_refused(void **state)
{
    struct paper_adapter wanted = {.seed = 9, .rank = 2, .scale = 1.0f, .type = GGML_TYPE_F32};
    struct rv_adapter_file *file = paper_adapter_new(&paper_llama, &wanted);
    struct rv_adapter *adapter;
    struct ruvllm_error fault = {0};

    (void)state;
    ((float *)(uintptr_t)file->pairs[2].b.data)[1] = 70000.0f;
    assert_fails(rv_adapter_file_adapter(file, &paper_llama.base, &adapter, &fault), RUVLLM_INVALID, fault, "16 bits");
    assert_null(adapter);
    rv_adapter_file_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_files_keep_everything),
        cmocka_unit_test(lora_files_read_back_as_they_were),
        cmocka_unit_test(differing_scales_go_into_b),
        cmocka_unit_test(the_heads_input_becomes_a_change_of_the_head),
        cmocka_unit_test(another_base_is_refused),
        cmocka_unit_test(what_is_no_adapter_of_this_model_is_refused),
        cmocka_unit_test(a_changed_bit_in_an_own_file_is_seen),
        cmocka_unit_test(memory_and_files_are_the_same_adapter),
        cmocka_unit_test(numbers_too_large_for_16_bits_are_refused),
    };

    return cmocka_run_group_tests(tests, paper_model_setup, paper_model_teardown);
}
