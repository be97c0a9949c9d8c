/// whatis: the object, slab, segment or symbol at an address.

#include "commands.hpp"

#include <span>

#include <qm/detail/bits.hpp>
#include <qm/detail/checked.hpp>
#include <qm/guards.hpp>
#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/console/site_text.hpp>

namespace qm::console::commands {
namespace {

void print_whereabouts(Row& row, const Cache::Whereabouts& where) noexcept {
  using Place = Cache::Place;
  switch (where.place) {
    case Place::kUser: row.print("{state}", "in use"); return;
    case Place::kMagazine: row.print("{state} of hart {hart}", "idle in a magazine", where.hart); return;
    case Place::kDepot: row.print("{state}", "idle in the depot"); return;
    case Place::kReserve: row.print("{state}", "idle in the reserve"); return;
    case Place::kQuarantine: row.print("{state}", "idle in quarantine"); return;
    case Place::kSlab: row.print("{state}", "free in its slab"); return;
    case Place::kUnknown: break;
  }
  row.print("{state}", "in use or idle");
  if (hal::in_panic()) {
    row.print(" (no hart is asked in panic)");
  } else if (where.hart == hal::BroadcastResult::kNobody) {
    row.print(" (the harts could not be asked)");
  } else {
    row.print(" (hart {} has not answered)", where.hart);
  }
}

/// Whether the slab's source has allocated it. After a restart without clearing memory, headers of old slabs may
/// remain.
bool is_there(Cache& cache, std::uintptr_t slab) noexcept {
  Segment segment;
  if (cache.source().locate(slab, segment) != Status::kOk || segment.kind != TagKind::kAllocated) return false;
  if (segment.owner == SegmentOwner::kSlabs)
    return (segment.free_pages >> (slab - segment.start) / SlabLayer::kPageBytes & 1) == 0;
  // A slab is a segment of its own, or lies in a segment of a quantum cache.
  return segment.owner == SegmentOwner::kQuantumCache ||
         segment.size <= round_up(cache.slab_bytes(), cache.source().quantum());
}

/// Prints the call site that allocated the memory, if it is known.
inline void print_taker(Invocation& call, const CallSite* site) noexcept {
  if (site == nullptr || site == &qm_untagged_site) return;
  call.out().whole_line();
  Row row(call, "taken_at");
  row.print("  taken at ");
  print_site(row, *site);
  row.print("\n");
}

/// An object of `kmem_slab` is the header of a slab that lies elsewhere. Prints that slab and its cache.
void print_header_of(Invocation& call, const Cache& headers, const ObjectPlace& place) noexcept {
  if (from_c(headers.name()) != "kmem_slab") return;
  const auto* const slab =
      reinterpret_cast<const Slab*>(reinterpret_cast<std::uintptr_t>(place.object) + SlabLayer::kExternalHead);
  Matching<Cache> caches({});
  while (Cache* cache = caches.next()) {
    if (slab->layer != &cache->slabs()) continue;
    call.row("header_of", "  header of slab {slab} of {cache}\n", Address{slab->start}, cache->name());
    return;
  }
}

/// Prints the object or slab of @p cache at @p address. @returns false if the cache has no slab there.
bool print_cache(Invocation& call, Cache& cache, std::uintptr_t address) noexcept {
  ObjectPlace place;
  if (!cache.locate(address, place) || !is_there(cache, place.slab)) return false;
  if (place.object == nullptr) {
    const char* const state = place.in_header ? "header of the slab" : "unused part of the slab";
    if (address < place.slab) {
      call.row("place", "cache {cache}: slab {slab} - {before}, {state}\n", cache.name(), Address{place.slab},
               place.slab - address, state);
    } else {
      call.row("place", "cache {cache}: slab {slab} + {offset}, {state}\n", cache.name(), Address{place.slab},
               address - place.slab, state);
    }
    return true;
  }
  const Cache::Whereabouts where = cache.look_for(place.object);
  {
    Row row(call, "place");
    row.print("cache {cache}: object {object} + {offset}, ", cache.name(),
              Address{reinterpret_cast<std::uintptr_t>(place.object)}, place.offset);
    print_whereabouts(row, where);
    row.print("\n  {number} of {objects} in slab {slab}\n", place.index + 1, place.objects, Address{place.slab});
  }
  if (place.is_out) print_header_of(call, cache, place);
  if constexpr (kCallSites) {
    if (where.place == Cache::Place::kUser) print_taker(call, cache.site_of(place.object));
  }
  if constexpr (kChecked) {
    MisuseReport life;
    life.cache = &cache;
    life.object = place.object;
    checked::add_stacks(life);
    call.console().trace().print_deed(call.out(), "allocated by", life.allocated_by);
    call.console().trace().print_deed(call.out(), "freed by", life.freed_by);
  }
  call.console().trace().print_record(call.out(), cache, place.object);
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
  call.row("place", "arena {arena}: segment {segment} + {offset}\n  {size_bytes} bytes, {state}\n", arena.name(),
           Address{segment.start}, address - segment.start, segment.size, name_of(segment));
  const bool held = segment.kind == TagKind::kAllocated && segment.owner == SegmentOwner::kUser;
  if constexpr (kCallSites) {
    if (held) print_taker(call, segment.site);
  }
  if (held) call.console().trace().print_record(call.out(), arena, segment.start);
  return true;
}

/// Reads an address: a number, NAME, or NAME+NUMBER. @returns kOk, or the status that the command returns.
CommandStatus read_address(Invocation& call, std::string_view text, std::uintptr_t& address) noexcept {
  std::uint64_t number = 0;
  Number parsed = parse_number(text, UINTPTR_MAX, number);
  const SymbolFinder finder = call.console().config().finder;
  const bool starts_with_digit = text[0] >= '0' && text[0] <= '9';
  if (parsed == Number::kMalformed && finder != nullptr && !starts_with_digit) {
    std::size_t plus = text.size();
    while (plus != 0 && text[plus - 1] != '+') --plus;  // the last `+`: the name of an operator may contain others
    std::uintptr_t start = 0;
    number = 0;
    if (!finder(text, start)) {
      if (plus == 0) return call.fail("No such symbol {}", text);
      parsed = parse_number(part(text, plus), UINTPTR_MAX, number);
      if (parsed != Number::kOk) return call.fail_number(part(text, plus), parsed);
      if (!finder(part(text, 0, plus - 1), start)) return call.fail("No such symbol {}", part(text, 0, plus - 1));
    }
    number += start;
    parsed = Number::kOk;
  }
  if (parsed != Number::kOk) return call.fail_number(text, parsed);
  address = static_cast<std::uintptr_t>(number);
  return call.ok();
}

/// Prints the firmware's description of @p address, if it has one.
void print_elsewhere(Invocation& call, std::uintptr_t address) noexcept {
  const ConsoleConfig& config = call.console().config();
  char text[96];
  const std::size_t length = config.describe != nullptr ? config.describe(address, std::span<char>(text)) : 0;
  if (length != 0) call.row("place", "in {region}\n", std::string_view(text, length));
}

/// Prints what the pool of guarded objects has at @p address, which it covers.
void print_guarded(Invocation& call, std::uintptr_t address) noexcept {
  guards::Guarded guarded;
  if (!guards::find(address, guarded)) return call.row("place", "in a place for a guarded object, {state}\n", "unused");
  const char* const name = guarded.cache != nullptr ? guarded.cache->name() : "kheap";
  const char* const state = guarded.is_live ? "in use" : "freed";
  const Address start{guarded.start};
  if (address < guarded.start) {
    call.row("place", "cache {cache}: guarded object {object} - {before}, {state}\n", name, start,
             guarded.start - address, state);
  } else {
    call.row("place", "cache {cache}: guarded object {object} + {offset}, {state}\n", name, start,
             address - guarded.start, state);
  }
  call.row("guarded", "  {size_bytes} bytes\n", guarded.bytes);
  call.console().trace().print_deed(call.out(), "allocated by", guarded.allocated_by);
  call.console().trace().print_deed(call.out(), "freed by", guarded.freed_by);
}

CommandStatus run_whatis(Invocation& call) noexcept {
  std::uintptr_t address = 0;
  const CommandStatus read = read_address(call, call.words()[1], address);
  if (read != CommandStatus::kOk) return read;
  if (guards::covers(address)) {
    print_guarded(call, address);
    return call.ok();
  }
  unsigned found_caches = 0;
  unsigned found_arenas = 0;
  bool aborted = false;
  // A slab may be an object of a quantum cache. Ordinary caches come first, so that their objects are found.
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
  if (!aborted && found_caches + found_arenas == 0) {
    call.row("place", "{state}\n", "no memory of this allocator");
    print_elsewhere(call, address);
  }
  Symbol symbol;
  if (!aborted && call.console().resolve(address, symbol)) {
    if (symbol.is_function) {
      call.row("code", "code {function}+0x{offset:x}/0x{function_bytes:x}\n", symbol.name, symbol.offset, symbol.size);
    } else {
      call.row("variable", "variable {variable}+0x{offset:x}/0x{variable_bytes:x}\n", symbol.name, symbol.offset,
               symbol.size);
    }
  }
  call.row("end", "whatis {address}: caches {caches}, arenas {arenas}: {verdict}\n", Address{address}, found_caches,
           found_arenas, closing_word(aborted));
  return closing_status(aborted);
}

void complete_whatis(Completion& completion) noexcept {
  if (completion.index() == 1) completion.offer_symbols();
}

}  // namespace

constinit const Command whatis = {.name = "whatis",
                                  .usage = "whatis ADDR|NAME[+OFFSET]",
                                  .summary = "the object, slab or segment at an address, and who allocated it",
                                  .run = run_whatis,
                                  .min_arguments = 1,
                                  .max_arguments = 1,
                                  .complete = complete_whatis,
                                  .forms = "NAME is a function or a static variable: whatis packet_alloc+0x12",
                                  .example = "whatis 0x80a41280\nwhatis packet_alloc+0x12",
                                  .in_panic = true,
                                  .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
