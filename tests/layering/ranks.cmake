# cmake -DMODULE=QmLayer.cmake -DDIRECTORY=scratch -DGENERATOR=Ninja -P ranks.cmake
# A layer over a lower one configures; a layer over an equal or a higher one does not, and the message names both.
cmake_minimum_required(VERSION 3.25)
function(configure rank expected)
  set(source ${DIRECTORY}/rank${rank})
  file(REMOVE_RECURSE ${source})
  file(WRITE ${source}/include/empty.hpp "#pragma once\n")
  file(WRITE ${source}/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(ranks LANGUAGES CXX)\n"
    "include(${MODULE})\n"
    "qm_add_layer(NAME lower RANK 2 HEADERS include/empty.hpp)\n"
    "qm_add_layer(NAME upper RANK ${rank} HEADERS include/empty.hpp USES lower)\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -G ${GENERATOR} -S ${source} -B ${source}/build
    RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(expected STREQUAL refused)
    if(status EQUAL 0)
      message(FATAL_ERROR "a layer of rank ${rank} may use one of rank 2")
    endif()
    if(NOT output MATCHES "layer upper \\(rank ${rank}\\) must not use layer lower")
      message(FATAL_ERROR "refused for another reason:\n${output}")
    endif()
  elseif(NOT status EQUAL 0)
    message(FATAL_ERROR "a layer of rank ${rank} over one of rank 2 is refused:\n${output}")
  endif()
endfunction()

configure(3 accepted)
configure(2 refused)
configure(1 refused)
