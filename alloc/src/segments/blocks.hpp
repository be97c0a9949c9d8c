#pragma once
/// Blocks: segments of memory that keep their bookkeeping inside, in a header before each. An arena over memory that
/// may be written can have them instead of boundary tags: the heap's arena does.
///
///     span       | 8 bytes | header | payload | header | payload | ... | end mark |
///     allocated              header | payload, then a Note if the block has one |
///     free                   header | next, previous of its list | ... | its bytes |
///
/// A header is 8 bytes: one word with size and flags, and a seal, which depends on the header's address and that word.
/// A payload begins at a multiple of kUnit. The last word of a free block is its size, from which the block behind it
/// finds its start; the smallest block may have no room for that, and sets a bit in its last link instead. The end mark
/// is the header of an allocated block of size 0.
///
///     lists   one for each size below kExact units, then kParts for each power of two; a bit for each that has a
///             block. The last list has the free blocks at the ends of spans, of any size. They are used only if no
///             other fits, so that the blocks before them can grow in place.
///
/// Invariants
/// - K1 The blocks of a span tile it; no two neighbours are both free.
/// - K2 A block's kAfterFree is set iff the block before it is free.
/// - K3 A free block is in the list of its size, or in the last one if it has kAtEnd, except those that a damaged
///   header has cut off.
/// - K4 A header is read only where a span says that one may lie, and followed only if its seal is right. So the next
///   operation that reads the header detects a write behind the block before it, and follows no pointer through it.
///
/// Source: Knuth, The Art of Computer Programming 1, 2.5, boundary tags; the lists are those of Masmano et al., "TLSF",
/// ECRTS 2004.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/detail/arena_index.hpp>
#include <qm/detail/bits.hpp>
#include <qm/call_site.hpp>
#include <qm/config.h>

namespace qm {

/// The seal of @p word at @p address, by multiplication: a header that was copied or overwritten does not have the
/// right one.
constexpr std::uint32_t block_seal(std::uintptr_t address, std::uint32_t word) noexcept {
  return (word ^ static_cast<std::uint32_t>(address >> 3)) * 0x9e3779b1U + 0x51ab10c5U;
}

/// What a block can keep behind its payload. The seal is next to the payload: a write behind the payload destroys it.
struct BlockNote {
  static constexpr std::size_t kAlignment = QM_ALIGNMENT < 8 ? QM_ALIGNMENT : 8;
  std::uint32_t seal;
  std::uint32_t handle;  ///< of the trace record; 0: not recorded
  alignas(kAlignment) const CallSite* site;

  void set(const CallSite* of, std::uint32_t record) noexcept {
    seal = own_seal();
    handle = record;
    site = of;
  }
  [[nodiscard]] bool is_sound() const noexcept { return seal == own_seal(); }
  /// After the block is freed, or has another size. What is left in memory must not look like a pointer to a leak scan.
  void erase() noexcept { seal = handle = ~std::uint32_t{0}; }

 private:
  [[nodiscard]] std::uint32_t own_seal() const noexcept {
    return block_seal(reinterpret_cast<std::uintptr_t>(this), 0);
  }
};

enum BlockFlag : std::uint32_t {
  kFree = 1,
  kAfterFree = 2,
  kNoted = 4,       ///< of an allocated block: it has a note
  kAtEnd = kNoted,  ///< of a free block: it is in the list of those at the end of a span
};

/// Lies before each payload, and at the end of a span.
struct BlockHeader {
  static constexpr std::size_t kUnit = QM_ALIGNMENT;  ///< bytes; sizes of blocks and starts of payloads are multiples
  static constexpr unsigned kFlagBits = 3;
  static constexpr std::uint32_t kFlags = (1U << kFlagBits) - 1;

  static constexpr unsigned kKinds = 32;

  std::uint32_t word;  ///< units * 8 + flags
  std::uint32_t seal;  ///< depends on address and word, except for the lowest bits: the kind

