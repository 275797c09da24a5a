# ggml is a dependency, not our source: from the system where it is packaged, else from what
# scripts/setup.sh built.
list(PREPEND CMAKE_PREFIX_PATH "${RUVLLM_DEPS_DIR}/${RUVLLM_DEPS_FLAVOUR}")

find_package(Threads REQUIRED)
find_package(ggml 0.25 CONFIG QUIET)
if(NOT ggml_FOUND)
    message(FATAL_ERROR "ggml 0.25 or newer was not found. Run `make setup`, or point CMAKE_PREFIX_PATH at an installed ggml.")
endif()

find_package(PkgConfig REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(yyjson REQUIRED IMPORTED_TARGET yyjson)
pkg_check_modules(sodium REQUIRED IMPORTED_TARGET libsodium)
pkg_check_modules(sqlite REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(postgres IMPORTED_TARGET libpq)
pkg_check_modules(curl REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(event REQUIRED IMPORTED_TARGET libevent_core libevent_extra libevent_pthreads libevent_openssl)
pkg_check_modules(llhttp REQUIRED IMPORTED_TARGET libllhttp)
pkg_check_modules(openssl REQUIRED IMPORTED_TARGET libssl libcrypto)

# libllama is the second backend, where it is there, and the oracle of the tests.
find_package(llama CONFIG QUIET)
if(RUVLLM_TESTS AND NOT llama_FOUND)
    message(FATAL_ERROR "The tests need libllama. Run `make setup`, or set RUVLLM_TESTS to OFF.")
endif()
if(RUVLLM_TESTS)
    pkg_check_modules(cmocka REQUIRED IMPORTED_TARGET cmocka)
endif()
