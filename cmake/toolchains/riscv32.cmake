# RV32 with Debian's packages: the linux-gnu compiler has no ilp32 C library, and freestanding C++ needs of one only that
# its headers are found. An empty gnu/stubs-ilp32.h and a SYS_futex (named by <atomic>, never called) are enough; libgcc
# comes from riscv64-unknown-elf.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv32)
set(QM_CROSS_PREFIX riscv64-linux-gnu- CACHE STRING "Prefix of the cross compiler's program names")
set(CMAKE_C_COMPILER ${QM_CROSS_PREFIX}gcc)
set(CMAKE_CXX_COMPILER ${QM_CROSS_PREFIX}g++)
set(CMAKE_ASM_COMPILER ${QM_CROSS_PREFIX}gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(QM_ARCH_FLAGS -march=rv32imac_zicsr -mabi=ilp32 CACHE STRING "What the processor is: a list of flags")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QM_CROSS_PREFIX QM_ARCH_FLAGS)
set(QM_ARCH_FLAGS $CACHE{QM_ARCH_FLAGS} -DSYS_futex=98 -isystem ${CMAKE_CURRENT_LIST_DIR}/riscv32-include)
set(QM_XLEN 32)
# libgcc for rv32imac/ilp32: the named compiler's own, or that of Debian's riscv64-unknown-elf.
foreach(compiler ${QM_CROSS_PREFIX}gcc riscv64-unknown-elf-gcc)
  execute_process(COMMAND ${compiler} -march=rv32imac -mabi=ilp32 -print-libgcc-file-name
    OUTPUT_VARIABLE QM_LIBGCC OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0 AND QM_LIBGCC MATCHES "/rv32")
    break()
  endif()
  set(QM_LIBGCC "")
endforeach()
if(NOT QM_LIBGCC)
  message(FATAL_ERROR "no libgcc for rv32imac/ilp32: install gcc-riscv64-unknown-elf, or name a compiler that has one by -DQM_CROSS_PREFIX=")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/headers.cmake)
