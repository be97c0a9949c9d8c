#pragma once
/// Live memory by call site: live bytes and live calls of each place in the source that allocates. In builds with
/// QM_CALL_SITES; in others nothing here is linked.
///
///     section qm_call_sites        | CallSite 0 | CallSite 1 | ...        static; one for each QM_SITE, and one for no site
///     hart h           | no site's | SiteCounts 0 | SiteCounts 1 | ...    both tables have rows of kRowBytes
///     object           | waste, tag | payload | ...                       tag: byte offset in a hart's table at which it is counted
///
/// An allocation adds one call and the object's bytes to its hart's word, a free subtracts them from the freeing hart's
/// word. Both use atomic instructions (one on RV64, two on RV32), so they do not mask interrupts. A single word means
/// nothing and may have wrapped; the sum over all harts is exact while no hart allocates.
///
/// Objects of caches of memory are charged by their object size, segments of arenas with ArenaConfig::charged (the
/// heap's large blocks) by their size. Numbers (no-touch caches) and the allocator's magazines and slab headers are not
/// charged. For the heap's blocks in slabs, the bytes that were not requested are counted as well: `waste`.
///
/// While accounting is off, allocations are counted in the second word of their site, and their frees use that word
/// too. So the first word stays right for allocations made while accounting was on, and the second word says what the
/// row has missed. No path tests whether accounting is on: while it is off, each hart counts sites from an address that
/// is a word lower.
///
/// Invariants
/// - W1 An object's tag is written before its user gets the object, and set to kNoSiteTag when it is freed: an object
///      is discharged at most once.
/// - W2 A tag is checked before it is used: a stray write to a tag can corrupt the words, but no other memory.
/// - W3 Tables, views and charge heads are laid out as sections.S and heap_sections.S read them.
///
/// Source: Linux's memory allocation profiling (6.10); the words for on and off are our own.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <qm/config.h>
#include <qm/detail/bits.hpp>
#include <qm/call_site.hpp>
#include <qm/detail/object_check.hpp>
#include <qm/status.hpp>

extern "C" {
/// The row of allocations without a site.
extern const qm::CallSite qm_untagged_site;
}

namespace qm {

/// Live calls and bytes of one site on one hart, modulo the width of their fields.
class WideSiteWord {
 public:
  using Amount = std::uint64_t;
  static constexpr unsigned kCallShift = 40;
  static constexpr Amount amount_of(std::size_t bytes) noexcept { return (Amount{1} << kCallShift) + bytes; }
  void add(Amount amount) noexcept { both_.fetch_add(amount, std::memory_order_relaxed); }
  void subtract(Amount amount) noexcept { both_.fetch_add(0 - amount, std::memory_order_relaxed); }
  /// Adds this word to a sum.
  void add_to(std::uint64_t& calls, std::uint64_t& bytes) const noexcept {
    calls = 0;
    bytes += both_.load(std::memory_order_relaxed);
  }
  /// Splits a sum of words into calls and bytes.
  static void settle(std::uint64_t& calls, std::uint64_t& bytes) noexcept {
    calls = bytes >> kCallShift;
    bytes &= (Amount{1} << kCallShift) - 1;
  }

 private:
  std::atomic<std::uint64_t> both_{0};
};

class NarrowSiteWord {
 public:
  using Amount = std::uint32_t;
  static constexpr Amount amount_of(std::size_t bytes) noexcept { return static_cast<Amount>(bytes); }
  void add(Amount amount) noexcept {
    calls_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(amount, std::memory_order_relaxed);
  }
  void subtract(Amount amount) noexcept {
    calls_.fetch_sub(1, std::memory_order_relaxed);
    bytes_.fetch_sub(amount, std::memory_order_relaxed);
  }
  void add_to(std::uint64_t& calls, std::uint64_t& bytes) const noexcept {
    calls += calls_.load(std::memory_order_relaxed);
    bytes += bytes_.load(std::memory_order_relaxed);
  }
  static void settle(std::uint64_t& calls, std::uint64_t& bytes) noexcept {
    calls &= UINT32_MAX;
    bytes &= UINT32_MAX;
  }

 private:
  std::atomic<std::uint32_t> calls_{0};
  std::atomic<std::uint32_t> bytes_{0};
};

using SiteWord = std::conditional_t<sizeof(void*) == 8, WideSiteWord, NarrowSiteWord>;
static_assert(sizeof(SiteWord) == 8);

/// A hart's counts of one site.
struct SiteCounts {
  /// A hart's table is a whole number of lines of the processor's cache, so no two harts write to one line.
  static constexpr std::size_t kLine = 64;

