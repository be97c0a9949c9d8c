/// whatis: what lies at an address.

#include "commands.hpp"

#include <qm/bits.hpp>
#include <qm/checked.hpp>
#include <qm/console/console.hpp>
#include <qm/console/names.hpp>

namespace qm::console::commands {
namespace {

void print_whereabouts(Invocation& call, const Cache::Whereabouts& where) noexcept {
  using Place = Cache::Place;
  switch (where.place) {
    case Place::kUser: call.print("in use"); break;
    case Place::kMagazine: call.print("idle in a magazine of hart {}", where.hart); break;
    case Place::kDepot: call.print("idle in the depot"); break;
    case Place::kReserve: call.print("idle in the reserve"); break;
    case Place::kSlab: call.print("free in its slab"); break;
    case Place::kUnknown:
      if (hal::in_panic()) {
        call.print("in use or idle (no hart is asked in panic)");
      } else if (where.hart == hal::RoundResult::kNobody) {
        call.print("in use or idle (the harts could not be asked)");
      } else {
        call.print("in use or idle (hart {} has not answered)", where.hart);
      }
      break;
  }
}

/// Whether the source of a slab has it out: memory that was not cleared at a restart may have headers of slabs from before.
bool is_there(Cache& cache, std::uintptr_t slab) noexcept {
  Segment segment;
  if (cache.source().locate(slab, segment) != Status::kOk || segment.kind != TagKind::kAllocated) return false;
  if (segment.owner == SegmentOwner::kSlabs)
    return (segment.free_pages >> (slab - segment.start) / SlabLayer::kPageBytes & 1) == 0;
  // A slab is a segment of its own, or lies in one of a quantum cache.
  return segment.owner == SegmentOwner::kQuantumCache ||
         segment.size <= round_up(cache.slab_bytes(), cache.source().quantum());
}

/// Prints what the cache has at @p address. @returns whether it has something.
bool print_cache(Invocation& call, Cache& cache, std::uintptr_t address) noexcept {
  ObjectPlace place;
  if (!cache.locate(address, place) || !is_there(cache, place.slab)) return false;
  call.print("cache {}: ", cache.name());
  if (place.object == nullptr) {
    call.print("slab {} + {}, no object\n", Address{place.slab}, address - place.slab);
    return true;
  }
  call.print("object {} + {}, ", Address{reinterpret_cast<std::uintptr_t>(place.object)}, place.offset);
  print_whereabouts(call, cache.look_for(place.object));
  call.print("\n  {} of {} in slab {}\n", place.index + 1, place.objects, Address{place.slab});
  if constexpr (kChecked) {
    MisuseReport life;
    life.cache = &cache;
    life.object = place.object;
    checked::add_stacks(life);
    call.console().books().print_deed(call.out(), "allocated by", life.allocated_by);
    call.console().books().print_deed(call.out(), "freed by", life.freed_by);
  }
  call.console().books().print_record(call.out(), cache, place.object);
  return true;
}

const char* name_of(const Segment& segment) noexcept {
  if (segment.kind == TagKind::kFree) return "free";
  switch (segment.owner) {
    case SegmentOwner::kUser: return "allocated";
    case SegmentOwner::kSlabs: return "extent of slabs";
    case SegmentOwner::kQuantumCache: return "slab of a quantum cache";
    case SegmentOwner::kTagPool: return "boundary tags";
  }
  return "";
}

bool print_arena(Invocation& call, Arena& arena, std::uintptr_t address) noexcept {
  Segment segment;
  if (arena.locate(address, segment) != Status::kOk) return false;
  call.print("arena {}: segment {} + {}\n  {} bytes, {}\n", arena.name(), Address{segment.start},
             address - segment.start, segment.size, name_of(segment));
  const bool held = segment.kind == TagKind::kAllocated && segment.owner == SegmentOwner::kUser;
  if (held) call.console().books().print_record(call.out(), arena, segment.start);
  return true;
}

CommandStatus run_whatis(Invocation& call) noexcept {
  std::uint64_t number = 0;
  const Number parsed = parse_number(call.words()[1], UINTPTR_MAX, number);
  if (parsed != Number::kOk) return call.fail_number(call.words()[1], parsed);
  const auto address = static_cast<std::uintptr_t>(number);
  unsigned found_caches = 0;
  unsigned found_arenas = 0;
  bool aborted = false;
  // A slab is an object of a quantum cache, which comes after the one whose objects it has.
  for (const std::uint32_t kind : {std::uint32_t{0}, cache_flags::kQuantumCache}) {
    Matching<Cache> caches({});
    while (Cache* cache = aborted ? nullptr : caches.next()) {
      if ((cache->flags() & cache_flags::kQuantumCache) == kind)
        found_caches += print_cache(call, *cache, address) ? 1 : 0;
      aborted = !call.yield();
    }
  }
  Matching<Arena> arenas({});
  while (Arena* arena = aborted ? nullptr : arenas.next()) {
    found_arenas += print_arena(call, *arena, address) ? 1 : 0;
    aborted = !call.yield();
  }
  Symbol symbol;
  if (!aborted && call.console().resolve(address, symbol)) {
    call.print("code {}+0x{:x}/0x{:x}\n", symbol.name, symbol.offset, symbol.size);
  }
  call.print("whatis {}: caches {}, arenas {}: {}\n", Address{address}, found_caches, found_arenas,
             closing_word(aborted));
  return closing_status(aborted);
}

}  // namespace

constinit const Command whatis = {.name = "whatis",
                                  .usage = "whatis ADDR",
                                  .summary = "what lies at an address: object, slab, segment, and who drew it",
                                  .run = run_whatis,
                                  .min_arguments = 1,
                                  .max_arguments = 1,
                                  .in_panic = true,
                                  .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
