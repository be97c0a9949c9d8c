#include "subjects.hpp"

#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <memory_resource>
#include <stdexcept>
#include <string>

#include <qm/cache.hpp>
#include <qm/hal/port.hpp>
#include <qm/qm.h>
#include <qm/system.hpp>

namespace qm::bench {
namespace {

// ---- ours -----------------------------------------------------------------------------------------------------------

Cache* cache = nullptr;

void set_up_ours() {
  constexpr std::size_t kMemory = std::size_t{256} << 20;
  void* memory = mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory");
  const MemoryRange range{reinterpret_cast<std::uintptr_t>(memory), kMemory};
  if (initialize({&range, 1}, kThreads) != Status::kOk) throw std::runtime_error("the allocator cannot start");
  attach_hart(0);
  CacheConfig config;
  config.name = "bench";
  config.object_size = kFixedSize;
  cache = Cache::create(config);
  if (cache == nullptr) throw std::runtime_error("no cache");
}

// The functions are called like those of a shared library, as with the other subjects.
void* (*volatile const cache_allocate_function)(Cache*) = qm_cache_allocate;
void (*volatile const cache_free_function)(Cache*, void*) = qm_cache_free;
[[gnu::aligned(64)]] void* cache_allocate(std::size_t) { return cache_allocate_function(cache); }
[[gnu::aligned(64)]] void cache_free(void* block, std::size_t) { cache_free_function(cache, block); }

// ---- mallocs --------------------------------------------------------------------------------------------------------

void* glibc_malloc(std::size_t size) {
  void* block = std::malloc(size);
  asm volatile("" : "+r"(block));  // keeps the compiler from removing the pair of allocation and free
  return block;
}
void glibc_free(void* block, std::size_t) { std::free(block); }
void* glibc_realloc(void* block, std::size_t size) { return std::realloc(block, size); }

/// A malloc of a shared library, or ours. The pointers are read at each call, as a call through a linkage table does.
/// For each subject, the code of the calls begins at a processor cache line, because its position in the line changes
/// the time by about one cycle in fifteen.
template <unsigned Which>
struct Malloc {
  static inline void* (*volatile malloc_function)(std::size_t) = nullptr;
  static inline void (*volatile free_function)(void*) = nullptr;
  [[gnu::aligned(64)]] static void* allocate(std::size_t size) { return malloc_function(size); }
  [[gnu::aligned(64)]] static void free(void* block, std::size_t) { free_function(block); }

  static inline void* (*volatile realloc_function)(void*, std::size_t) = nullptr;
  static void* reallocate(void* block, std::size_t size) { return realloc_function(block, size); }

  static Subject ours(std::string_view name) {
    malloc_function = qm_malloc;
    free_function = qm_free;
    realloc_function = qm_realloc;
    return {.name = name, .allocate = allocate, .free = free, .reallocate = reallocate};
  }
  /// @param[in] prefix prefix of the library's function names: "" or "mi_".
  static Subject load(std::string_view name, const char* library, const std::string& prefix) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw std::runtime_error(dlerror());
    const auto find = [&](const char* function) { return dlsym(handle, (prefix + function).c_str()); };
    malloc_function = reinterpret_cast<void* (*)(std::size_t)>(find("malloc"));
    free_function = reinterpret_cast<void (*)(void*)>(find("free"));
    realloc_function = reinterpret_cast<void* (*)(void*, std::size_t)>(find("realloc"));
    if (malloc_function == nullptr || free_function == nullptr || realloc_function == nullptr ||
        malloc_function == &std::malloc) {
      throw std::runtime_error(std::string(library) + " has no malloc of its own");
    }
    return {.name = name, .allocate = allocate, .free = free, .reallocate = reallocate};
  }
};

// ---- pools ----------------------------------------------------------------------------------------------------------

thread_local std::pmr::unsynchronized_pool_resource* own_pool = nullptr;
std::pmr::synchronized_pool_resource* common_pool = nullptr;

void* own_pool_allocate(std::size_t size) { return own_pool->allocate(size, 16); }
void own_pool_free(void* block, std::size_t size) { own_pool->deallocate(block, size, 16); }
void* common_pool_allocate(std::size_t size) { return common_pool->allocate(size, 16); }
void common_pool_free(void* block, std::size_t size) { common_pool->deallocate(block, size, 16); }

/// The lower bound: an intrusive list for each thread.
struct Node {
  Node* next;
};
thread_local Node* free_list = nullptr;

void* list_allocate(std::size_t) {
  Node* node = free_list;
  if (node == nullptr) return std::malloc(kFixedSize);
  free_list = node->next;
  return node;
}
void list_free(void* block, std::size_t) {
  auto* node = static_cast<Node*>(block);
  node->next = free_list;
  free_list = node;
}

std::vector<Subject> set_up() {
  set_up_ours();
  common_pool = new std::pmr::synchronized_pool_resource;
  return {
      Malloc<3>::ours("heap"),
      {.name = "cache", .allocate = cache_allocate, .free = cache_free, .mixed_sizes = false},
      {.name = "glibc", .allocate = glibc_malloc, .free = glibc_free, .reallocate = glibc_realloc},
      Malloc<0>::load("jemalloc", "libjemalloc.so.2", ""),
      Malloc<1>::load("mimalloc", "libmimalloc.so.2", "mi_"),
      Malloc<2>::load("tcmalloc", "libtcmalloc_minimal.so.4", "tc_"),
      {.name = "pmr, own pool", .allocate = own_pool_allocate, .free = own_pool_free, .shared = false},
      {.name = "pmr, common pool", .allocate = common_pool_allocate, .free = common_pool_free},
      {.name = "free list", .allocate = list_allocate, .free = list_free, .mixed_sizes = false, .shared = false},
  };
}

}  // namespace

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all = set_up();
  return all;
}

struct ThreadScope::State {
  explicit State(unsigned thread) : hart(thread) { attach_hart(thread); }
  hal::HostHart hart;
  std::pmr::unsynchronized_pool_resource pool;
};

ThreadScope::ThreadScope(unsigned thread) : state_(new State(thread)) { own_pool = &state_->pool; }

ThreadScope::~ThreadScope() {
  own_pool = nullptr;
  delete state_;
}

}  // namespace qm::bench
