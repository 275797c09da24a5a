# What `make install` and the packages consist of: program, library, headers, pkg-config and CMake descriptions, manual,
# completion of three shells, systemd units.
include(CMakePackageConfigHelpers)

# Libraries that the distribution does not have travel with ours, in a folder of their own that nobody else searches: another
# ggml on the machine stays what it is. Everywhere that is ggml; in Debian 12 also two libraries that setup took from 13.
set(bundle_default "")
if(ggml_DIR MATCHES "^${RUVLLM_DEPS_DIR}/")
    list(APPEND bundle_default "^${RUVLLM_DEPS_DIR}/")
endif()
cmake_host_system_information(RESULT os QUERY DISTRIB_INFO)
if("${os_ID}-${os_VERSION_ID}" STREQUAL "debian-12")
    list(APPEND bundle_default "/libyyjson\\.so" "/libllhttp\\.so")
endif()
set(RUVLLM_BUNDLE "${bundle_default}" CACHE STRING "Libraries installed privately beside ours: regular expressions of paths")
set(RUVLLM_SYSTEMD_UNIT_DIR "lib/systemd/system" CACHE PATH "Where the units go, below the prefix")

# Relative, so that the whole prefix can be moved.
file(RELATIVE_PATH bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set_target_properties(ruvllm_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
if(RUVLLM_BUNDLE)
    set_target_properties(ruvllm PROPERTIES INSTALL_RPATH "$ORIGIN/ruvllm")
    set_target_properties(ruvllm_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib};$ORIGIN/${bin_to_lib}/ruvllm")
endif()

# Two components: what runs, and what programs of others are built with. The packages follow them.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME ruvllm)
install(TARGETS ruvllm EXPORT ruvllm_targets RUNTIME_DEPENDENCY_SET bundled
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT dev INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS ruvllm_cli RUNTIME_DEPENDENCY_SET bundled RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
set(doc_dir ${CMAKE_INSTALL_DATADIR}/doc/ruvllm)
if(RUVLLM_BUNDLE)
    install(RUNTIME_DEPENDENCY_SET bundled DESTINATION ${CMAKE_INSTALL_LIBDIR}/ruvllm
        POST_INCLUDE_REGEXES ${RUVLLM_BUNDLE} POST_EXCLUDE_REGEXES ".*")
    install(FILES ${RUVLLM_DEPS_DIR}/llama.cpp/LICENSE DESTINATION ${doc_dir} RENAME LICENSE-ggml OPTIONAL)
    foreach(package libyyjson0 libllhttp9.2)
        install(FILES /usr/share/doc/${package}/copyright DESTINATION ${doc_dir} RENAME LICENSE-${package} OPTIONAL)
    endforeach()
endif()

install(FILES include/ruvllm.h include/ruvllm_adapter.h include/ruvllm_hub.h include/ruvllm_kernels.h include/ruvllm_learn.h
    include/ruvllm_learn_log.h include/ruvllm_sona.h include/ruvllm_store.h include/ruvllm_train.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)

# pkg-config: `cc x.c $(pkg-config --cflags --libs ruvllm)`. Paths are relative to the file, for the same reason.
file(RELATIVE_PATH pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(ruvllm.pc.in ${CMAKE_BINARY_DIR}/ruvllm.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/ruvllm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# CMake: `find_package(ruvllm)`, then link ruvllm::ruvllm.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ruvllm)
configure_package_config_file(cmake/ruvllm-config.cmake.in ${CMAKE_BINARY_DIR}/ruvllm-config.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ruvllm-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/ruvllm-config.cmake ${CMAKE_BINARY_DIR}/ruvllm-config-version.cmake
    DESTINATION ${package_dir} COMPONENT dev)
install(EXPORT ruvllm_targets NAMESPACE ruvllm:: DESTINATION ${package_dir} FILE ruvllm-targets.cmake COMPONENT dev)

# The manual: one page a command, and the overview.
find_program(SCDOC scdoc)
if(SCDOC)
    file(GLOB man_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.scd)
    foreach(source ${man_sources})
        get_filename_component(page ${source} NAME_WLE) # ruvllm-run.1
        get_filename_component(section ${page} LAST_EXT)
        string(SUBSTRING ${section} 1 -1 section)
        set(made ${CMAKE_BINARY_DIR}/man/${page})
        add_custom_command(OUTPUT ${made} COMMAND sh -c "\"${SCDOC}\" < \"${source}\" > \"${made}\"" DEPENDS ${source} VERBATIM)
        install(FILES ${made} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
        list(APPEND man_pages ${made})
    endforeach()
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/man)
    add_custom_target(man ALL DEPENDS ${man_pages})
endif()

install(FILES deploy/completion/ruvllm.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ruvllm)
install(FILES deploy/completion/_ruvllm DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES deploy/completion/ruvllm.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)

# The unit names the program where it is installed, which only the installation knows: --prefix may be given to it.
install(CODE "
    set(RUVLLM_PROGRAM \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/ruvllm\")
    configure_file(\"${CMAKE_SOURCE_DIR}/deploy/systemd/ruvllm.service.in\" \"${CMAKE_BINARY_DIR}/ruvllm.service\" @ONLY)")
install(FILES ${CMAKE_BINARY_DIR}/ruvllm.service deploy/systemd/ruvllm.socket DESTINATION ${RUVLLM_SYSTEMD_UNIT_DIR})
install(FILES deploy/systemd/ruvllm.sysusers DESTINATION lib/sysusers.d RENAME ruvllm.conf)
install(FILES deploy/nginx.conf deploy/haproxy.cfg deploy/envoy.yaml deploy/systemd/ruvllm.default
    DESTINATION ${doc_dir}/examples)
install(FILES LICENSE LICENSE-MIT LICENSE-APACHE deploy/debian/copyright DESTINATION ${doc_dir})
install(FILES CHANGELOG.md DESTINATION ${doc_dir} RENAME changelog)
install(FILES deploy/debian/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libruvllm-dev COMPONENT dev)

include(cmake/package.cmake)
