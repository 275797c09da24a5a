# Run by CPack over the folder a package is made from: manual pages and changes are compressed, as Debian wants them.
file(GLOB_RECURSE pages "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*")
list(FILTER pages INCLUDE REGEX "/share/man/.*[17]$|/share/doc/.*/changelog$")
if(NOT pages)
    message(FATAL_ERROR "no manual pages in '${CPACK_TEMPORARY_INSTALL_DIRECTORY}': is scdoc installed?")
endif()
execute_process(COMMAND gzip -9 -n -f ${pages} COMMAND_ERROR_IS_FATAL ANY)
