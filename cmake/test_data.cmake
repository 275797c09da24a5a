# Where the tests and examples find real models: RUVLLM_TEST_DATA, from the environment or the cache.
set(RUVLLM_TEST_DATA "$ENV{RUVLLM_TEST_DATA}" CACHE PATH "Real models, vocabularies, templates and texts")
if(NOT RUVLLM_TEST_DATA)
    set(RUVLLM_TEST_DATA "${CMAKE_SOURCE_DIR}/../shared/data")
endif()
