# Images for the target.
#
#   qm_add_firmware(NAME smoke SOURCES src/main.cpp LIBRARIES quartermaster::console quartermaster::alloc [NAMELESS])
#
# makes <NAME>.elf and <NAME>.map beside it. The image is linked twice: the first link (<NAME>_nameless.elf) fixes every
# address; the second link appends the symbol table that was made from the first image. A check after the second link
# compares the two images byte for byte (except for the table and the build id) and reports the table's size. With
# NAMELESS, or QM_SYMBOLS=OFF, there is no table and only one link.
#
# SOURCES define qm::firmware::main() (<qm/firmware/boot.hpp>). LIBRARIES come before boot and runtime on the link line.
#
# The installed package has this file too: the folders linker/ and firmware/boot/src/ lie beside this file's folder
# there as in the source tree.

if(NOT DEFINED QM_SYMBOLS)
  set(QM_SYMBOLS ON)
endif()
if(NOT CMAKE_NM)
  find_program(CMAKE_NM ${QM_CROSS_PREFIX}nm REQUIRED)
endif()
find_program(QM_AWK NAMES mawk gawk awk REQUIRED)

function(_qm_link_image target name script)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} SUFFIX .elf LINK_DEPENDS ${script})
  target_link_options(${target} PRIVATE ${QM_ARCH_FLAGS} -nostdlib -nostartfiles -static -no-pie -T ${script}
    LINKER:--undefined=qm_rewind  # from the first library that defines it: the allocator's, else the runtime's
    LINKER:--gc-sections LINKER:--build-id=sha1 LINKER:-z,max-page-size=4096 LINKER:--fatal-warnings
    LINKER:-Map,${CMAKE_CURRENT_BINARY_DIR}/${name}.map
    $<$<LINK_LANG_AND_ID:CXX,Clang>:LINKER:-z,nostart-stop-gc>)  # keeps sections that __start_qm_commands refers to, as GNU ld does
endfunction()

function(qm_add_firmware)
  cmake_parse_arguments(PARSE_ARGV 0 F "NAMELESS" "NAME" "SOURCES;LIBRARIES")
  set(named ${QM_SYMBOLS})
  if(F_NAMELESS)
    set(named OFF)
  endif()
  set(script ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../linker/qemu_virt.ld)
  set(none ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../firmware/boot/src/symbols_none.S)
  set(libraries ${F_LIBRARIES} quartermaster::boot quartermaster::hal quartermaster::runtime)
  set(libgcc gcc)
  if(QM_LIBGCC)
    set(libgcc ${QM_LIBGCC})
  endif()

  add_library(${F_NAME}_objects OBJECT ${F_SOURCES})
  target_link_libraries(${F_NAME}_objects PUBLIC quartermaster::codegen ${libraries})
  target_compile_options(${F_NAME}_objects PUBLIC ${QM_ARCH_FLAGS})
  if(PROJECT_NAME STREQUAL quartermaster)
    target_link_libraries(${F_NAME}_objects PRIVATE qm_flags)
  endif()

  if(named)
    set(nameless ${F_NAME}_nameless)
    add_executable(${nameless} ${none})
    target_link_libraries(${nameless} PRIVATE ${F_NAME}_objects ${libraries} ${libgcc})
    _qm_link_image(${nameless} ${nameless} ${script})

    set(table ${CMAKE_CURRENT_BINARY_DIR}/${F_NAME}_symbols.S)
    set(generator ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/symbol_table.awk)
    add_custom_command(OUTPUT ${table}
      COMMAND sh -c "$<SHELL_PATH:${CMAKE_NM}> -n -S -C $<SHELL_PATH:$<TARGET_FILE:${nameless}>> > ${table}.nm"
      COMMAND sh -c "LC_ALL=C ${QM_AWK} -f ${generator} ${table}.nm > ${table}.new && mv ${table}.new ${table}"
      DEPENDS ${nameless} ${generator} VERBATIM COMMENT "Symbol table of ${F_NAME}")
    add_executable(${F_NAME} ${table})
  else()
    add_executable(${F_NAME} ${none})
  endif()
  target_link_libraries(${F_NAME} PRIVATE ${F_NAME}_objects ${libraries} ${libgcc})
  _qm_link_image(${F_NAME} ${F_NAME} ${script})
  if(named)
    add_custom_command(TARGET ${F_NAME} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -DFIRST=$<TARGET_FILE:${nameless}> -DSECOND=$<TARGET_FILE:${F_NAME}>
        -DOBJCOPY=${CMAKE_OBJCOPY} -DNM=${CMAKE_NM} -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/VerifyImage.cmake VERBATIM)
  endif()
endfunction()
