#include <qm/memory_resource.hpp>

#include <new>

#include <qm/hal/port.hpp>
#include <qm/heap.hpp>

namespace qm {
namespace {

class HeapResource final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    void* block = heap::allocate_aligned(alignment, bytes);
    if (block == nullptr) hal::Port::fatal("heap_resource: no memory");
    return block;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    heap::free_sized(block, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
};

}  // namespace

std::pmr::memory_resource& heap_resource() noexcept {
  // Never destroyed: containers of static storage may be destroyed after it.
  alignas(HeapResource) static std::byte place[sizeof(HeapResource)];
  static std::pmr::memory_resource* const resource = ::new (static_cast<void*>(place)) HeapResource;
  return *resource;
}

}  // namespace qm
