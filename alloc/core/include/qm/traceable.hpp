#pragma once
/// The seam through which the books of the core form (trace/core, built with QM_TRACE) see allocations. In a build
/// without them nothing here is left of it.
///
///     Cache, Arena, heap:  Traceable, a number       0: never traced
///     source_states        | 0 | heap | ... | 0 |    by number: who is told of what; the last is for what may not be traced
///
/// Invariants
/// - O1 The observer hears of an object after it was taken and before its user has it, and of its end before it can be
///      taken again.
/// - O2 It allocates nothing, and takes no lock but its own, a leaf: an arena's lock may be held.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/config.h>

namespace qm {

/// Whether this build has the hooks.
#if defined(QM_TRACED)
inline constexpr bool kTraced = true;
#else
inline constexpr bool kTraced = false;
#endif

/// What the books are told of a source; 0: nothing.
namespace trace_state {
inline constexpr std::uint8_t kRecord = 1;  ///< allocations
inline constexpr std::uint8_t kWatch = 2;   ///< frees
}  // namespace trace_state

/// Sources by number. The heap is one source, its size classes and its large blocks together.
inline constexpr unsigned kMaxSources = 32;
inline constexpr std::uint8_t kNoSource = 0;
inline constexpr std::uint8_t kHeapSource = 1;
inline constexpr std::uint8_t kUntraceable = kMaxSources - 1;

/// What keeps the books.
class Observer {
 public:
  /// The user of @p source gets an object, or a segment, of which @p requested bytes were asked for.
  virtual void taken(std::uint8_t source, std::uintptr_t object, std::size_t requested) noexcept = 0;
  /// What may be an object that is out is about to be free.
  virtual void going(std::uint8_t source, std::uintptr_t object) noexcept = 0;
  /// An object has grown or shrunk where it is.
  virtual void resized(std::uint8_t source, std::uintptr_t object, std::size_t requested) noexcept = 0;
  /// The source goes, and none of its objects is out.
  virtual void destroyed(std::uint8_t source) noexcept = 0;

 protected:
  ~Observer() = default;
};

/// Set before the first state is not 0.
extern constinit Observer* observer;
/// Written by the books alone, under their lock.
extern constinit std::atomic<std::uint8_t> source_states[kMaxSources];

/// What a cache or an arena keeps for the books: a number by which they know it. @tparam kKept false: nothing.
template <bool kKept>
class BasicTraceable {
 public:
  constexpr BasicTraceable() noexcept = default;
  explicit constexpr BasicTraceable(std::uint8_t number) noexcept : number_(number) {}

  [[nodiscard]] std::uint8_t number() const noexcept {
    return std::atomic_ref(const_cast<std::uint8_t&>(number_)).load(std::memory_order_relaxed);
  }
  void set_number(std::uint8_t number) noexcept { std::atomic_ref(number_).store(number, std::memory_order_relaxed); }

  /// See Observer. Nothing for the object 0, and for a source of which that is not told.
  void taken(std::uintptr_t object, std::size_t requested) const noexcept {
    if (object != 0 && is(trace_state::kRecord)) observer->taken(number(), object, requested);
  }
  void going(std::uintptr_t object) const noexcept {
    if (is(trace_state::kWatch)) observer->going(number(), object);
  }
  void resized(std::uintptr_t object, std::size_t requested) const noexcept {
    if (is(trace_state::kWatch)) observer->resized(number(), object, requested);
  }
  void destroyed() const noexcept {
    if (number() != kNoSource && number() != kUntraceable) observer->destroyed(number());
  }

 private:
  [[nodiscard]] bool is(std::uint8_t told) const noexcept {
    // acquire: pairs with the release in Books::set_state(): who sees a state sees the books open. What is recorded is
    // decided under their lock.
    if ((source_states[number()].load(std::memory_order_relaxed) & told) == 0) [[likely]]
      return false;
    std::atomic_thread_fence(std::memory_order_acquire);
    return true;
  }
  std::uint8_t number_ = kNoSource;
};

template <>
class BasicTraceable<false> {
 public:
  constexpr BasicTraceable() noexcept = default;
  explicit constexpr BasicTraceable(std::uint8_t) noexcept {}
  static void set_number(std::uint8_t) noexcept {}
  static void taken(std::uintptr_t, std::size_t) noexcept {}
  static void going(std::uintptr_t) noexcept {}
  static void resized(std::uintptr_t, std::size_t) noexcept {}
  static void destroyed() noexcept {}
};

using Traceable = BasicTraceable<kTraced>;

namespace heap {
/// The heap, as the books know it. In builds with them; so is what follows.
[[nodiscard]] Traceable& traceable() noexcept;
/// Blocks that are out. Complexity: O(size classes).
[[nodiscard]] std::size_t blocks_out() noexcept;
}  // namespace heap

}  // namespace qm