  SiteWord words[2];  ///< for accounting on, for accounting off
  struct alignas(8) Waste {
    std::atomic<std::uintptr_t> bytes{0};
  } wastes[2];  ///< waste of the heap's blocks in these
};
inline constexpr std::size_t kRowBytes = sizeof(SiteCounts);
static_assert(sizeof(CallSite) == kRowBytes, "a tag is a difference of addresses");

/// A hart's data for charging: valid from initialize() on for its hart, from attach_hart() on for other harts.
struct SiteView {
  std::atomic<std::uintptr_t> base{0};  ///< a tag is a site's distance from here; written by the console
  std::uintptr_t words = 0;             ///< the hart's table
  std::uintptr_t limit = 0;             ///< its size in bytes

  /// The tag at which @p site is counted.
  [[nodiscard]] SiteTag tag_of(const CallSite* site) const noexcept {
    return static_cast<SiteTag>(reinterpret_cast<std::uintptr_t>(site) - base.load(std::memory_order_relaxed));
  }
  /// Precondition: the tag is below `limit` and a multiple of 8.
  [[nodiscard]] SiteWord& word(SiteTag tag) const noexcept { return *reinterpret_cast<SiteWord*>(words + tag); }
  [[nodiscard]] std::atomic<std::uintptr_t>& waste(SiteTag tag) const noexcept {
    return reinterpret_cast<SiteCounts::Waste*>(words + offsetof(SiteCounts, wastes) + tag)->bytes;
  }
};

#if defined(QM_TP)
/// Has a name that the sections know.
extern constinit thread_local SiteView qm_site_view asm("qm_site_view");
#endif

namespace call_sites {

/// @returns the view of the running hart. Context: any.
#if defined(QM_TP)
[[nodiscard]] inline SiteView& view() noexcept { return qm_site_view; }
#else
[[nodiscard]] SiteView& view() noexcept;
#endif

namespace internal {
/// Keeps @p caller, an address in a function that allocates without a site, for untagged_caller(). Checking build.
void note_untagged(std::uintptr_t caller) noexcept;
/// The same for the address of its caller.
void note_caller() noexcept;
}  // namespace internal

/// The site of an allocation without one. A checking build notes the caller: the function into which this is inlined,
/// or the function that contains @p caller.
[[nodiscard, gnu::always_inline]] inline const CallSite* untagged() noexcept {
  if constexpr (kChecked && kCallSites) internal::note_caller();
  if constexpr (kCallSites) return &qm_untagged_site;
  return nullptr;
}
[[nodiscard, gnu::always_inline]] inline const CallSite* untagged(void* caller) noexcept {
  if constexpr (kChecked && kCallSites) internal::note_untagged(reinterpret_cast<std::uintptr_t>(caller));
  if constexpr (kCallSites) return &qm_untagged_site;
  return nullptr;
}

/// Charges a segment of @p bytes to @p site. @returns the value to keep for discharge(): the site, marked while
/// accounting is off.
[[nodiscard]] const CallSite* charge(const CallSite* site, std::size_t bytes) noexcept;
void discharge(const CallSite* kept, std::size_t bytes) noexcept;
/// The site in a value that charge() returned.
[[nodiscard]] inline const CallSite* plain(const CallSite* kept) noexcept {
  return reinterpret_cast<const CallSite*>(reinterpret_cast<std::uintptr_t>(kept) & ~std::uintptr_t{1});
}
/// @returns the site of @p tag, nullptr for none.
[[nodiscard]] const CallSite* site_of(SiteTag tag) noexcept;

// ---- for reports ----------------------------------------------------------------------------------------------------

struct Row {
  const CallSite* site = nullptr;
  std::uint64_t bytes = 0;  ///< live
  std::uint64_t calls = 0;  ///< live
  std::uint64_t waste = 0;  ///< part of the bytes that was not requested: known for the heap's blocks in slabs
  bool is_accurate = true;  ///< false while an object is live that was allocated while accounting was off
  [[nodiscard]] bool is_untagged() const noexcept { return site == &qm_untagged_site; }
};

/// Sites in the image, the untagged one included.
[[nodiscard]] std::size_t count() noexcept;
/// The number of @p site, below count(); for nullptr the number of the untagged one.
[[nodiscard]] std::size_t number_of(const CallSite* site) noexcept;
/// The row of site @p number, below count(). Complexity: O(harts). Context: any; exact while no hart allocates.
[[nodiscard]] Row row(std::size_t number) noexcept;

/// note_rows() copies all rows, for a report that reads them more than once; noted_row() returns a copied row.
/// Context: one report at a time.
void note_rows() noexcept;
[[nodiscard]] Row noted_row(std::size_t number) noexcept;

/// Whether allocations are counted; so they are from the start, unless set_on(false) was called first.
[[nodiscard]] bool is_on() noexcept;
/// Context: any; an allocation under way on another hart may be counted either way.
void set_on(bool on) noexcept;

/// A function that has allocated without a site, in a checking build.
struct UntaggedCaller {
  std::uintptr_t address = 0;  ///< in the function, behind the call
  std::uint32_t calls = 0;
};
inline constexpr unsigned kUntaggedCallers = kChecked ? 64 : 0;
/// @returns caller number @p number, in the order in which they were met; address 0: no more. Context: any.
[[nodiscard]] UntaggedCaller untagged_caller(unsigned number) noexcept;

// ---- for qm::initialize() -------------------------------------------------------------------------------------------

/// Allocates the harts' tables from base_arena(). @returns kNoMemory.
Status initialize(unsigned harts) noexcept;
void attach_hart(unsigned hart) noexcept;
void shutdown() noexcept;

}  // namespace call_sites

/// Stands before each charged object. The waste is the heap's.
struct ChargeHead {
  std::atomic<std::uint32_t> waste;
  std::atomic<SiteTag> tag;
};
static_assert(sizeof(ChargeHead) == kChargeHeadBytes && std::atomic<SiteTag>::is_always_lock_free);

/// How the objects of one cache are charged; before set() they are not.
class ObjectCharge {
 public:
  /// @param[in] is_block whether these are blocks of the heap, whose users may have requested less.
  void set(std::size_t object_size, bool is_block) noexcept {
    amount_ = SiteWord::amount_of(object_size);
    is_block_ = is_block;
  }
  [[nodiscard]] bool is_set() const noexcept { return amount_ != 0; }
  /// The charge head before an object. Precondition: is_set().
  [[nodiscard]] static ChargeHead& head(void* object) noexcept { return static_cast<ChargeHead*>(object)[-1]; }

