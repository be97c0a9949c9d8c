#pragma once
/// The map of a leak scan: finds the object that a word points to, in about 40 instructions.
///
///     table   a word of 32 bits for each page of the memory regions: a Page's number, or kInside and the number of the
///             Page in which the object begins that covers all of this page; and whether a slab or a span begins here,
///             by the number of arenas under it
///     pages   a Page for each page that has the start or the end of an object: bits for each granule of 8 bytes
///
///     edges    an object begins or ends here: it ends at the next edge
///     live     ... begins, and a user holds it
///     marks    ... and it was reached
///     pending  ... and its words have not been read yet
///     aux      ... and was reached at its start; later: ... and is the head of a leak
///
/// The Pages with pending objects form a linked list: marking neither recurses nor allocates, however long a chain is.

#include <cstddef>
#include <cstdint>

#include <qm/detail/bits.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/detail/traceable.hpp>

namespace qm::scan {

struct Page {
  static constexpr std::size_t kGranule = 8;
  static constexpr std::size_t kBytes = PageMap::kPageBytes;
  static constexpr unsigned kWords = kBytes / kGranule / kWordBits;
  static constexpr unsigned kNone = ~0U;
  static_assert(kWords != 0, "QM_PAGE_BYTES: pages of 256 bytes need pointers of 32 bits");
  using Bits = std::size_t[kWords];
  enum class Kind : std::uint8_t { kPlain, kNoPointers, kMagazines };

  Bits edges;
  Bits live;
  Bits marks;
  Bits pending;
  Bits aux;
  std::uintptr_t start;
  Traceable* owner;  ///< of an object that begins here
  Page* before;      ///< the Page of the object that reaches into this page; nullptr: none does
  Page* next;        ///< in the list of Pages with pending objects
  Kind kind;
  bool is_queued;

  [[nodiscard]] static bool has(const Bits& bits, unsigned bit) noexcept {
    return (bits[bit / kWordBits] >> bit % kWordBits & 1) != 0;
  }
  static void set(Bits& bits, unsigned bit) noexcept { bits[bit / kWordBits] |= std::size_t{1} << bit % kWordBits; }
  static void clear(Bits& bits, unsigned bit) noexcept {
    bits[bit / kWordBits] &= ~(std::size_t{1} << bit % kWordBits);
  }
  /// The last edge at or before @p bit; kNone: there is none.
  [[nodiscard]] unsigned edge_at(unsigned bit) const noexcept {
    unsigned word = bit / kWordBits;
    std::size_t left = edges[word] & (~std::size_t{0} >> (kWordBits - 1 - bit % kWordBits));
    while (left == 0) {
      if (word == 0) return kNone;
      left = edges[--word];
    }
    return word * kWordBits + floor_log2(left);
  }
  /// The first edge from @p bit on; kNone: there is none.
  [[nodiscard]] unsigned edge_from(unsigned bit) const noexcept {
    unsigned word = bit / kWordBits;
    if (word >= kWords) return kNone;
    std::size_t left = edges[word] >> bit % kWordBits << bit % kWordBits;
    while (left == 0) {
      if (++word == kWords) return kNone;
      left = edges[word];
    }
    return word * kWordBits + lowest_bit(left);
  }
};

/// An object, by its start.
struct Place {
  Page* page = nullptr;  ///< nullptr: no object
  unsigned bit = 0;
  [[nodiscard]] std::uintptr_t start() const noexcept { return page->start + bit * Page::kGranule; }
};

class ObjectMap {
 public:
  /// Bytes of the table for the memory regions, and of the table and @p pages Pages.
  [[nodiscard]] static std::size_t table_bytes() noexcept;
  [[nodiscard]] static std::size_t bytes_for(std::size_t pages) noexcept {
    return table_bytes() + pages * sizeof(Page);
  }

  /// Starts again in [start, start + bytes), at least table_bytes(). Complexity: O(pages of the memory regions).
  void begin(std::uintptr_t start, std::size_t bytes) noexcept;
  /// Pages that there was no room for.
  [[nodiscard]] std::size_t missing() const noexcept { return missing_; }
  [[nodiscard]] std::size_t used() const noexcept { return count_; }

