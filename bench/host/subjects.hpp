#pragma once
/// The allocators that are compared on the host, all behind the same two function pointers.
///
/// jemalloc, mimalloc and tcmalloc are loaded by dlopen() with RTLD_LOCAL: the program's own malloc remains glibc's, so
/// all of them are in one process and can take turns within milliseconds.

#include <cstddef>
#include <string_view>
#include <vector>

namespace qm::bench {

struct Subject {
  std::string_view name;
  void* (*allocate)(std::size_t size) = nullptr;
  void (*free)(void* block, std::size_t size) = nullptr;
  void* (*reallocate)(void* block, std::size_t size) = nullptr;  ///< nullptr: the subject cannot reallocate
  bool mixed_sizes = true;                                       ///< false: only blocks of kFixedSize
  bool shared = true;  ///< another thread than the one that allocated it may free a block
};

inline constexpr std::size_t kFixedSize = 64;
/// The most threads that allocate at once.
inline constexpr unsigned kThreads = 2;

/// Sets up all subjects. The first two are ours: the heap and a cache of kFixedSize. Throws if a library cannot be
/// loaded.
[[nodiscard]] const std::vector<Subject>& subjects();

/// Prepares the calling thread: it becomes a hart of ours, and gets pools of its own for subjects that are not shared.
/// @p thread is below kThreads, and only one thread at a time may have it.
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
