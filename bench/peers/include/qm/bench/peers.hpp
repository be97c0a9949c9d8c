#pragma once
/// Allocators for small memories, with which benches compare: TLSF, heap_4 and o1heap, each over one pool. They are
/// compiled from their own sources, those that QM_PEERS has (bench/peers/CMakeLists.txt).
///
///     for_each_peer([&]<class Peer> { ...Peer::kName... });
///
/// A Peer's functions are static:
///   start(memory, bytes)     starts anew over a pool, aligned to 32; false if an empty heap does not fit into the pool
///   allocate(size)           size is not 0 (TLSF and o1heap return nullptr for it)
///   reallocate(block, size)  if the peer has no such function: a new block, a copy, a free
///   free(block)

#include <cstddef>
#include <cstdint>
#include <string_view>

#ifndef QM_BENCH_TLSF
#define QM_BENCH_TLSF 0
#endif
#ifndef QM_BENCH_HEAP_4
#define QM_BENCH_HEAP_4 0
#endif
#ifndef QM_BENCH_O1HEAP
#define QM_BENCH_O1HEAP 0
#endif

extern "C" {
void* tlsf_malloc(void* tlsf, std::size_t bytes);
void* tlsf_realloc(void* tlsf, void* block, std::size_t bytes);
void tlsf_free(void* tlsf, void* block);
void* pvPortMalloc(std::size_t bytes);
void vPortFree(void* block);
struct O1HeapInstance;
void* o1heapAllocate(O1HeapInstance* heap, std::size_t bytes);
void o1heapFree(O1HeapInstance* heap, void* block);
}

namespace qm::bench {

struct Tlsf {
  static constexpr std::string_view kName = "TLSF";
  static constexpr bool kGiven = QM_BENCH_TLSF != 0;
  static bool start(void* memory, std::size_t bytes) noexcept;
  static void* allocate(std::size_t size) noexcept { return tlsf_malloc(control_, size); }
  static void* reallocate(void* block, std::size_t size) noexcept { return tlsf_realloc(control_, block, size); }
  static void free(void* block) noexcept { tlsf_free(control_, block); }

 private:
  static inline void* control_ = nullptr;
};

struct Heap4 {
  static constexpr std::string_view kName = "heap_4";
  static constexpr bool kGiven = QM_BENCH_HEAP_4 != 0;
  static bool start(void* memory, std::size_t bytes) noexcept;
  static void* allocate(std::size_t size) noexcept { return pvPortMalloc(size); }
  static void* reallocate(void* block, std::size_t size) noexcept;
  static void free(void* block) noexcept { vPortFree(block); }
};

struct O1heap {
  static constexpr std::string_view kName = "o1heap";
  static constexpr bool kGiven = QM_BENCH_O1HEAP != 0;
  static bool start(void* memory, std::size_t bytes) noexcept;
  static void* allocate(std::size_t size) noexcept { return o1heapAllocate(heap_, size); }
  static void* reallocate(void* block, std::size_t size) noexcept;
  static void free(void* block) noexcept { o1heapFree(heap_, block); }

 private:
  static inline O1HeapInstance* heap_ = nullptr;
};

/// Calls `visit.operator()<Peer>()` for each peer whose source is available.
template <class Visit>
void for_each_peer(Visit visit) {
  if constexpr (Tlsf::kGiven) visit.template operator()<Tlsf>();
  if constexpr (Heap4::kGiven) visit.template operator()<Heap4>();
  if constexpr (O1heap::kGiven) visit.template operator()<O1heap>();
}

}  // namespace qm::bench
