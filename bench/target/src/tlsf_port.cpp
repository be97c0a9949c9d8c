/// What TLSF needs of a C library and of libgcc beyond mem*: printf, which says why it refuses a pool, and the first set bit of
/// a word, by the name that the compiler calls it with on RV64 and on RV32.

#include <qm/firmware/boot.hpp>

extern "C" {
int printf(const char*, ...) { qm::firmware::panic("bench: TLSF refuses its pool"); }
int ffs(int word) { return word != 0 ? __builtin_ctz(static_cast<unsigned>(word)) + 1 : 0; }
int __ffssi2(int word) { return word != 0 ? __builtin_ctz(static_cast<unsigned>(word)) + 1 : 0; }
}
