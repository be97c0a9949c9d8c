/// What TLSF needs of a C library beyond mem*: printf, which says why it refuses a pool, and ffs, where the processor has no
/// instruction for it.

#include <qm/firmware/boot.hpp>

extern "C" {
int printf(const char*, ...) { qm::firmware::panic("bench: TLSF refuses its pool"); }
int ffs(int word) { return word != 0 ? __builtin_ctz(static_cast<unsigned>(word)) + 1 : 0; }
}
