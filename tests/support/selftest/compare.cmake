# cmake -DPROGRAM=... -DARGUMENTS=... -DEXPECTED=file -DSTATUS=n -P compare.cmake: checks the program's output and
# status.
execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} OUTPUT_VARIABLE output RESULT_VARIABLE status)
string(REPLACE "${PROGRAM}" PROGRAM output "${output}")
string(REGEX REPLACE "(^|\n)([.][.]/)+" "\\1" output "${output}")  # ccache with a base directory compiles relative paths
file(READ ${EXPECTED} expected)
if(NOT output STREQUAL expected)
  message(FATAL_ERROR "the report differs from ${EXPECTED}:\n${output}")
endif()
if(NOT status EQUAL STATUS)
  message(FATAL_ERROR "status ${status}, not ${STATUS}")
endif()
