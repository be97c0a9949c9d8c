#pragma once
/// The books themselves: one object that hears of allocations, with what it keeps for each source.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/bits.hpp>
#include <qm/lock.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/stack_depot.hpp>
#include <qm/trace/unwind.hpp>
#include <qm/traceable.hpp>

namespace qm::trace {

/// One live object.
struct Record {
  static constexpr unsigned kSourceBits = 5;
  static constexpr unsigned kHartBits = 5;

  std::size_t key;   ///< what the trie goes by: see key_of()
  Record* child[2];  ///< in its trie; free: [0] the next free one
  std::uint32_t sequence_low;
  std::uint32_t sequence_high;  ///< sequence 0: free
  std::uint32_t size;           ///< bytes asked for; of more than 32 bits the largest that they hold
  std::uint32_t place;          ///< stack handle, source and hart above it

  [[nodiscard]] std::uint64_t sequence() const noexcept { return std::uint64_t{sequence_high} << 32 | sequence_low; }
  void set_sequence(std::uint64_t number) noexcept {
    sequence_low = static_cast<std::uint32_t>(number);
    sequence_high = static_cast<std::uint32_t>(number >> 32);
  }
  [[nodiscard]] StackHandle stack() const noexcept { return place & ((1U << kStackHandleBits) - 1); }
  [[nodiscard]] unsigned source() const noexcept { return place >> kStackHandleBits & ((1U << kSourceBits) - 1); }
  [[nodiscard]] unsigned hart() const noexcept { return place >> (kStackHandleBits + kSourceBits); }
  void set_place(StackHandle stack, unsigned source, unsigned hart) noexcept {
    place = stack | source << kStackHandleBits | hart << (kStackHandleBits + kSourceBits);
  }

  /// An address spread over the whole word, one for each, so that those that lie together part at once in a trie.
  static constexpr std::size_t kSpread = static_cast<std::size_t>(0x9E37'79B9'7F4A'7C15);
  /// What undoes it: the inverse modulo 2^kWordBits, by Newton's iteration.
  static constexpr std::size_t inverse_of(std::size_t odd) noexcept {
    std::size_t inverse = odd;
    for (int bits = 3; bits < 64; bits *= 2) inverse *= 2 - odd * inverse;
    return inverse;
  }
  static std::size_t key_of(std::uintptr_t object) noexcept { return object * kSpread; }
  [[nodiscard]] std::uintptr_t object() const noexcept { return key * inverse_of(kSpread); }
};
static_assert(sizeof(Record) == kBytesPerRecord && kBytesPerRecord % 4 == 0);
static_assert(kStackHandleBits + Record::kSourceBits + Record::kHartBits == 32);
static_assert(kMaxSources <= 1U << Record::kSourceBits && hal::Port::kMaxHarts <= 1U << Record::kHartBits);
static_assert(Record::kSpread * Record::inverse_of(Record::kSpread) == 1);

struct Source {
  Traceable* of = nullptr;       ///< whose it is; nullptr: nobody's. The heap's is always
  Record* records = nullptr;     ///< the trie, by key
  std::uint64_t dead_up_to = 0;  ///< records up to this number are dead (L3)
  Figures figures;
  std::size_t from_before_start = 0;
  std::uint32_t live = 0;  ///< records that are not dead
};

enum class Action : std::uint8_t { kLook, kStart, kStop, kReset };

class Books final : public Observer {
 public:
  constexpr Books() noexcept = default;
  Status initialize(const Config& config) noexcept;
  void shutdown() noexcept;
  [[nodiscard]] bool ready() const noexcept { return sources_ != nullptr; }

  void taken(std::uint8_t number, std::uintptr_t object, std::size_t requested) noexcept override;
  void going(std::uint8_t number, std::uintptr_t object) noexcept override;
  void resized(std::uint8_t number, std::uintptr_t object, std::size_t requested) noexcept override;
  void destroyed(std::uint8_t number) noexcept override;

  /// One command on one source. @param[in] out its objects that are out.
  /// @returns kNoMemory (a start, and there is no number left), kRefused (it may not be traced), kUnsafe (not open).
  Status apply(Action action, Traceable& of, std::size_t out) noexcept;
  /// Frees the records that are dead. Complexity: O(records), one in a lock hold. Context: any.
  void sweep() noexcept;

  bool find(unsigned number, std::uintptr_t object, DumpEntry& entry) noexcept;
  /// The oldest record of @p sources above @p last and up to @p window. @returns false: there is none.
  bool next(std::uint32_t sources, std::uint64_t last, std::uint64_t window, DumpEntry& entry) noexcept;
  /// A number for a dump that begins now.
  std::uint64_t window() noexcept;
  /// Adds what there is to say of @p sources at the end of a dump.
  void summarize(std::uint32_t sources, std::uint64_t window, DumpSummary& summary) noexcept;

  CacheTrace look(unsigned number) noexcept;
  Totals totals() noexcept;
  bool validate() noexcept;

 private:
  [[nodiscard]] StackHandle store_stack(std::uintptr_t frame, bool& truncated) noexcept;
  /// The word that points at the object's record, or the empty one where that belongs.
  [[nodiscard]] Record** place_of(unsigned number, std::uintptr_t object) noexcept;
  [[nodiscard]] bool is_alive(const Record& record) const noexcept {
    return record.sequence() > sources_[record.source()].dead_up_to;
  }
  void remove_locked(Record** place) noexcept;
  [[nodiscard]] unsigned adopt_locked(Traceable& of) noexcept;
  void reset_locked(unsigned number, std::size_t out) noexcept;
  void describe(const Record& record, DumpEntry& entry) const noexcept;
  static std::uint8_t state(unsigned number) noexcept { return source_states[number].load(std::memory_order_relaxed); }
  static void set_state(unsigned number, std::uint8_t state) noexcept {
    // release: pairs with the acquire in Traceable::is().
    source_states[number].store(state, std::memory_order_release);
  }

  Lock lock_;
  Source* sources_ = nullptr;  ///< by number; 0 is nobody's
  unsigned source_count_ = 0;
  Record* records_ = nullptr;
  std::size_t record_count_ = 0;
  Record* free_ = nullptr;
  std::uint64_t sequence_ = 0;  ///< the last number: of a record, a reset, a dump
  StackDepot stacks_;
  WalkRanges ranges_;      ///< frames are kept as distances from the plain text's begin
  std::size_t drawn_ = 0;  ///< bytes of base_arena(), from sources_ on; 0: none
};

extern constinit Books books;

}  // namespace qm::trace
