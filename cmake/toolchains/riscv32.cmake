# RV32 with Debian's packages. -DQM_CROSS_PREFIX=riscv32-...- names another compiler that ships the C++ standard headers
# (any riscv*-elf-g++ with libstdc++).
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv32)
set(QM_CROSS_PREFIX riscv64-linux-gnu- CACHE STRING "Prefix of the cross compiler's program names")
set(CMAKE_C_COMPILER ${QM_CROSS_PREFIX}gcc)
set(CMAKE_CXX_COMPILER ${QM_CROSS_PREFIX}g++)
set(CMAKE_ASM_COMPILER ${QM_CROSS_PREFIX}gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(QM_ARCH_FLAGS -march=rv32imac_zicsr -mabi=ilp32 CACHE STRING "What the processor is: a list of flags")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QM_CROSS_PREFIX QM_ARCH_FLAGS)
set(QM_XLEN 32)
include(${CMAKE_CURRENT_LIST_DIR}/target.cmake)