  /// Charges an object that is about to reach its user; nullptr passes through.
  /// @param[in] requested bytes asked for; 0: the object's size.
  [[gnu::always_inline]] void* charge(void* object, const CallSite* site, std::size_t requested) const noexcept {
    if (object == nullptr || !is_set()) return object;
    SiteView& view = call_sites::view();
    const SiteTag tag = view.tag_of(site);
    ChargeHead& before = head(object);
    store_relaxed(before.tag, tag);
    view.word(tag).add(amount_);
    if (is_block_) {
      const auto waste =
          static_cast<std::uint32_t>(requested != 0 ? static_cast<std::uint32_t>(amount_) - requested : 0);
      store_relaxed(before.waste, waste);
      view.waste(tag).fetch_add(waste, std::memory_order_relaxed);
    }
    return object;
  }

  /// Removes the charge of an object that its user frees. Precondition: is_set(), and there is memory before the
  /// object.
  [[gnu::always_inline]] void discharge(void* object) const noexcept {
    SiteView& view = call_sites::view();
    ChargeHead& before = head(object);
    const SiteTag tag = before.tag.load(std::memory_order_relaxed) & ~SiteTag{7};
    if (tag >= view.limit) return;
    store_relaxed(before.tag, kNoSiteTag);
    view.word(tag).subtract(amount_);
    if (is_block_) view.waste(tag).fetch_sub(before.waste.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }

 private:
  SiteWord::Amount amount_ = 0;  ///< sections.S reads it
  bool is_block_ = false;
};

/// The same in a build without call sites.
struct NoObjectCharge {
  static void set(std::size_t, bool) noexcept {}
  [[nodiscard]] static constexpr bool is_set() noexcept { return false; }
  [[nodiscard]] static ChargeHead& head(void* object) noexcept { return static_cast<ChargeHead*>(object)[-1]; }
  static void* charge(void* object, const CallSite*, std::size_t) noexcept { return object; }
  static void discharge(void*) noexcept {}
};

}  // namespace qm
