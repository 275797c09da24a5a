# Debian packages by CPack: `make deb`. ruvllm is the program, its library, manual, units and completion; libruvllm-dev is
# what other programs are built with.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ruvllm)
set(CPACK_PACKAGE_VENDOR "RuvLLM")
set(CPACK_PACKAGE_CONTACT "RuvLLM maintainers <maintainers@ruvllm.invalid>" CACHE STRING "Who answers for the packages")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_SET_DESTDIR ON) # so that the unit names /usr/bin/ruvllm and not the folder the package is put together in
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ruvllm dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_COMPONENT_RUVLLM_DESCRIPTION
    "Runs language models stored as GGUF files: at the command line, as a library,
and as a server with OpenAI's API and a chat page. It adapts to feedback
while it serves.")
set(CPACK_DEBIAN_RUVLLM_PACKAGE_NAME ruvllm)
set(CPACK_DEBIAN_RUVLLM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_RUVLLM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUVLLM_PACKAGE_RECOMMENDS "ca-certificates")
set(CPACK_DEBIAN_RUVLLM_PACKAGE_SUGGESTS "nginx | haproxy | envoy")
set(CPACK_DEBIAN_RUVLLM_PACKAGE_CONTROL_EXTRA
    "${CMAKE_SOURCE_DIR}/deploy/debian/postinst;${CMAKE_SOURCE_DIR}/deploy/debian/prerm;${CMAKE_SOURCE_DIR}/deploy/debian/postrm;${CMAKE_SOURCE_DIR}/deploy/debian/triggers")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${RUVLLM_DEPS_DIR}/${RUVLLM_DEPS_FLAVOUR}/lib")

set(CPACK_COMPONENT_DEV_DESCRIPTION
    "Headers, pkg-config and CMake descriptions to build programs that use
libruvllm, the library of ruvllm.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libruvllm-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "ruvllm (= ${PROJECT_VERSION})")
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/package_tidy.cmake)
include(CPack)
