#pragma once
/// The context table stores each distinct context label ("boot", "task net-rx", "irq 10 from task idle") once, so that
/// a record names its context in nine bits and may outlive the task. The table is append-only; a look-up takes no lock,
/// a new label takes one.
///
///     directory: | part 0 -> | part 1 -> | ...     a part: kPartSlots slots, in the order in which labels are added
///     slot 0:    | head | head | ...               ids of the first labels of 16 lists; a slot has the next id
///
/// Invariants
/// - X1 A slot never changes once a head or a slot names it. Id 0 means that the table was full.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/detail/lock.hpp>

namespace qm::trace {

inline constexpr unsigned kContextIdBits = 9;
/// Most characters of a label: at most 60 with "hart NN " in front. A longer label is cut and ends with `~`.
inline constexpr std::size_t kContextChars = 52;

struct ContextSlot {
  std::uint32_t hash = 0;
  std::atomic<std::uint16_t> next{0};  ///< id of the next label in the list; 0: none
  std::uint8_t length = 0;
  char text[kContextChars + 5] = {};
};
static_assert(sizeof(ContextSlot) == 64);

class ContextTable {
 public:
  constexpr ContextTable() noexcept = default;

  static constexpr unsigned kPartSlots = 4;
  static constexpr std::size_t kPartBytes = kPartSlots * sizeof(ContextSlot);
  using Part = std::atomic<ContextSlot*>;
  /// The number of parts, which is the number of directory entries, of a table of @p slots.
  static constexpr unsigned parts_for(unsigned slots) noexcept { return (slots + kPartSlots - 1) / kPartSlots; }

  /// Starts empty.
  /// @param[in] directory parts_for(slots) entries.
  /// @param[in] slots     at most 512; one of them holds no label.
  /// @param[in] first     the zeroed memory of part 0.
  void initialize(std::span<Part> directory, unsigned slots, void* first) noexcept;

  /// Returns to the state before initialize(). Context: nobody uses the table.
  void forget() noexcept { directory_ = nullptr; }

  /// Finds or stores @p label.
  /// @returns its id. 0 if the label is new, and either the table is full, which is counted, or next_part() has no
  ///          memory yet.
  /// Complexity: O(length of the label), and comparisons with a sixteenth of the labels. Context: any; a new label
  ///             takes a lock briefly.
  std::uint32_t intern(std::string_view label) noexcept;

  /// The part for the next label. @returns parts() if the table is full.
  [[nodiscard]] unsigned next_part() const noexcept {
    const std::uint32_t next = used_.load(std::memory_order_relaxed) + 1;
    return next < slots_ ? next / kPartSlots : parts();
  }
  [[nodiscard]] unsigned parts() const noexcept { return parts_for(slots_); }
  [[nodiscard]] bool has_part(unsigned part) const noexcept {
    // acquire: pairs with the release in add_part().
    return directory_[part].load(std::memory_order_acquire) != nullptr;
  }
  /// Adds the memory at @p start, kPartBytes zeroed bytes; the table keeps it.
  /// @returns false if another hart has added this part; the memory then stays the caller's. Context: any.
  bool add_part(unsigned part, void* start) noexcept {
    ContextSlot* none = nullptr;
    return directory_[part].compare_exchange_strong(none, static_cast<ContextSlot*>(start), std::memory_order_release,
                                                    std::memory_order_relaxed);
  }

  /// The label with the given id; "?" for 0.
  [[nodiscard]] std::string_view text(std::uint32_t id) const noexcept;

  [[nodiscard]] std::uint32_t failures() const noexcept { return failures_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t size() const noexcept { return used_.load(std::memory_order_relaxed); }
  /// Most labels.
  [[nodiscard]] std::uint32_t capacity() const noexcept { return slots_ != 0 ? slots_ - 1 : 0; }

 private:
  /// The list of a label. The heads lie in slot 0, after the fields of a slot.
  static constexpr unsigned kLists = 16;
  [[nodiscard]] std::atomic<std::uint16_t>& head(std::uint32_t hash) const noexcept;
  /// @returns the id of the label; 0 if the table does not have it.
  [[nodiscard]] std::uint32_t find(std::uint32_t hash, std::string_view label) const noexcept;
  [[nodiscard]] ContextSlot& at(std::uint32_t id) const noexcept {
    return directory_[id / kPartSlots].load(std::memory_order_acquire)[id % kPartSlots];
  }

  Lock lock_;
  Part* directory_ = nullptr;
  std::uint32_t slots_ = 0;
  std::atomic<std::uint32_t> used_{0};
  std::atomic<std::uint32_t> failures_{0};
};

}  // namespace qm::trace
