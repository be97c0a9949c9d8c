#pragma once
/// The allocators that are compared on the host, each behind the same two function pointers.
///
/// jemalloc, mimalloc and tcmalloc are loaded by dlopen() with RTLD_LOCAL: the program's own malloc stays glibc's, so
/// all are in one process and can take turns within milliseconds.

#include <cstddef>
#include <string_view>
#include <vector>

namespace qm::bench {

struct Subject {
  std::string_view name;
  void* (*allocate)(std::size_t size) = nullptr;
  void (*free)(void* block, std::size_t size) = nullptr;
  void* (*reallocate)(void* block, std::size_t size) = nullptr;  ///< not every subject can
  bool mixed_sizes = true;                                       ///< else blocks of kFixedSize only
  bool shared = true;  ///< a block may be freed by another thread than the one that allocated it
};

inline constexpr std::size_t kFixedSize = 64;
/// Threads that allocate at once, at most.
inline constexpr unsigned kThreads = 2;

/// Sets all up. The first two are ours: the heap and a cache of kFixedSize. Throws if a library cannot be loaded.
[[nodiscard]] const std::vector<Subject>& subjects();

/// Makes the calling thread ready: a hart of ours, with pools of its own where a subject is not shared. @p thread is
/// below kThreads, and one thread at a time has it.
class ThreadScope {
 public:
  explicit ThreadScope(unsigned thread);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  struct State;
  State* state_;
};

}  // namespace qm::bench
