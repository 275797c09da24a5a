# libllama as the judge of our engine. One suite, a test for each group of models.
add_library(golden_support STATIC oracle.c divergence.c parity.c reference.c)
target_link_libraries(golden_support PUBLIC test_support llama)

rv_suite(test_parity.c LABELS slow data LIBS golden_support ARGS tinyllama TIMEOUT 1200)
get_test_property(test_parity ENVIRONMENT parity_environment)
function(rv_parity_group name)
    cmake_parse_arguments(group "" "" "ARGS;LABELS" ${ARGN})
    add_test(NAME test_parity_${name} COMMAND test_parity ${group_ARGS})
    set_tests_properties(test_parity_${name} PROPERTIES LABELS "${group_LABELS}" TIMEOUT 1200 SKIP_RETURN_CODE 77 PROCESSORS 2
        ENVIRONMENT "${parity_environment}")
endfunction()
rv_parity_group(smallest ARGS stories stories260K LABELS fast data sanitize)
rv_parity_group(stories ARGS stories LABELS slow data)
rv_parity_group(minimind ARGS minimind LABELS slow data)
rv_parity_group(synth ARGS synth LABELS slow data)

if(RUVLLM_LLAMA)
    rv_suite(test_backend_llama.c LABELS fast data sanitize LIBS golden_support TIMEOUT 600)
endif()
rv_suite(test_adapter_oracle.c LABELS fast data LIBS golden_support TIMEOUT 600)
rv_suite(test_mutation.c LABELS slow LIBS golden_support TIMEOUT 1200)
rv_suite(test_rope_override.c LABELS slow data LIBS golden_support TIMEOUT 600)

add_test(NAME test_perplexity COMMAND python3 ${CMAKE_CURRENT_SOURCE_DIR}/test_perplexity.py)
set_tests_properties(test_perplexity PROPERTIES LABELS "slow;data" TIMEOUT 1200 SKIP_RETURN_CODE 77
    ENVIRONMENT "${parity_environment};RUVLLM=$<TARGET_FILE:ruvllm_cli>")
