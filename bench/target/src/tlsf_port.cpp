/// The functions of a C library and of libgcc that TLSF needs besides mem*: printf, which it calls to say why it
/// refuses a pool, and the first set bit of a word, under the names that the compiler uses on RV64 and on RV32.

#include <qm/firmware/boot.hpp>

extern "C" {
int printf(const char*, ...) { qm::firmware::panic("bench: TLSF refuses its pool"); }
int ffs(int word) { return word != 0 ? __builtin_ctz(static_cast<unsigned>(word)) + 1 : 0; }
int __ffssi2(int word) { return word != 0 ? __builtin_ctz(static_cast<unsigned>(word)) + 1 : 0; }
}
