# cmake -DCOMPILER= -DINCLUDES=dir,dir -DOWN=header,header -DUPWARD=header,header -P includes.cmake
# With these include paths, each OWN header is found with all that it includes, and no UPWARD header is.
cmake_minimum_required(VERSION 3.25)
foreach(list INCLUDES OWN UPWARD)
  string(REPLACE "," ";" ${list} "${${list}}")
endforeach()
list(TRANSFORM INCLUDES PREPEND -I)

# The compiler looks for all headers in one run: a process a header takes a minute for some layers.
set(text "")
foreach(header IN LISTS OWN)
  string(APPEND text "#include <${header}>\n")
endforeach()
foreach(header IN LISTS UPWARD)
  string(APPEND text "#if __has_include(<${header}>)\n#error \"<${header}> belongs to a layer of the same or a higher rank and yet is found\"\n#endif\n")
endforeach()
# The check itself: what no layer has is not found, what every compiler has is.
string(APPEND text "#if __has_include(<qm/no_such_header.hpp>) || !__has_include(<cstddef>)\n#error \"__has_include does not work\"\n#endif\n")
execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${text}"
  COMMAND ${COMPILER} -std=c++20 ${INCLUDES} -E -x c++ - -o /dev/null
  RESULTS_VARIABLE results ERROR_VARIABLE error)
list(GET results 1 status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${error}")
endif()
list(LENGTH OWN own)
list(LENGTH UPWARD upward)
if(own EQUAL 0)
  message(FATAL_ERROR "the layer has no headers")
endif()
message(STATUS "${own} own headers found, ${upward} upward ones refused")
