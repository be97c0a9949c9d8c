/// frag: what stands in the way of one large piece.

#include "commands.hpp"

#include <qm/bits.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/console/site_text.hpp>
#include <qm/system.hpp>

namespace qm::console::commands {
namespace {

/// Segments looked at between two yields.
constexpr unsigned kFragSteps = 64;

/// Neighbouring segments, from the first to the last.
struct Window {
  std::uintptr_t start = 0;
  std::size_t bytes = 0;
  std::size_t held = 0;    ///< of the bytes
  std::size_t pieces = 0;  ///< that are held
};

/// Walks over the segments of an arena with a window that has @p size bytes at least, and as few as that takes at its
/// beginning. Of all windows with the same end that one has the least held.
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
  /// The window with the least held; its bytes are 0 if there is none.
  [[nodiscard]] const Window& best() const noexcept { return best_; }

 private:
  void add(const Segment& segment) noexcept {
    window_.bytes += segment.size;
    if (segment.kind == TagKind::kFree) return;
    window_.held += segment.size;
    ++window_.pieces;
  }
  /// Shortens the window by its first segment, if it is long enough without. @returns whether it is as short as it can be.
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

/// Prints who has the segment: the call site, a cache, an arena.
void print_holder(Row& row, Arena& arena, const Segment& segment) noexcept {
  Matching<Cache> caches({});
  while (Cache* cache = caches.next()) {
    ObjectPlace place;
    if (&cache->source() != &arena || !cache->locate(segment.start, place)) continue;
    row.print("slab of {cache}\n", cache->name());
    return;
  }
  Matching<Arena> arenas({});
  while (Arena* above = arenas.next()) {
    Segment part;
    if (above->source() != &arena || above->locate(segment.start, part) != Status::kOk) continue;
    row.print("span of {arena}\n", above->name());
    return;
  }
  if (segment.owner != SegmentOwner::kUser) {
    row.print("{holder}\n", "slabs or tags of the allocator");
    return;
  }
  if constexpr (kCallSites) {
    if (segment.site != nullptr && segment.site != &qm_untagged_site) {
      row.print("{function} {file}:{line}\n", segment.site->function, segment.site->file, segment.site->line);
      return;
    }
  }
  row.print("{holder}\n", "a user");
}

/// @returns false when aborted.
bool print_pins(Invocation& call, Arena& arena, const Window& window) noexcept {
  ArenaWalk walk(arena);
  walk.seek(window.start);
  Segment segment;
  while (walk.next(segment) && segment.start < window.start + window.bytes) {
    if (segment.kind != TagKind::kAllocated || segment.start < window.start) continue;
    call.out().hang(4);
    {
      Row row(call, "piece");
      row.print("  {address} {size_bytes:10}  ", Address{segment.start}, segment.size);
      print_holder(row, arena, segment);
    }
    if (!call.yield()) return false;
  }
  return true;
}

CommandStatus explain(Invocation& call, Arena& arena, std::size_t size) noexcept {
  const ArenaStats stats = arena.stats();
  const std::size_t wanted = round_up(size, arena.quantum());
  call.row("arena", "{name}: free {free_bytes}, largest {largest_free_bytes}\n", arena.name(), stats.free,
           stats.largest_free);
  bool aborted = false;
  Window best;
  if (size == 0) {
    call.row("end", "frag {name}: {verdict}\n", arena.name(), closing_word(false));
    return call.ok();
  }
  if (stats.largest_free >= wanted) {
    call.row("request", "a request of {size_bytes} {answer}\n", size, "has room");
  } else {
    const Arena* source = arena.source();
    const bool imports = source != nullptr && const_cast<Arena*>(source)->stats().largest_free >= wanted;
    if (imports) {
      call.row("request", "a request of {size_bytes} {answer}; {source} has some\n", size, "has no room here",
               source->name());
    } else {
      call.row("request", "a request of {size_bytes} {answer}: {why}\n", size, "fails",
               stats.free < wanted ? "less than that is free" : "no free range is as large");
    }
    Search search(arena, wanted);
    aborted = !search.run(call);
    best = search.best();
    if (!aborted && best.bytes == 0) {
      call.note("no span has as much\n");
    } else if (!aborted) {
      call.row("range", "without {pieces} of {held_bytes} bytes there is a range of {range_bytes} at {address}:\n",
               Counted{best.pieces, "piece/pieces"}, best.held, best.bytes, Address{best.start});
      aborted = !print_pins(call, arena, best);
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
    .summary = "why SIZE bytes of an arena are to be had or not, and what is in the way",
    .run = run_frag,
    .max_arguments = 2,
    .complete = complete_frag,
    .forms =
        "NAME is an arena, kheap without it; what is in the way is what holds least where SIZE would fit without it",
    .example = "frag 64K kheap\nfrag dma",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
