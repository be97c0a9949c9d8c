# The symbol table of an image without symbols. The first link of every image also uses it, to find the addresses.
  .section .qm_symbols, "a", @progbits
  .4byte 0, 0, 0, 0, 0, 0