  [[nodiscard]] bool is_sound() const noexcept { return (seal ^ seal_of(word, kind())) < kKinds; }
  /// The purpose that the block was allocated for, below kKinds; 0: none in particular.
  [[nodiscard]] unsigned kind() const noexcept { return seal % kKinds; }
  [[nodiscard]] bool has(BlockFlag flag) const noexcept { return (word & flag) != 0; }
  /// Header included; 0: an end mark.
  [[nodiscard]] std::size_t bytes() const noexcept { return std::size_t{word >> kFlagBits} * kUnit; }
  /// Whether the block is allocated and has a note.
  [[nodiscard]] bool is_noted() const noexcept { return (word & (kFree | kNoted)) == kNoted; }
  [[nodiscard]] std::uintptr_t address() const noexcept { return reinterpret_cast<std::uintptr_t>(this); }
  [[nodiscard]] std::uintptr_t payload() const noexcept { return address() + sizeof *this; }
  [[nodiscard]] std::uintptr_t end() const noexcept { return address() + bytes(); }
  [[nodiscard]] BlockHeader* next() const noexcept { return reinterpret_cast<BlockHeader*>(end()); }
  /// Bytes of the payload that a user may have.
  [[nodiscard]] std::size_t usable() const noexcept {
    return bytes() - sizeof *this - (is_noted() ? sizeof(BlockNote) : 0);
  }
  /// Precondition: is_noted().
  [[nodiscard]] BlockNote& note() const noexcept { return *reinterpret_cast<BlockNote*>(end() - sizeof(BlockNote)); }
  void set(std::size_t bytes, std::uint32_t flags, unsigned kind = 0) noexcept {
    word = static_cast<std::uint32_t>(bytes / kUnit << kFlagBits) | flags;
    seal = seal_of(word, kind) / kKinds * kKinds + kind;
  }
  void add(BlockFlag flag) noexcept { set(bytes(), (word & kFlags) | flag, kind()); }
  void drop(BlockFlag flag) noexcept { set(bytes(), word & kFlags & ~std::uint32_t{flag}, kind()); }
  /// Whether @p word and @p seal are a sound header at @p address of an allocated block with @p usable bytes: for a
  /// header that may change meanwhile.
  [[nodiscard]] static bool is_allocated(std::uintptr_t address, std::uint32_t word, std::uint32_t seal,
                                         std::size_t usable) noexcept {
    const std::size_t note = (word & kNoted) != 0 ? sizeof(BlockNote) : 0;
    return (word & kFree) == 0 && std::size_t{word >> kFlagBits} * kUnit == sizeof(BlockHeader) + usable + note &&
           (seal ^ block_seal(address, word ^ seal % kKinds)) < kKinds;
  }
  /// Destroys the header: an operation that still has its address does not take it for one.
  void erase() noexcept { seal = ~seal; }

 private:
  [[nodiscard]] std::uint32_t seal_of(std::uint32_t of, unsigned kind) const noexcept {
    return block_seal(address(), of ^ kind);
  }
};
static_assert(sizeof(BlockHeader) == 8);
static_assert(BlockHeader::kUnit >= alignof(void*), "QM_ALIGNMENT is 4: with pointers of 64 bits 8 is the least");
static_assert(sizeof(BlockNote) % BlockHeader::kUnit == 0,
              "a block's usable bytes are the same beyond whole units with a note and without");

class Blocks {
 public:
  static constexpr std::size_t kUnit = BlockHeader::kUnit;
  static constexpr std::size_t kHeaderBytes = sizeof(BlockHeader);
  static constexpr std::size_t kSpanBytes = 2 * kHeaderBytes;  ///< of a span: before its first header, and its end mark
  /// The largest block, header included.
  static constexpr std::size_t kMost = [] {
    constexpr std::uint64_t kOfHeader = (std::uint64_t{1} << (32 - BlockHeader::kFlagBits)) * kUnit - kUnit;
    return static_cast<std::size_t>(kOfHeader < SIZE_MAX / 2 ? kOfHeader : SIZE_MAX / 2 + 1);
  }();

