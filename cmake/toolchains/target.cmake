# Included at the end of every toolchain file: it applies QM_ARCH_FLAGS to every target, and makes sure that the
# compiler has what freestanding C++ needs.
#
# Debian's linux-gnu compiler has a C library and a libgcc for lp64d only. Freestanding C++ needs only the headers of
# the C library. For another ABI an empty gnu/stubs-<abi>.h and, for RV32, a SYS_futex (named by <atomic>, never called)
# are enough; libgcc then comes from riscv64-unknown-elf.
set(QM_ARCH_FLAGS $CACHE{QM_ARCH_FLAGS})
if(NOT QM_ARCH_FLAGS MATCHES "-mabi=lp64d")
  list(APPEND QM_ARCH_FLAGS -isystem ${CMAKE_CURRENT_LIST_DIR}/include)
  if(QM_XLEN EQUAL 32)
    list(APPEND QM_ARCH_FLAGS -DSYS_futex=98)
  endif()
  # The libgcc for this processor, of the named compiler or of riscv64-unknown-elf. Both accept no extension behind a _.
  set(multilib $CACHE{QM_ARCH_FLAGS})
  list(FILTER multilib INCLUDE REGEX "^-m(arch|abi)=")
  list(TRANSFORM multilib REPLACE "^(-march=[^_]*)_.*" "\\1")
  foreach(compiler ${QM_CROSS_PREFIX}gcc riscv64-unknown-elf-gcc)
    execute_process(COMMAND ${compiler} ${multilib} -print-libgcc-file-name
      OUTPUT_VARIABLE QM_LIBGCC OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0 AND QM_LIBGCC MATCHES "/rv${QM_XLEN}")
      break()
    endif()
    set(QM_LIBGCC "")
  endforeach()
  if(NOT QM_LIBGCC)
    list(JOIN multilib " " multilib)
    message(FATAL_ERROR "no libgcc for ${multilib}: install gcc-riscv64-unknown-elf, or name a compiler that has one by -DQM_CROSS_PREFIX=")
  endif()
endif()
# The flags apply to programs and libraries of other projects as well.
list(JOIN QM_ARCH_FLAGS " " flags)
foreach(language C CXX ASM)
  set(CMAKE_${language}_FLAGS_INIT "${flags}")
endforeach()

execute_process(COMMAND ${CMAKE_COMMAND} -E echo "#include <concepts>" COMMAND ${CMAKE_CXX_COMPILER} ${QM_ARCH_FLAGS} -std=c++20 -x c++ -E -
  OUTPUT_QUIET ERROR_VARIABLE error RESULTS_VARIABLE status)
if(NOT status STREQUAL "0;0")
  if(error MATCHES "No such file or directory" AND error MATCHES "concepts: No such")
    message(FATAL_ERROR "${CMAKE_CXX_COMPILER} ships no C++ standard headers (libstdc++): install one that does - Debian's is "
      "g++-riscv64-linux-gnu, riscv64-unknown-elf's has none - or name it by -DQM_CROSS_PREFIX=")
  endif()
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} does not compile C++20 for ${CMAKE_SYSTEM_PROCESSOR}: ${status} ${error}")
endif()
