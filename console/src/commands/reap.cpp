/// reap: gives idle memory back to the arenas.

#include "commands.hpp"

#include <qm/system.hpp>

#include <qm/console/names.hpp>
#include <qm/console/row.hpp>

namespace qm::console::commands {
namespace {

/// The kinds of caches in the order in which they are reaped. Ordinary caches come first: they free their slabs into
/// the quantum caches of arenas. The allocator's own caches, which have the magazines of the others, come last: only
/// now are those magazines idle.
enum class Kind : std::uint8_t { kOfMemory, kQuantum, kOwn };

Kind kind_of(const Cache& cache) noexcept {
  if ((cache.flags() & cache_flags::kQuantumCache) != 0) return Kind::kQuantum;
  return (cache.flags() & cache_flags::kNoMagazines) != 0 ? Kind::kOwn : Kind::kOfMemory;
}

/// @returns the bytes that arenas have imported from `base`, and the bytes of extents that no slab uses. Slabs of
/// caches are not included.
std::size_t held_by_arenas() noexcept {
  std::size_t bytes = 0;
  Matching<Arena> arenas({});
  while (Arena* arena = arenas.next()) {
    if (arena->source() == &base_arena()) bytes += arena->stats().imported;
  }
  return bytes + base_arena().stats().in_extents;
}

/// Freed bytes count only when they reach `base`, or their own arena without a source. So bytes that pass through
/// several arenas count once.
struct Reaped {
  std::size_t bytes = 0;    ///< to `base`
  std::size_t outside = 0;  ///< to arenas that do not import from `base`
  unsigned caches = 0;

  void reap(Cache& cache) noexcept {
    const std::size_t given = cache.reap();
    if (given == 0) return;
    ++caches;
    if (&cache.source() == &base_arena()) bytes += given;
    if (&cache.source().root() != &base_arena()) outside += given;
  }
};

CommandStatus run_reap(Invocation& call) noexcept {
  const std::string_view name = call.words()[1];
  if (!name.empty() && !names_any<Cache>(name)) return call.fail("No such slab {}", name);
  const std::size_t held = held_by_arenas();
  Reaped reaped;
  bool aborted = false;
  for (const Kind kind : {Kind::kOfMemory, Kind::kQuantum, Kind::kOwn}) {
    Matching<Cache> caches(name);
    while (Cache* cache = aborted ? nullptr : caches.next()) {
      if (kind_of(*cache) != kind) continue;
      reaped.reap(*cache);
      aborted = !call.yield();
    }
  }
  Matching<Arena> arenas({});
  while (Arena* arena = aborted ? nullptr : arenas.next()) {
    arena->reap();
    aborted = !call.yield();
  }
  const std::size_t held_now = held_by_arenas();
  reaped.bytes += held;
  reaped.bytes -= held_now < reaped.bytes ? held_now : reaped.bytes;
  if (reaped.outside != 0) call.note("{} bytes more to arenas that do not draw from base\n", reaped.outside);
  call.row("end", "reap: {bytes} bytes from {caches} caches: {verdict}\n", reaped.bytes, reaped.caches,
           closing_word(aborted));
  return closing_status(aborted);
}

void complete_reap(Completion& completion) noexcept {
  if (completion.index() == 1) offer_caches(completion);
}

}  // namespace

constinit const Command reap = {.name = "reap",
                                .usage = "reap [SLAB_NAME]",
                                .summary = "give idle memory back to the arenas",
                                .run = run_reap,
                                .max_arguments = 1,
                                .complete = complete_reap,
                                .example = "reap",
                                .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
