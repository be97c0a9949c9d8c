#pragma once
/// The platform-level interrupt controller: priorities, one enable set, threshold and claim register a context.
///
///     0x000000  priority of source s         + 4 s
///     0x002000  enable bits of context c     + 0x80 c
///     0x200000  threshold of context c       + 0x1000 c     (claim/complete 4 bytes further)

#include <cstdint>

namespace qm::hal {

template <class Registers>
class Plic {
 public:
  /// @param[in] registers 32-bit registers, indexed by byte offset.
  constexpr explicit Plic(Registers registers) noexcept : registers_(registers) {}

  /// Admits every source with a priority to @p context.
  void open_context(unsigned context) const noexcept { registers_.write(kThreshold + 0x1000u * context, 0); }

  /// Enables @p source for @p context. Not safe if another hart enables a source for the same context at the same time.
  void enable(unsigned context, unsigned source) const noexcept {
    registers_.write(4u * source, 1);
    const std::uintptr_t word = kEnable + 0x80u * context + 4u * (source / 32);
    registers_.write(word, registers_.read(word) | (1u << (source % 32)));
  }

  /// Disables @p source for @p context.
  void disable(unsigned context, unsigned source) const noexcept {
    const std::uintptr_t word = kEnable + 0x80u * context + 4u * (source / 32);
    registers_.write(word, registers_.read(word) & ~(1u << (source % 32)));
  }

  /// Claims the most urgent pending source. @returns 0 if there is none.
  [[nodiscard]] unsigned claim(unsigned context) const noexcept {
    return registers_.read(kThreshold + 0x1000u * context + 4);
  }

  /// Completes @p source, which was claimed before.
  void complete(unsigned context, unsigned source) const noexcept {
    registers_.write(kThreshold + 0x1000u * context + 4, source);
  }

 private:
  static constexpr std::uintptr_t kEnable = 0x2000, kThreshold = 0x200000;
  Registers registers_;
};

}  // namespace qm::hal
