#include <qm/bench/peers.hpp>

#include <cstring>

extern "C" {
void* tlsf_create_with_pool(void* memory, std::size_t bytes);
std::size_t tlsf_size();
std::size_t tlsf_pool_overhead();
std::size_t tlsf_block_size_min();
void vPortHeapResetState();
O1HeapInstance* o1heapInit(void* memory, std::size_t bytes);

// heap_4's pool, declared in freertos/FreeRTOS.h.
std::uint8_t* ucHeap = nullptr;
std::size_t qm_heap_4_bytes = 0;
}

namespace qm::bench {
namespace {

/// @returns the bytes of a block, from word @p word of the header of @p header_bytes bytes before it.
std::size_t size_in_header(const void* block, std::size_t header_bytes, std::size_t word) noexcept {
  std::size_t size = 0;
  std::memcpy(&size, static_cast<const char*>(block) - header_bytes + word * sizeof size, sizeof size);
  return size;
}

template <class Peer>
void* move(void* block, std::size_t old_size, std::size_t size) noexcept {
  void* const moved = Peer::allocate(size);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, old_size < size ? old_size : size);
  Peer::free(block);
  return moved;
}

}  // namespace

bool Tlsf::start(void* memory, std::size_t bytes) noexcept {
  if constexpr (kGiven) {
    if (bytes < tlsf_size() + tlsf_pool_overhead() + tlsf_block_size_min()) return false;
    control_ = tlsf_create_with_pool(memory, bytes);
  }
  return control_ != nullptr;
}

bool Heap4::start(void* memory, std::size_t bytes) noexcept {
  constexpr std::size_t kEmptyBytes = 128;
  if constexpr (kGiven) vPortHeapResetState();
  ucHeap = static_cast<std::uint8_t*>(memory);
  qm_heap_4_bytes = bytes;
  return bytes >= kEmptyBytes;
}

/// The header of 16 bytes is a pointer and the size of block and header; the top bit of the size means allocated.
void* Heap4::reallocate(void* block, std::size_t size) noexcept {
  if constexpr (!kGiven) return nullptr;
  constexpr std::size_t kHeaderBytes = 16;
  return move<Heap4>(block, (size_in_header(block, kHeaderBytes, 1) & (SIZE_MAX >> 1)) - kHeaderBytes, size);
}

bool O1heap::start(void* memory, std::size_t bytes) noexcept {
  if constexpr (kGiven) heap_ = o1heapInit(memory, bytes);
  return heap_ != nullptr;
}

/// The header has four words; the third is the size of block and header.
void* O1heap::reallocate(void* block, std::size_t size) noexcept {
  if constexpr (!kGiven) return nullptr;
  constexpr std::size_t kHeaderBytes = 4 * sizeof(void*);
  return move<O1heap>(block, size_in_header(block, kHeaderBytes, 2) - kHeaderBytes, size);
}

}  // namespace qm::bench
