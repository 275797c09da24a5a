configure_file(ruvllm.pc.in ${CMAKE_BINARY_DIR}/ruvllm.pc @ONLY)
install(TARGETS ruvllm ruvllm_cli
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/ruvllm.h include/ruvllm_hub.h include/ruvllm_kernels.h include/ruvllm_store.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${CMAKE_BINARY_DIR}/ruvllm.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

find_program(SCDOC scdoc)
if(SCDOC)
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/ruvllm.1
        COMMAND sh -c "\"${SCDOC}\" < \"${CMAKE_SOURCE_DIR}/docs/man/ruvllm.1.scd\" > \"${CMAKE_BINARY_DIR}/ruvllm.1\""
        DEPENDS docs/man/ruvllm.1.scd VERBATIM)
    add_custom_target(man ALL DEPENDS ${CMAKE_BINARY_DIR}/ruvllm.1)
    install(FILES ${CMAKE_BINARY_DIR}/ruvllm.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