  using Header = BlockHeader;
  using Note = BlockNote;

  /// In a free block's payload.
  struct Links {
    Header* next;
    /// Its header; for the first block, the place of the list in first_, plus kIsFirst. If a block of kLeast bytes has
    /// no room for its size, this is its last word, and kIsLeast is added: in a size, the two lowest bits are 0.
    std::uintptr_t previous;
  };
  /// The smallest block, header included: a free one has room for its links. With units of 16 it has room for its size
  /// too, also on RV32: that saves instructions.
  static constexpr std::size_t kLeast = kUnit == 16 ? 32 : (kHeaderBytes + sizeof(Links) + kUnit - 1) / kUnit * kUnit;
  static constexpr bool kLeastIsTight = kLeast < kHeaderBytes + sizeof(Links) + sizeof(std::size_t);
  static constexpr std::uintptr_t kIsLeast = 2;
  /// Whether @p bytes beside a block can neither be a block nor be nothing.
  [[nodiscard]] static constexpr bool is_too_little(std::size_t bytes) noexcept { return bytes != 0 && bytes < kLeast; }

  [[nodiscard]] static Header* at(std::uintptr_t address) noexcept { return reinterpret_cast<Header*>(address); }
  /// The header of the block whose payload begins at @p payload.
  [[nodiscard]] static Header* of(std::uintptr_t payload) noexcept { return at(payload - kHeaderBytes); }
  /// The bytes of the free block before @p header, by its last word.
  [[nodiscard]] static std::size_t bytes_before(const Header* header) noexcept {
    const std::size_t last = *reinterpret_cast<const std::size_t*>(header->address() - sizeof(std::size_t));
    return kLeastIsTight && (last & kIsLeast) != 0 ? kLeast : last;
  }
  /// Bytes of a block for @p size bytes of payload. @returns 0 if that is more than kMost.
  [[nodiscard]] static constexpr std::size_t bytes_for(std::size_t size, bool noted) noexcept {
    constexpr std::size_t kRound = kUnit - 1;
    const std::size_t more = kHeaderBytes + (noted ? sizeof(Note) : 0) + kRound;
    if (size > kMost - more) return 0;
    const std::size_t bytes = (size + more) & ~kRound;
    return bytes > kLeast ? bytes : kLeast;
  }

  /// What the header of an allocated block says.
  struct Taken {
    unsigned kind;
    bool noted;  ///< it has a Note
  };

  // For all that follows: the arena's lock is held. Complexity: constant, except for kScan steps in find().

  /// Makes all of the span a free block. @param[in] start, end of the span, multiples of kUnit.
  void enter(std::uintptr_t start, std::uintptr_t end) noexcept { enter_behind(start, end, 0); }
  /// The same with an allocated block of @p bytes before the free one. Precondition: at least kLeast are left.
  Header* enter(std::uintptr_t start, std::uintptr_t end, std::size_t bytes, const Taken& as) noexcept {
    Header* const block = enter_behind(start, end, bytes);
    block->set(bytes, as.noted ? kNoted : 0U, as.kind);
    return block;
  }
  /// Extends the span that began at @p start and ended at @p end to @p new_end. @returns the free block at its end;
  /// nullptr if a header is damaged.
  Header* extend(std::uintptr_t start, std::uintptr_t end, std::uintptr_t new_end) noexcept;
  /// Makes the free block @p last, at the end of its span, @p less bytes shorter, and so the span. Precondition: the
  /// block has that many bytes, and none or at least kLeast more.
  void shorten(Header* last, std::size_t less) noexcept;
  /// Cuts [low, high) out of the free block @p block: a span ends at @p low, and another begins at @p high.
  /// Precondition: on either side, beside the ends of the spans, the block has nothing left, or at least kLeast.
  void cut(Header* block, std::uintptr_t low, std::uintptr_t high) noexcept;
  /// Undoes cut(): the end of one span and the start of the other become a free block, joined with its neighbours.
  /// Precondition: one of these is free if @p low is @p high. @returns as open_mark().
  Header* mend(std::uintptr_t start, std::uintptr_t low, std::uintptr_t high) noexcept;
  /// Removes a free block that fills its span.
  void leave(Header* only) noexcept { remove(only); }

