# The recordings that only benches have; qm_replay has the others.
.macro recording name, file
  .balign 8
  .globl qm_recording_\name, qm_recording_\name\()_end
qm_recording_\name:
  .incbin "\file"
qm_recording_\name\()_end:
.endm

.section .rodata.qm_bench_recordings, "a"
recording cc1plus, "cc1plus.qmr"
recording bash, "bash.qmr"
recording python, "python.qmr"
recording ld, "ld.qmr"

.section .note.GNU-stack, "", %progbits
