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
set(QM_ARCH_FLAGS -march=rv32imac_zicsr -mabi=ilp32 -DSYS_futex=98 -isystem ${CMAKE_CURRENT_LIST_DIR}/riscv32-include)
set(QM_XLEN 32)
