# Each vector variant of a kernel is one file, compiled for its instructions and optimised in every build:
# at -O0 its registers live in memory, and the debug build would be too slow to use. Which variant runs is decided at
# run time. Contraction is off so that only the multiply-adds we write are fused.
set(lane_options -ffp-contract=off)
if(RUVLLM_SANITIZE)
    list(APPEND lane_options -DTILE=inline) # see attention_tiles.h
else()
    list(APPEND lane_options -O3)
endif()
set(lane_options_avx2 -mavx2 -mfma -mf16c)
set(lane_options_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl ${lane_options_avx2})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    foreach(variant avx2 avx512)
        set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/attention_kernel_${variant}.c
            ${CMAKE_SOURCE_DIR}/src/kernels/tile_gemm_${variant}.c
            ${CMAKE_SOURCE_DIR}/src/kernels/vec_${variant}.c
            ${CMAKE_SOURCE_DIR}/src/kernels/row_sums_${variant}.c
            ${CMAKE_SOURCE_DIR}/src/kernels/lora_kernel_${variant}.c
            PROPERTIES COMPILE_OPTIONS "${lane_options};${lane_options_${variant}}")
    endforeach()
else()
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/attention_kernel_neon.c
        ${CMAKE_SOURCE_DIR}/src/kernels/lora_kernel_neon.c
        PROPERTIES COMPILE_OPTIONS "${lane_options}")
endif()

# Comparisons of floats could raise a trap that nobody asked for, which keeps the compiler from making vector code of
# the loops that quantise.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/kv_quant.c PROPERTIES COMPILE_OPTIONS -fno-trapping-math)
