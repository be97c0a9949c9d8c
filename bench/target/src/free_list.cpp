#include <qm/arena.hpp>
#include <qm/bench/subjects.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/system.hpp>

namespace qm::bench {

FreeListSubject::FreeListSubject(std::size_t size) noexcept : bytes_(kObjects * size) {
  memory_ = base_arena().allocate(bytes_);
  if (memory_ == 0) firmware::panic("bench: no memory");
  for (std::size_t i = kObjects; i-- > 0;) push(*this, reinterpret_cast<void*>(memory_ + i * size));
}

FreeListSubject::~FreeListSubject() { base_arena().free(memory_, bytes_); }

void* FreeListSubject::pop(FreeListSubject& list) noexcept {
  Free* object = list.first_;
  if (object != nullptr) list.first_ = object->next;
  return object;
}

void FreeListSubject::push(FreeListSubject& list, void* object) noexcept {
  auto* free = static_cast<Free*>(object);
  free->next = list.first_;
  list.first_ = free;
}

}  // namespace qm::bench
