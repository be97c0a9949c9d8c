#pragma once
/// A dump: the records of what a pattern names, or of all, oldest first, while the system allocates.
///
///     trace::Dump dump;
///     trace::DumpEntry entry;
///     dump.begin(cache);
///     while (dump.next(entry)) print(entry);
///     const trace::DumpSummary summary = dump.finish();
///
/// Invariants
/// - U1 What is shown was recorded before begin(): its sequence number is lower than the next one at that time.
/// - U2 Numbers are shown in rising order. Each record that is live from begin() to finish() is shown exactly once, no
///      record twice; one freed meanwhile may be left out.
/// - U3 Nothing is allocated, and the lock of the books is held for one record at a time.
///
/// The next record in order is found by a look at all of them, so n records take n looks at all: the core has few.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/trace/live_trace.hpp>
#include <qm/trace/unwind.hpp>

namespace qm::trace {

/// One live object.
struct DumpEntry {
  std::uintptr_t object = 0;
  std::size_t requested = 0;  ///< bytes asked for; of a cache, those of an object
  std::uint64_t sequence = 0;
  unsigned hart = 0;
  std::uint32_t stack_id = 0;  ///< the same for the same stack in every boot of an image; below 16: no stack
  unsigned depth = 0;
  bool truncated = false;           ///< the walk did not reach the stack's end, or there is no stack
  std::uintptr_t pcs[kStackDepth];  ///< return addresses, innermost first
};

/// The record of one object.
/// @returns false if @p object has none. Complexity: bounded by the bits of a word. Context: any.
bool find(const Traceable& source, std::uintptr_t object, DumpEntry& entry) noexcept;

/// What the closing line says: of all that the dump was of.
struct DumpSummary {
  std::size_t outstanding = 0;  ///< records shown
  Figures figures;
  std::size_t truncated_shown = 0;  ///< of the records shown, without a whole stack
  std::size_t from_before_start = 0;
  bool reset = false;  ///< a reset, or the end of a source, fell into the dump
  bool ended = false;  ///< next() had nothing left; else the dump was cut short, or the books are not open
  /// Whether everything that was out and recorded has been shown, with its whole stack, and nothing was dropped.
  [[nodiscard]] bool complete() const noexcept {
    return ended && !reset && truncated_shown == 0 && figures.dropped == 0;
  }
};

class Dump {
 public:
  /// Begins a dump of what @p pattern names. @returns kNotFound: nothing of that name. Context: as start().
  Status begin(std::string_view pattern) noexcept;
  /// Begins a dump of one source, which may be destroyed meanwhile. Dumps may run at the same time.
  void begin(const Traceable& source) noexcept { begin_of(std::uint32_t{1} << source.number()); }
  void begin(Cache& cache) noexcept { begin(cache.traceable()); }
  void begin(Arena& arena) noexcept { begin(arena.traceable()); }
  /// Begins a dump of all there is.
  void begin_all() noexcept { begin_of(~std::uint32_t{0}); }

  /// @returns false when there is nothing left. Complexity: a look at all records, each in a lock hold of its own.
  bool next(DumpEntry& entry) noexcept;

  /// @returns what there is to say at the end; also after a dump that was cut short.
  [[nodiscard]] DumpSummary finish() const noexcept;

 private:
  void begin_of(std::uint32_t sources) noexcept;

  std::uint32_t sources_ = 0;  ///< a bit for each number
  std::uint64_t window_ = 0;   ///< numbers above are younger than the dump
  std::uint64_t last_ = 0;     ///< every number up to here is done
  std::size_t shown_ = 0;
  std::size_t truncated_ = 0;
  bool ended_ = false;
};

}  // namespace qm::trace
