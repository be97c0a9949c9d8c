/* The recordings, as bytes of the image. */
  .section .rodata.qm_recordings, "a", @progbits

.macro recording name, file
  .globl qm_recording_\name
  .globl qm_recording_\name\()_end
qm_recording_\name:
  .incbin "\file"
qm_recording_\name\()_end:
.endm

  recording sqlite, "sqlite.qmr"
  recording jq, "jq.qmr"
  recording redis_threads, "redis-threads.qmr"
  .section .note.GNU-stack, "", @progbits
