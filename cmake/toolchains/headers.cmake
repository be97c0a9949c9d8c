# What every toolchain file ends with: whether the compiler has what freestanding C++ needs of it.
execute_process(COMMAND ${CMAKE_COMMAND} -E echo "#include <concepts>" COMMAND ${CMAKE_CXX_COMPILER} ${QM_ARCH_FLAGS} -std=c++20 -x c++ -E -
  OUTPUT_QUIET ERROR_VARIABLE error RESULTS_VARIABLE status)
if(NOT status STREQUAL "0;0")
  if(error MATCHES "No such file or directory" AND error MATCHES "concepts")
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} ships no C++ standard headers (libstdc++): install one that does - Debian's is "
      "g++-riscv64-linux-gnu, riscv64-unknown-elf's has none - or name it by -DQM_CROSS_PREFIX=")
  endif()
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} does not compile C++20 for ${CMAKE_SYSTEM_PROCESSOR}: ${status} ${error}")
endif()
