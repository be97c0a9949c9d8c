# Debian's linux-gnu cross compiler, used freestanding, because it ships the C++ standard headers.
# -DQM_CROSS_PREFIX=riscv64-...- names another compiler that does (any riscv64-*-elf-g++ with libstdc++).
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(QM_CROSS_PREFIX riscv64-linux-gnu- CACHE STRING "Prefix of the cross compiler's program names")
set(CMAKE_C_COMPILER ${QM_CROSS_PREFIX}gcc)
set(CMAKE_CXX_COMPILER ${QM_CROSS_PREFIX}g++)
set(CMAKE_ASM_COMPILER ${QM_CROSS_PREFIX}gcc)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(QM_ARCH_FLAGS -march=rv64gc -mabi=lp64d CACHE STRING "What the processor is: a list of flags")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QM_CROSS_PREFIX QM_ARCH_FLAGS)
set(QM_XLEN 64)
include(${CMAKE_CURRENT_LIST_DIR}/target.cmake)
