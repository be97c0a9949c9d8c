/* Hart 0 starts as in the example; hart 1 interrupts it repeatedly, at any time. */
  .section .text.start, "ax"
  .globl _start
_start:
  csrr t0, mhartid
  beqz t0, first_hart
  li t1, 0x2000000              /* msip of hart 0 */
  li t2, 1
  li t3, 12345
1:
  sw t2, 0(t1)
  slli t4, t3, 13
  xor t3, t3, t4
  srli t4, t3, 7
  xor t3, t3, t4
  slli t4, t3, 17
  xor t3, t3, t4
  andi t4, t3, 0x3ff
2:
  addi t4, t4, -1
  bgtz t4, 2b
  j 1b
#define _start first_hart
#include "start.S"
