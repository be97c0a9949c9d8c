// All forms of operator new and delete over the heap, for programs that link the library qm_new. Before
// qm::initialize() there is no memory: a static object's constructor must not use them.
//
// An allocation that finds no memory calls the new-handler, which frees some memory and returns, or does not return;
// then the allocation tries again. Without a handler, the forms that may return nullptr do so, and the others end in
// Port::fatal(): without exceptions they cannot report the failure, and the compiler takes their result for memory.
//
// A delete that gets the size checks it, as heap::free_sized() does.

#include <atomic>
#include <cstddef>
#include <new>

#include <qm/hal/port.hpp>
#include <qm/heap.hpp>
#include <qm/new.hpp>

namespace {

constinit std::atomic<std::new_handler> the_handler{nullptr};

void* allocate_or_null(std::size_t size, std::size_t alignment,
                       const qm::CallSite* site = qm::call_sites::untagged()) noexcept {
  for (;;) {
    void* block = alignment <= qm::heap::kAlignment ? qm::heap::allocate_at(site, size)
                                                    : qm::heap::allocate_aligned_at(site, alignment, size);
    if (block != nullptr) return block;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) return nullptr;
    handler();
  }
}

void* allocate(std::size_t size, std::size_t alignment,
               const qm::CallSite* site = qm::call_sites::untagged()) noexcept {
  void* block = allocate_or_null(size, alignment, site);
  if (block == nullptr) qm::hal::Port::fatal("operator new: no memory");
  return block;
}

/// What the compiler takes for granted; more than the heap's own alignment if QM_ALIGNMENT is less.
constexpr std::size_t kUsual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

constexpr std::size_t bytes(std::align_val_t alignment) noexcept { return static_cast<std::size_t>(alignment); }

}  // namespace

// Declared in <new> and defined in libstdc++'s library, which such a program need not link.
const std::nothrow_t std::nothrow{};
std::new_handler std::set_new_handler(std::new_handler handler) noexcept {
  return the_handler.exchange(handler, std::memory_order_acq_rel);
}
std::new_handler std::get_new_handler() noexcept { return the_handler.load(std::memory_order_acquire); }

void* operator new(std::size_t size) { return allocate(size, kUsual); }
void* operator new[](std::size_t size) { return allocate(size, kUsual); }
void* operator new(std::size_t size, std::align_val_t alignment) { return allocate(size, bytes(alignment)); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return allocate(size, bytes(alignment)); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate_or_null(size, kUsual); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate_or_null(size, kUsual); }
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate_or_null(size, bytes(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate_or_null(size, bytes(alignment));
}

void* operator new(std::size_t size, const qm::CallSite* site) { return allocate(size, kUsual, site); }
void* operator new[](std::size_t size, const qm::CallSite* site) { return allocate(size, kUsual, site); }
void* operator new(std::size_t size, std::align_val_t alignment, const qm::CallSite* site) {
  return allocate(size, bytes(alignment), site);
}
void* operator new[](std::size_t size, std::align_val_t alignment, const qm::CallSite* site) {
  return allocate(size, bytes(alignment), site);
}
void operator delete(void* block, const qm::CallSite*) noexcept { qm::heap::free(block); }
void operator delete[](void* block, const qm::CallSite*) noexcept { qm::heap::free(block); }
void operator delete(void* block, std::align_val_t, const qm::CallSite*) noexcept { qm::heap::free(block); }
void operator delete[](void* block, std::align_val_t, const qm::CallSite*) noexcept { qm::heap::free(block); }

void operator delete(void* block) noexcept { qm::heap::free(block); }
void operator delete[](void* block) noexcept { qm::heap::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { qm::heap::free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { qm::heap::free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { qm::heap::free(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { qm::heap::free(block); }
void operator delete(void* block, std::align_val_t, const std::nothrow_t&) noexcept { qm::heap::free(block); }
void operator delete[](void* block, std::align_val_t, const std::nothrow_t&) noexcept { qm::heap::free(block); }
void operator delete(void* block, std::size_t size) noexcept { qm::heap::free_sized(block, size, kUsual); }
void operator delete[](void* block, std::size_t size) noexcept { qm::heap::free_sized(block, size, kUsual); }
void operator delete(void* block, std::size_t size, std::align_val_t alignment) noexcept {
  qm::heap::free_sized(block, size, bytes(alignment));
}
void operator delete[](void* block, std::size_t size, std::align_val_t alignment) noexcept {
  qm::heap::free_sized(block, size, bytes(alignment));
}
