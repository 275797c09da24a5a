add_library(ruvllm_warnings INTERFACE)
target_compile_options(ruvllm_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Walloca -Wundef -Wstrict-prototypes -Wmissing-prototypes -Wformat=2
    $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
    $<$<C_COMPILER_ID:Clang>:-Wno-gnu-zero-variadic-macro-arguments>
    $<$<BOOL:${RUVLLM_WERROR}>:-Werror>
    -fno-strict-aliasing -fstack-protector-strong)

if(RUVLLM_SANITIZE)
    target_compile_options(ruvllm_warnings INTERFACE -fsanitize=${RUVLLM_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(ruvllm_warnings INTERFACE -fsanitize=${RUVLLM_SANITIZE})
else()
    target_compile_definitions(ruvllm_warnings INTERFACE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=2>)
    target_link_options(ruvllm_warnings INTERFACE -Wl,-z,relro,-z,now)
endif()
