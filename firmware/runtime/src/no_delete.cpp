/// operator delete for images without a heap, because virtual destructors refer to it. It is linked only if no earlier
/// library defines operator delete.

#include <cstddef>
#include <new>

#include <qm/hal/port.hpp>

namespace {
[[noreturn]] void fatal() noexcept { qm::hal::Port::fatal("operator delete in an image without a heap"); }
}  // namespace

void operator delete(void*) noexcept { fatal(); }
void operator delete(void*, std::size_t) noexcept { fatal(); }
void operator delete(void*, std::align_val_t) noexcept { fatal(); }
void operator delete(void*, std::size_t, std::align_val_t) noexcept { fatal(); }
void operator delete[](void*) noexcept { fatal(); }
void operator delete[](void*, std::size_t) noexcept { fatal(); }
