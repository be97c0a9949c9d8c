#include <qm/firmware/boot.hpp>
#include <qm/system.hpp>

#include "fast_path_callers.hpp"

void use_both_forms() noexcept {
  alignas(4096) static std::byte memory[1 << 20];
  const qm::MemoryRange range{reinterpret_cast<std::uintptr_t>(memory), sizeof memory};
  if (qm::initialize({&range, 1}, 1) != qm::Status::kOk) qm::firmware::panic("no allocator");
  qm::attach_hart(0);
  if (Looked::create({.name = "looked", .object_size = 64}) != qm::Status::kOk) qm::firmware::panic("no cache");
  qm_image_pair_called(Looked::cache(), 1000);
  qm_image_pair_inlined(1000);
  qm_image_pair_of_heap(1000);
  if (Looked::cache()->stats().in_use != 0) qm::firmware::panic("objects are out");
}
