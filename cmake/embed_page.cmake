# Writes a C table of files: cmake -DOUT=<file.c> -DTABLE=<name> -DFILES=<list> -P embed_page.cmake. See apps/server/page.h.
set(table "")
set(arrays "")
set(i 0)
foreach(file IN LISTS FILES)
    get_filename_component(name "${file}" NAME)
    file(READ "${file}" hex HEX)
    file(SHA256 "${file}" hash)
    string(SUBSTRING "${hash}" 0 16 tag)
    string(LENGTH "${hex}" digits)
    math(EXPR len "${digits} / 2")
    string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
    # An empty file still needs an element.
    string(APPEND arrays "static const unsigned char file_${i}[] = {\n${hex}0};\n")
    string(APPEND table "    {\"${name}\", file_${i}, ${len}, \"\\\"${tag}\\\"\"},\n")
    math(EXPR i "${i} + 1")
endforeach()
file(WRITE "${OUT}" "/* Made at build time by cmake/embed_page.cmake. */\n#include \"server/page.h\"\n\n"
    "extern const struct rv_page_file ${TABLE}[];\n\n${arrays}\n"
    "const struct rv_page_file ${TABLE}[] = {\n${table}    {0, 0, 0, 0},\n};\n")