  /// Allocates a block of @p bytes whose payload begins at a multiple of @p align. @returns nullptr if none is found. A
  /// free block may fit all the same: one among many of nearly that size, or one that happens to suit an @p align above
  /// kUnit; see fits().
  [[nodiscard]] Header* take(std::size_t bytes, std::size_t align, const Taken& as) noexcept;
  /// The same from the free block @p block, which fits(). @returns nullptr for a damaged header.
  [[nodiscard]] Header* take_from(Header* block, std::size_t bytes, std::size_t align, const Taken& as) noexcept;
  /// Whether a free block has room for such a block.
  [[nodiscard]] static bool fits(const Header& block, std::size_t bytes, std::size_t align) noexcept {
    return block.bytes() >= bytes && (align <= kUnit || gap_of(block, align) <= block.bytes() - bytes);
  }
  /// Frees an allocated block and joins it with free neighbours. @param[in] start of its span.
  /// @returns the free block; nullptr, with nothing changed, if a neighbour's header is damaged.
  [[nodiscard]] Header* give(Header* block, std::uintptr_t start) noexcept;
  /// Resizes an allocated block in place to @p bytes. @returns false, with nothing changed, if the block behind it is
  /// not free or too small, or a header is damaged.
  [[nodiscard]] bool resize(Header* block, std::size_t bytes) noexcept;

  /// Whether the header is sound and agrees with the one behind it and, for a free block, with its own last word.
  [[nodiscard]] static bool is_kept(const Header* block) noexcept;
  [[nodiscard]] std::size_t free_blocks() const noexcept { return free_blocks_; }
  /// Whether the lists have @p count blocks, each in that of its size, and their bits say which lists have any.
  /// Complexity: O(free blocks).
  [[nodiscard]] bool are_listed(std::size_t count) const noexcept;
  /// Calls @p action with each free block of at least @p bytes, until it returns false. Complexity: O(such blocks).
  template <class Action>
  void visit_large(std::size_t bytes, const Action& action) const noexcept {
    for (std::size_t list = list_of(bytes); list <= kEnds; ++list) {
      for (Header* block = first_[list]; block != nullptr && block->is_sound(); block = links(block).next) {
        if (block->bytes() >= bytes && !action(*block)) return;
      }
    }
  }
  /// Bytes of the largest free block's payload, 0 if there is none. Complexity: O(blocks of its list).
  [[nodiscard, gnu::weak]] std::size_t largest() const noexcept;  // as Arena::free_block()

  /// The damaged header that an operation met since the last call; nullptr: none.
  [[nodiscard]] Header* met_damage() noexcept {
    Header* const damaged = damaged_;
    damaged_ = nullptr;
    return damaged;
  }

  // Members that the arena uses.
  std::uint32_t held[BlockHeader::kKinds] = {};  ///< blocks of each kind
  std::atomic<std::uint32_t> imports{0};         ///< how often the source was asked for room; read without the lock
  BoundaryTag* latest_span = nullptr;            ///< the span that is extended if there is no room
  bool resizing = false;  ///< the source is making a span longer or shorter: no span goes, and no other is resized

