#pragma once
/// Register access. A chip driver is a template over one of these classes, so that a test can supply registers of its
/// own.

#include <cstdint>

namespace qm::hal {

/// Memory-mapped registers of the type `Value`, one every `1 << shift` bytes from `base`.
template <class Value>
class Mmio {
 public:
  constexpr explicit Mmio(std::uintptr_t base = 0, unsigned shift = 0) noexcept : base_(base), shift_(shift) {}
  [[nodiscard]] Value read(std::uintptr_t index) const noexcept { return *at(index); }
  void write(std::uintptr_t index, Value value) const noexcept { *at(index) = value; }
  [[nodiscard]] std::uintptr_t base() const noexcept { return base_; }

 private:
  [[nodiscard]] volatile Value* at(std::uintptr_t index) const noexcept {
    return reinterpret_cast<volatile Value*>(base_ + (index << shift_));
  }

  std::uintptr_t base_;
  unsigned shift_;
};

}  // namespace qm::hal
