/* Which type each tensor gets. */
#include "model/quantize_mix.h"
#include "support/test.h"

#include <string.h>

static struct ruvllm_error fault;

static struct rv_str str(const char *text)
{
    return (struct rv_str){text, strlen(text)};
}

static const struct rv_quantize_mix *mix(const char *name)
{
    const struct rv_quantize_mix *found = NULL;

    assert_ok(rv_quantize_mix_find(name, &found, err));
    return found;
}

static void names_are_found_in_any_case(void **state)
{
    const struct rv_quantize_mix *found;

    (void)state;
    assert_int_equal(mix("q4_k_m")->file_type, 15);
    assert_int_equal(mix("Q8_0")->base, GGML_TYPE_Q8_0);
    assert_fails(rv_quantize_mix_find("IQ2_XXS", &found, &fault), RUVLLM_UNSUPPORTED, fault, "importance matrix");
    assert_fails(rv_quantize_mix_find("Q4", &found, &fault), RUVLLM_INVALID, fault, "Q4_K_M");
}

static void nothing_offered_needs_an_importance_matrix(void **state)
{
    (void)state;
    for (size_t i = 0; rv_quantize_mix_at(i); i++) {
        const struct rv_quantize_mix *m = rv_quantize_mix_at(i);

        assert_false(ggml_quantize_requires_imatrix(m->base) || ggml_quantize_requires_imatrix(m->raised));
        assert_true(ggml_blck_size(m->base) > 0 && ggml_type_size(m->base) > 0);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(rv_quantize_mix_at(k)->file_type, m->file_type);
    }
}

static void the_outer_layers_keep_more(void **state)
{
    const struct rv_quantize_mix *m = mix("Q4_K_M");

    (void)state;
    assert_int_equal(rv_quantize_mix_type(m, str("output.weight"), 8, false), GGML_TYPE_Q6_K);
    assert_int_equal(rv_quantize_mix_type(m, str("token_embd.weight"), 8, false), GGML_TYPE_Q6_K);
    assert_int_equal(rv_quantize_mix_type(m, str("token_embd.weight"), 8, true), GGML_TYPE_Q4_K);
    assert_int_equal(rv_quantize_mix_type(m, str("blk.1.attn_v.weight"), 8, false), GGML_TYPE_Q6_K);
    assert_int_equal(rv_quantize_mix_type(m, str("blk.2.attn_v.weight"), 8, false), GGML_TYPE_Q4_K);
    assert_int_equal(rv_quantize_mix_type(m, str("blk.6.ffn_down.weight"), 8, false), GGML_TYPE_Q6_K);
    assert_int_equal(rv_quantize_mix_type(m, str("blk.0.attn_q.weight"), 8, false), GGML_TYPE_Q4_K);
    assert_int_equal(rv_quantize_mix_type(mix("Q3_K_L"), str("blk.4.attn_v.weight"), 8, false), GGML_TYPE_Q5_K);
    assert_int_equal(rv_quantize_mix_type(mix("Q4_K_S"), str("blk.0.attn_v.weight"), 8, false), GGML_TYPE_Q4_K);
}

static void layers_are_read_from_names(void **state)
{
    (void)state;
    assert_int_equal(rv_quantize_mix_layer(str("blk.17.attn_v.weight")), 17);
    assert_int_equal(rv_quantize_mix_layer(str("output.weight")), -1);
    assert_int_equal(rv_quantize_mix_layer(str("blk.")), -1);
    assert_int_equal(rv_quantize_mix_layer(str("blk.x.y")), -1);
    assert_int_equal(rv_quantize_mix_layer(str("blk.99999999999999.y")), -1);
}

static void only_matrices_are_concerned(void **state)
{
    (void)state;
    assert_true(rv_quantize_mix_applies(str("blk.0.ffn_up.weight"), 2));
    assert_true(rv_quantize_mix_applies(str("blk.0.ffn_up_exps.weight"), 3));
    assert_false(rv_quantize_mix_applies(str("blk.0.attn_norm.weight"), 1));
    assert_false(rv_quantize_mix_applies(str("blk.0.ffn_gate_inp.weight"), 2));
    assert_false(rv_quantize_mix_applies(str("blk.0.attn_q.weight.lora_a"), 2));
    assert_false(rv_quantize_mix_applies(str("blk.0.attn_q.bias"), 2));
}

static void rows_that_do_not_fit_get_more_bits(void **state)
{
    (void)state;
    assert_int_equal(rv_quantize_mix_fit(GGML_TYPE_Q4_K, 512), GGML_TYPE_Q4_K);
    assert_int_equal(rv_quantize_mix_fit(GGML_TYPE_Q2_K, 288), GGML_TYPE_Q4_0);
    assert_int_equal(rv_quantize_mix_fit(GGML_TYPE_Q4_K, 288), GGML_TYPE_Q4_1);
    assert_int_equal(rv_quantize_mix_fit(GGML_TYPE_Q5_K, 288), GGML_TYPE_Q5_1);
    assert_int_equal(rv_quantize_mix_fit(GGML_TYPE_Q6_K, 288), GGML_TYPE_Q8_0);
    assert_int_equal(rv_quantize_mix_fit(GGML_TYPE_Q8_0, 100), GGML_TYPE_F16);
    assert_int_equal(rv_quantize_mix_fit(GGML_TYPE_F16, 7), GGML_TYPE_F16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_in_any_case), cmocka_unit_test(nothing_offered_needs_an_importance_matrix),
        cmocka_unit_test(the_outer_layers_keep_more),  cmocka_unit_test(layers_are_read_from_names),
        cmocka_unit_test(only_matrices_are_concerned), cmocka_unit_test(rows_that_do_not_fit_get_more_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
