#pragma once
/// The context table: each distinct context label ("boot", "task net-rx", "irq 10 from task idle") once, append-only,
/// so that a record names its context in nine bits and may outlive the task. Found without a lock, stored under one.
///
/// Invariants
/// - X1 A slot's text never changes once its hash is set. Slot 0 stays empty: id 0 means that the table was full.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/lock.hpp>

namespace qm::trace {

inline constexpr unsigned kContextIdBits = 9;
/// Characters of a label: with "hart NN " in front at most 60. A longer one is cut and ends with `~`.
inline constexpr std::size_t kContextChars = 52;

struct ContextSlot {
  std::atomic<std::uint32_t> hash{0};  ///< 0: empty
  std::uint8_t length = 0;
  char text[kContextChars + 7] = {};
};
static_assert(sizeof(ContextSlot) == 64);

class ContextTable {
 public:
  constexpr ContextTable() noexcept = default;

  /// Starts empty over @p storage, a power of two of slots up to 512, of which one stays unused.
  void initialize(std::span<ContextSlot> storage) noexcept;

  /// Goes back to the time before initialize(). Context: nobody uses the table.
  void forget() noexcept { slots_ = nullptr; }

  /// Finds or stores @p label.
  /// @returns its id; 0, counted, if it is new and the table is full.
  /// Complexity: O(label). Context: any; a new label takes a lock, briefly.
  std::uint32_t intern(std::string_view label) noexcept;

  /// The label of an id; "?" for 0.
  [[nodiscard]] std::string_view text(std::uint32_t id) const noexcept;

  [[nodiscard]] std::uint32_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t size() const noexcept { return used_.load(std::memory_order_relaxed); }
  /// Labels it can hold.
  [[nodiscard]] std::uint32_t capacity() const noexcept { return mask_; }

 private:
  /// @returns the slot that has the label, or the first empty one where it belongs; 0 if there is neither.
  [[nodiscard]] std::uint32_t probe(std::uint32_t hash, std::string_view label) const noexcept;

  Lock lock_;
  ContextSlot* slots_ = nullptr;
  std::uint32_t mask_ = 0;
  std::atomic<std::uint32_t> used_{0};
  std::atomic<std::uint32_t> failures_{0};
};

}  // namespace qm::trace
