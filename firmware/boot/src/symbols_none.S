# The table of an image without names, also linked the first time, to learn the addresses.
  .section .qm_symbols, "a", @progbits
  .4byte 0, 0, 0, 0, 0, 0
