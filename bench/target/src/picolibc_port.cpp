/// The functions that picolibc's malloc needs: sbrk, locks that do nothing (it has only one user; this favours it),
/// mem*, errno.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <qm/arena.hpp>
#include <qm/bench/subjects.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/system.hpp>

namespace {

using qm::bench::kPicolibcPoolBytes;

std::uintptr_t pool = 0;
std::uintptr_t used = 0;
std::uintptr_t peak = 0;

}  // namespace

extern "C" {

int picolibc___lock___libc_recursive_mutex = 0;
void picolibc___retarget_lock_acquire_recursive(void*) noexcept {}
void picolibc___retarget_lock_release_recursive(void*) noexcept {}
thread_local int picolibc_errno = 0;
extern void* picolibc___malloc_free_list;
extern char* picolibc___malloc_sbrk_start;
extern char* picolibc___malloc_sbrk_top;

void* picolibc_sbrk(std::ptrdiff_t bytes) noexcept {
  if (pool == 0) pool = qm::base_arena().allocate(kPicolibcPoolBytes);
  if (pool == 0) qm::firmware::panic("bench: no memory for picolibc");
  const std::uintptr_t before = pool + used;
  if (bytes > static_cast<std::ptrdiff_t>(kPicolibcPoolBytes - used)) return reinterpret_cast<void*>(-1);
  used += static_cast<std::uintptr_t>(bytes);
  if (used > peak) peak = used;
  return reinterpret_cast<void*>(before);
}

void* picolibc_memcpy(void* to, const void* from, std::size_t bytes) noexcept { return std::memcpy(to, from, bytes); }
void* picolibc_memset(void* to, int value, std::size_t bytes) noexcept { return std::memset(to, value, bytes); }
}

namespace qm::bench {

void picolibc_reset() noexcept {
  picolibc___malloc_free_list = nullptr;
  picolibc___malloc_sbrk_start = picolibc___malloc_sbrk_top = nullptr;
  used = peak = 0;
}

void picolibc_start(void* memory) noexcept {
  picolibc_reset();
  pool = reinterpret_cast<std::uintptr_t>(memory);
}

void picolibc_give_up_memory() noexcept {
  picolibc_reset();
  if (pool != 0) base_arena().free(pool);
  pool = 0;
}

std::size_t picolibc_peak_bytes() noexcept { return peak; }

}  // namespace qm::bench
