# Runs after an image's second link: the first and the second image must be equal, except for the symbol table and the
# build id.
foreach(image FIRST SECOND)
  execute_process(COMMAND ${OBJCOPY} -O binary -R .qm_symbols -R .note.gnu.build-id ${${image}} ${${image}}.plain
    COMMAND_ERROR_IS_FATAL ANY)
  file(SHA256 ${${image}}.plain ${image}_HASH)
  file(REMOVE ${${image}}.plain)
endforeach()
if(NOT FIRST_HASH STREQUAL SECOND_HASH)
  file(REMOVE ${SECOND})
  message(FATAL_ERROR "adding the symbol table changed the image: ${SECOND}")
endif()
get_filename_component(name ${SECOND} NAME)
execute_process(COMMAND ${NM} ${SECOND} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "([0-9a-f]+) [A-Za-z] __qm_symbol_table_start" start "${symbols}")
set(low 0x${CMAKE_MATCH_1})
string(REGEX MATCH "([0-9a-f]+) [A-Za-z] __qm_symbol_table_end" end "${symbols}")
math(EXPR bytes "0x${CMAKE_MATCH_1} - ${low}")
message(STATUS "${name}: symbol table ${bytes} bytes")