 private:
  static constexpr std::size_t kExact = 32;  ///< units
  static constexpr unsigned kExactLog2 = floor_log2(kExact);
  static constexpr unsigned kPartsLog2 = 2;
  static constexpr std::size_t kParts = std::size_t{1} << kPartsLog2;
  static constexpr std::size_t kLists = kExact + (32 - BlockHeader::kFlagBits - kExactLog2) * kParts;
  static constexpr std::size_t kEnds = kLists;  ///< the list of free blocks at the ends of spans
  /// Blocks that are compared for the best fit: of the request's own list, and of those at the ends of spans.
  static constexpr unsigned kScan = 2;
  static constexpr unsigned kScanEnds = 4;

  static constexpr std::uintptr_t kIsFirst = 1;
  [[nodiscard]] std::uintptr_t before_first(std::size_t list) const noexcept {
    return reinterpret_cast<std::uintptr_t>(&first_[list]) + kIsFirst;
  }
  [[nodiscard]] static Links& links(const Header* block) noexcept {
    return *reinterpret_cast<Links*>(block->payload());
  }
  [[nodiscard]] static std::size_t& size_behind(const Header* block) noexcept {
    return *reinterpret_cast<std::size_t*>(block->end() - sizeof(std::size_t));
  }
  [[nodiscard]] static std::uintptr_t previous_of(const Header* block) noexcept {
    return links(block).previous & ~(kLeastIsTight ? kIsLeast : 0);
  }
  static void set_previous(Header* block, std::uintptr_t previous) noexcept {
    links(block).previous = kLeastIsTight && block->bytes() == kLeast ? previous | kIsLeast : previous;
  }
  /// The bytes between the links and the last word, which the allocator does not access while the block is free.
  [[nodiscard]] static std::size_t idle_bytes(const Header* block) noexcept {
    constexpr std::size_t kUsed = sizeof(Links) + sizeof(std::size_t);
    return !kLeastIsTight || block->bytes() != kLeast ? block->usable() - kUsed : 0;
  }
  /// Bytes before a block with this alignment in the free @p block: none, or enough for a block.
  [[nodiscard]] static std::size_t gap_of(const Header& block, std::size_t align) noexcept {
    std::size_t gap = -block.payload() & (align - 1);
    if (is_too_little(gap)) gap += (kLeast - gap + align - 1) & ~(align - 1);
    return gap;
  }
  [[nodiscard]] static std::size_t list_of(const Header& block) noexcept {
    return block.has(kAtEnd) ? kEnds : list_of(block.bytes());
  }
  [[nodiscard]] static std::size_t list_of(std::size_t bytes) noexcept {
    const std::size_t units = bytes / kUnit;
    if (units < kExact) return units;
    const unsigned log2 = floor_log2(units);
    return kExact + (log2 - kExactLog2) * kParts + ((units >> (log2 - kPartsLog2)) & (kParts - 1));
  }

  Header* enter_behind(std::uintptr_t start, std::uintptr_t end, std::size_t bytes) noexcept;
  Header* open_mark(Header* mark, std::size_t bytes, std::uintptr_t start) noexcept;
  [[nodiscard]] bool is_free(Header* block) noexcept;
  [[nodiscard]] Header* take_of(Header* block, std::size_t bytes, std::size_t align, const Taken& as) noexcept;
  void cut_list(std::size_t list) noexcept;
  [[nodiscard]] Header* find(std::size_t bytes) noexcept;
  [[nodiscard]] Header* best_of(std::size_t list, std::size_t bytes) noexcept;
  [[nodiscard]] std::size_t next_list(std::size_t from) const noexcept;
  void set_first(std::size_t list, Header* block) noexcept;
  void insert(Header* block, std::size_t bytes, std::uint32_t flags) noexcept;
  void remove(Header* block) noexcept;
  [[nodiscard]] Header* before(Header* block, std::uintptr_t start) noexcept;

  std::size_t has_[(kLists + kWordBits) / kWordBits] = {};
  Header* first_[kLists + 1] = {};
  std::size_t free_blocks_ = 0;
  Header* damaged_ = nullptr;
};

}  // namespace qm
