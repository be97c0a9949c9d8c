/// frag: which allocated segments prevent one large free segment.

#include "commands.hpp"

#include <algorithm>
#include <array>

#include <qm/detail/bits.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/console/site_text.hpp>
#include <qm/system.hpp>

namespace qm::console::commands {
namespace {

/// Segments read between two yields.
constexpr unsigned kFragSteps = 64;
/// The report for people shows at most this many of the allocated segments.
constexpr std::size_t kMostPins = 20;
/// Holders counted separately; the others are counted together.
constexpr std::size_t kMostHolders = 16;

/// A range of adjacent segments.
struct Window {
  std::uintptr_t start = 0;
  std::size_t bytes = 0;
  std::size_t held = 0;    ///< allocated bytes
  std::size_t pieces = 0;  ///< allocated segments
};

/// Moves a window over the segments of an arena. For each end, the window is the shortest one of at least @p size
/// bytes, which is the one with the fewest allocated bytes.
class Search {
 public:
  Search(Arena& arena, std::size_t size) noexcept : size_(size), ahead_(arena), behind_(arena) {}

  /// @returns false when aborted.
  bool run(Invocation& call) noexcept {
    Segment segment;
    unsigned steps = 0;
    while (ahead_.next(segment)) {
      if (++steps % kFragSteps == 0 && !call.yield()) return false;
      if (segment.kind == TagKind::kSpan || segment.start != window_.start + window_.bytes) {
        window_ = {};
        if (segment.kind == TagKind::kSpan) continue;
        window_.start = segment.start;
      }
      add(segment);
      while (!give_up_first()) {
      }
      if (window_.bytes >= size_ && (best_.bytes == 0 || window_.held < best_.held)) best_ = window_;
    }
    return true;
  }
  /// The window with the fewest allocated bytes. Its `bytes` are 0 if there is no window.
  [[nodiscard]] const Window& best() const noexcept { return best_; }

 private:
  void add(const Segment& segment) noexcept {
    window_.bytes += segment.size;
    if (segment.kind == TagKind::kFree) return;
    window_.held += segment.size;
    ++window_.pieces;
  }
  /// Removes the window's first segment if the rest has at least `size_` bytes. @returns true if no segment can be
  /// removed.
  bool give_up_first() noexcept {
    if (window_.bytes < size_) return true;
    while (first_.kind == TagKind::kSpan || first_.start < window_.start || first_.size == 0) {
      if (!behind_.next(first_)) return true;
    }
    if (first_.start != window_.start || window_.bytes - first_.size < size_) return true;
    window_.start += first_.size;
    window_.bytes -= first_.size;
    if (first_.kind != TagKind::kFree) {
      window_.held -= first_.size;
      --window_.pieces;
    }
    return false;
  }

  std::size_t size_;
  ArenaWalk ahead_;
  ArenaWalk behind_;
  Segment first_;
  Window window_;
  Window best_;
};

/// The holder of a segment.
struct Holder {
  enum class Kind : std::uint8_t { kCache, kArena, kAllocator, kSite, kUser };
  Kind kind = Kind::kUser;
  const void* which = nullptr;  ///< the Cache, Arena or CallSite