  /// Most arenas between that of all memory and another that the table distinguishes.
  static constexpr unsigned kMostDepth = 3;
  /// Notes that a slab or a span, of an arena of that depth, begins at @p start, a page's start: no user allocated it.
  void enter_container(std::uintptr_t start, unsigned depth) noexcept {
    if (std::uint32_t* const entry = entry_of(start)) *entry |= kContainer << depth;
  }
  [[nodiscard]] bool is_container(std::uintptr_t start, unsigned depth) noexcept {
    const std::uint32_t* const entry = entry_of(start);
    return entry != nullptr && (*entry & kContainer << depth) != 0;
  }
  /// Whether a memory region has @p address.
  [[nodiscard]] bool covers(std::uintptr_t address) noexcept { return entry_of(address) != nullptr; }
  /// Enters an allocated object: it begins at a multiple of Page::kGranule, in a memory region.
  [[gnu::always_inline]] void enter(std::uintptr_t start, std::uintptr_t end, Traceable* owner,
                                    Page::Kind kind) noexcept {
    // Mostly it lies in the same page as the one before.
    if (latest_ == nullptr || start < latest_->start || end - latest_->start >= Page::kBytes || latest_->owner != owner)
      return enter_anywhere(start, end, owner, kind);
    const auto bit = static_cast<unsigned>((start - latest_->start) / Page::kGranule);
    Page::set(latest_->edges, bit);
    Page::set(latest_->live, bit);
    const std::size_t edge = (end - latest_->start + Page::kGranule - 1) / Page::kGranule;
    if (edge < Page::kBytes / Page::kGranule) Page::set(latest_->edges, static_cast<unsigned>(edge));
  }

  /// The live object that begins at @p address; Place{} if none does. The short form of find(), enough for most
  /// pointers.
  [[nodiscard, gnu::always_inline]] Place find_start(std::uintptr_t address) noexcept {
    const std::uint32_t* const entry = entry_of(address);
    if (entry == nullptr) return {};
    const std::uint32_t number = *entry & (kInside | kNumber);
    if (number - 1 >= kMissing - 1) return {};  // no Page, no room for one, or inside an object
    Page* const page = pages_ + (number - 1);
    const auto bit = static_cast<unsigned>(address / Page::kGranule % (Page::kBytes / Page::kGranule));
    if (address % Page::kGranule != 0 || !Page::has(page->live, bit)) return {};
    return {page, bit};
  }
  /// The live object that contains @p address; Place{} if there is none.
  [[nodiscard]] Place find(std::uintptr_t address) noexcept;
  [[nodiscard]] std::uintptr_t end_of(const Place& place) noexcept;

  /// push() notes a marked object whose words have to be read; pop() returns the next such object, and forgets it.
  [[gnu::always_inline]] void push(const Place& place) noexcept {
    if (at_hand_ != kAtHand) [[likely]] {
      hand_[at_hand_++] = place;
    } else {
      note(place);
    }
  }
  [[nodiscard, gnu::always_inline]] Place pop() noexcept { return at_hand_ != 0 ? hand_[--at_hand_] : next_noted(); }

  [[nodiscard]] Page* begin_pages() noexcept { return pages_; }
  [[nodiscard]] Page* end_pages() noexcept { return pages_ + count_; }
  /// A memory region; the first includes the allocator's own pages before it, in which blocks of the heap lie too.
  [[nodiscard]] static PageMap::Region region(unsigned number) noexcept;
  /// The range of all memory regions: no object lies outside.
  [[nodiscard]] std::uintptr_t low() const noexcept { return low_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return high_ - low_; }

 private:
  static constexpr std::uint32_t kContainer = std::uint32_t{1} << (31 - kMostDepth);
  static constexpr std::uint32_t kContainers = ~(kContainer - 1);
  static constexpr std::uint32_t kInside = kContainer >> 1;
  static constexpr std::uint32_t kNumber = kInside - 1;
  static constexpr std::uint32_t kMissing = kNumber;  ///< no room for a Page

  [[nodiscard]] std::uint32_t* entry_of(std::uintptr_t address) noexcept {
    if (address - first_low_ < first_bytes_) return table_ + (address - first_low_) / Page::kBytes;
    return entry_in_others(address);
  }
  void note(const Place& place) noexcept {
    Page::set(place.page->pending, place.bit);
    if (place.page->is_queued) return;
    place.page->is_queued = true;
    place.page->next = queue_;
    queue_ = place.page;
  }
  [[nodiscard]] Place next_noted() noexcept;
  [[nodiscard]] std::uint32_t* entry_in_others(std::uintptr_t address) noexcept;
  [[nodiscard]] Page* page_for(std::uintptr_t address) noexcept;
  void enter_anywhere(std::uintptr_t start, std::uintptr_t end, Traceable* owner, Page::Kind kind) noexcept;

  std::uint32_t* table_ = nullptr;
  Page* pages_ = nullptr;
  static constexpr unsigned kAtHand = 16;  ///< pending objects that are kept outside the bits
  Place hand_[kAtHand];
  unsigned at_hand_ = 0;
  Page* queue_ = nullptr;
  Page* latest_ = nullptr;  ///< the Page of the object entered last, with that object's owner and kind
  std::size_t count_ = 0;
  std::size_t room_ = 0;
  std::size_t missing_ = 0;
  std::uintptr_t low_ = 0;
  std::uintptr_t high_ = 0;
  std::uintptr_t first_low_ = 0;
  std::size_t first_bytes_ = 0;
};

}  // namespace qm::scan
