/* Empty on purpose: see ../../riscv32.cmake. */
