/// The heap as a preloaded malloc, for whole programs: LD_PRELOAD=libqm_bench_preload.so PROGRAM.
///
/// The first call sets up the allocator in one large mapping, of which the program takes pages as it uses them. The
/// first thread is hart 0; each other thread takes a free hart at its first call, and gives it back when it ends. More
/// threads than harts share hart 0. A child of fork() has a copy of all, as usual.
///
/// It is for measurements: memory is not given back to the system, and fork() in a program with threads, in the middle
/// of another thread's allocation, may leave a lock held in the child.

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

#include <qm/detail/bits.hpp>
#include <qm/hal/port.hpp>
#include <qm/qm.h>
#include <qm/system.hpp>

#define QM_PRELOAD extern "C" [[gnu::visibility("default")]]

namespace {

constexpr std::size_t kMemory = std::size_t{16} << 30;
constexpr std::size_t kPage = 4096;
constexpr unsigned kHarts = qm::hal::Port::kMaxHarts;

struct Thread {
  bool has_called = false;
  unsigned hart = 0;  ///< 0: none of its own
  alignas(qm::hal::HostHart) std::byte owned[sizeof(qm::hal::HostHart)];
};
thread_local Thread thread [[gnu::tls_model("initial-exec")]];

pthread_key_t at_end;
std::atomic<bool> is_up{false};
std::atomic<std::uint64_t> free_harts{(std::uint64_t{1} << kHarts) - 2};  // a bit for each; never hart 0

unsigned take_hart() noexcept {
  std::uint64_t free = free_harts.load(std::memory_order_relaxed);
  while (free != 0 && !free_harts.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire)) {
  }
  return free != 0 ? static_cast<unsigned>(__builtin_ctzll(free)) : 0;
}

void leave_hart(void*) noexcept {
  if (thread.hart == 0) return;
  qm_detach_hart();
  std::launder(reinterpret_cast<qm::hal::HostHart*>(thread.owned))->~HostHart();
  free_harts.fetch_or(std::uint64_t{1} << thread.hart, std::memory_order_release);
  thread.hart = 0;
}

[[noreturn]] void refuse(const char* reason) noexcept {
  static_cast<void>(write(STDERR_FILENO, reason, std::strlen(reason)));
  _exit(127);
}

/// The first call of the process: no other thread runs yet.
void set_up() noexcept {
  void* const memory =
      mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) refuse("preload: no 16 GiB of address space\n");
  const qm::MemoryRange range{reinterpret_cast<std::uintptr_t>(memory), kMemory};
  if (qm::initialize({&range, 1}, kHarts) != qm::Status::kOk) refuse("preload: the allocator cannot start\n");
  qm::attach_hart(0);
  if (pthread_key_create(&at_end, leave_hart) != 0) refuse("preload: no key of thread data is left\n");
  is_up.store(true, std::memory_order_release);
}

[[gnu::noinline]] void enter_slow() noexcept {
  thread.has_called = true;
  if (!is_up.load(std::memory_order_acquire)) return set_up();
  const unsigned hart = take_hart();
  if (hart == 0) return;
  new (thread.owned) qm::hal::HostHart(hart);
  thread.hart = hart;
  qm_attach_hart();
  static_cast<void>(pthread_setspecific(at_end, &thread));  // a non-null value, so that leave_hart() is called
}

[[gnu::always_inline]] inline void enter() noexcept {
  if (!thread.has_called) [[unlikely]]
    enter_slow();
}

void* told(void* block) noexcept {
  if (block == nullptr) [[unlikely]]
    errno = ENOMEM;
  return block;
}

void* allocate_aligned(std::size_t alignment, std::size_t size) noexcept {
  enter();
  return told(qm_aligned_alloc(alignment, size != 0 ? size : 1));
}

}  // namespace

QM_PRELOAD void* malloc(std::size_t size) {
  enter();
  return told(qm_malloc(size != 0 ? size : 1));
}

QM_PRELOAD void free(void* block) {
  enter();
  qm_free(block);
}

QM_PRELOAD void* calloc(std::size_t count, std::size_t size) {
  enter();
  const bool none = count == 0 || size == 0;
  return told(qm_calloc(none ? 1 : count, none ? 1 : size));
}

QM_PRELOAD void* realloc(void* block, std::size_t size) {
  enter();
  if (block != nullptr && size == 0) return qm_free(block), nullptr;
  return told(qm_realloc(block, size != 0 ? size : 1));
}

QM_PRELOAD void* aligned_alloc(std::size_t alignment, std::size_t size) { return allocate_aligned(alignment, size); }
QM_PRELOAD void* memalign(std::size_t alignment, std::size_t size) { return allocate_aligned(alignment, size); }
QM_PRELOAD void* valloc(std::size_t size) { return allocate_aligned(kPage, size); }
QM_PRELOAD void* pvalloc(std::size_t size) { return allocate_aligned(kPage, qm::round_up(size, kPage)); }

QM_PRELOAD int posix_memalign(void** result, std::size_t alignment, std::size_t size) {
  if (alignment < sizeof(void*) || !qm::is_power_of_two(alignment)) return EINVAL;
  const int before = errno;
  void* const block = allocate_aligned(alignment, size);
  errno = before;
  if (block == nullptr) return ENOMEM;
  *result = block;
  return 0;
}

QM_PRELOAD std::size_t malloc_usable_size(void* block) { return qm_usable_size(block); }