  bool operator==(const Holder&) const noexcept = default;
};

Holder holder_of(const Arena& arena, const Segment& segment) noexcept {
  Matching<Cache> caches({});
  while (Cache* cache = caches.next()) {
    ObjectPlace place;
    if (&cache->source() == &arena && cache->locate(segment.start, place)) return {Holder::Kind::kCache, cache};
  }
  Matching<Arena> arenas({});
  while (Arena* above = arenas.next()) {
    Segment part;
    if (above->source() == &arena && above->locate(segment.start, part) == Status::kOk)
      return {Holder::Kind::kArena, above};
  }
  if (segment.owner != SegmentOwner::kUser) return {Holder::Kind::kAllocator};
  if (kCallSites && segment.site != nullptr && segment.site != &qm_untagged_site)
    return {Holder::Kind::kSite, segment.site};
  return {};
}

void print_holder(Row& row, const Holder& holder) noexcept {
  switch (holder.kind) {
    case Holder::Kind::kCache: row.print("slab of {cache}\n", static_cast<const Cache*>(holder.which)->name()); return;
    case Holder::Kind::kArena: row.print("span of {arena}\n", static_cast<const Arena*>(holder.which)->name()); return;
    case Holder::Kind::kAllocator: row.print("{holder}\n", "slabs or tags of the allocator"); return;
    case Holder::Kind::kSite: {
      const auto& site = *static_cast<const CallSite*>(holder.which);
      row.print("{function} {file}:{line}\n", site.function, site.file, site.line);
      return;
    }
    case Holder::Kind::kUser: row.print("{holder}\n", "a user"); return;
  }
}

/// Calls @p visit for each held segment of the window. @returns false when aborted.
template <class Visit>
bool for_each_piece(Invocation& call, Arena& arena, const Window& window, Visit visit) noexcept {
  ArenaWalk walk(arena);
  walk.seek(window.start);
  Segment segment;
  while (walk.next(segment) && segment.start < window.start + window.bytes) {
    if (segment.kind != TagKind::kAllocated || segment.start < window.start) continue;
    if (!visit(segment)) break;
    if (!call.yield()) return false;
  }
  return true;
}

/// Prints how much of the window each holder has, largest first. @returns false when aborted.
bool print_holders(Invocation& call, Arena& arena, const Window& window) noexcept {
  struct Sum {
    Holder holder;
    std::size_t pieces = 0;
    std::size_t bytes = 0;
  };
  std::array<Sum, kMostHolders> sums;
  std::size_t count = 0;
  Sum others;
  const bool walked = for_each_piece(call, arena, window, [&](const Segment& segment) noexcept {
    const Holder holder = holder_of(arena, segment);
    std::size_t at = 0;
    while (at < count && sums[at].holder != holder) ++at;
    if (at == count && count < sums.size()) sums[count++].holder = holder;
    Sum& sum = at < count ? sums[at] : others;
    ++sum.pieces;
    sum.bytes += segment.size;
    return true;
  });
  if (!walked) return false;
  for (; count != 0; --count) {
    Sum& most = *std::max_element(sums.begin(), sums.begin() + count,
                                  [](const Sum& a, const Sum& b) noexcept { return a.bytes < b.bytes; });
    call.out().hang(4);
    Row row(call, "holder");
    row.print("  {pieces}, {held_bytes} bytes: ", Counted{most.pieces, "piece/pieces"}, most.bytes);
    print_holder(row, most.holder);
    most = sums[count - 1];
  }
  if (others.pieces != 0)
    call.note("{}, {} bytes of other holders\n", Counted{others.pieces, "piece/pieces"}, others.bytes);
  return true;
}

/// @returns false when aborted.
bool print_pieces(Invocation& call, Arena& arena, const Window& window) noexcept {
  std::size_t shown = 0;
  return for_each_piece(call, arena, window, [&](const Segment& segment) noexcept {
    if (shown++ == kMostPins && !call.rows()) {
      call.note("{}\n", Counted{window.pieces - kMostPins, "more piece/more pieces"});
      return false;
    }
    call.out().hang(4);
    Row row(call, "piece");
    row.print("  {address} {size_bytes:10}  ", Address{segment.start}, segment.size);
    print_holder(row, holder_of(arena, segment));
    return true;
  });
}

/// Prints whether a request of @p size bytes has room, and if not, why.
void answer(Invocation& call, Arena& arena, std::size_t size, std::size_t wanted, const ArenaStats& stats) noexcept {
  if (stats.largest_free >= wanted)
    return call.row("request", "a request of {size_bytes} {answer}\n", size, "has room");
  Arena* const source = const_cast<Arena*>(arena.source());
  if (source != nullptr && source->stats().largest_free >= wanted) {
    return call.row("request", "a request of {size_bytes} {answer}; {source} has some\n", size, "has no room here",
                    source->name());
  }
  call.row("request", "a request of {size_bytes} {answer}: {why}\n", size, "fails",
           stats.free < wanted ? "less than that is free" : "no free range is as large");
}

CommandStatus explain(Invocation& call, Arena& arena, std::size_t size) noexcept {
  const ArenaStats stats = arena.stats();
  // Without a size, search for a range twice as large as the largest free one.
  const std::size_t wanted = round_up(size != 0 ? size : std::min(stats.free, 2 * stats.largest_free), arena.quantum());
  call.row("arena", "{name}: free {free_bytes}, largest {largest_free_bytes}\n", arena.name(), stats.free,
           stats.largest_free);
  bool aborted = false;
  Window best;
  if (size != 0) answer(call, arena, size, wanted, stats);
  if (stats.largest_free < wanted) {
    Search search(arena, wanted);
    aborted = !search.run(call);
    best = search.best();
    if (!aborted && best.bytes == 0) {
      if (size != 0) call.note("no span has as much\n");
    } else if (!aborted) {
      call.row("range", "without {pieces} of {held_bytes} bytes there is a range of {range_bytes} at {address}:\n",
               Counted{best.pieces, "piece/pieces"}, best.held, best.bytes, Address{best.start});
      aborted = (best.pieces > 1 && !print_holders(call, arena, best)) || !print_pieces(call, arena, best);
    }
  }
  call.row("end", "frag {name}: pieces {pieces}, bytes {held_bytes}: {verdict}\n", arena.name(), best.pieces, best.held,
           closing_word(aborted));
  return closing_status(aborted);
}

CommandStatus run_frag(Invocation& call) noexcept {
  const Words& words = call.words();
  std::uint64_t size = 0;
  std::string_view name = "kheap";
  const bool sized = call.arguments() != 0 && words[1][0] >= '0' && words[1][0] <= '9';
  if (call.arguments() == 2 && !sized) return call.usage();
  if (sized) {
    const Number read = parse_size(words[1], SIZE_MAX / 2, size);
    if (read != Number::kOk) return call.fail_number(words[1], read);
    if (size == 0) return call.usage();
  }
  const bool named = call.arguments() == (sized ? 2u : 1u);
  if (named) name = words[call.arguments()];
  Matching<Arena> arenas(name);
  Arena* arena = arenas.next();
  if (arena == nullptr && named) return call.fail("No such arena {}", name);
  return explain(call, arena != nullptr ? *arena : base_arena(), static_cast<std::size_t>(size));
}

void complete_frag(Completion& completion) noexcept {
  if (completion.index() <= 2) offer_arenas(completion);
}

}  // namespace

constinit const Command frag = {
    .name = "frag",
    .usage = "frag [SIZE] [NAME]",
    .summary = "whether an arena has room for SIZE bytes, and which pieces are in the way",
    .run = run_frag,
    .max_arguments = 2,
    .complete = complete_frag,
    .forms =
        "NAME is an arena, kheap without it. In the way: the fewest bytes whose freeing makes room for SIZE\n"
        "Without SIZE: of twice the largest free range",
    .example = "frag 64K kheap\nfrag dma",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
