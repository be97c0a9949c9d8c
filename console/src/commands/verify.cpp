/// verify: checks every invariant of arenas and caches that can be checked while the system runs.

#include "commands.hpp"

#include <qm/detail/checked.hpp>
#include <qm/guards.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/detail/slab_pass.hpp>

namespace qm::console::commands {
namespace {

/// Segments or slabs checked between two yields.
constexpr unsigned kSteps = 16;

/// Counts of what was checked, and of faults.
struct Census {
  Invocation& call;
  unsigned arenas = 0;
  std::size_t spans = 0;
  std::size_t segments = 0;
  unsigned caches = 0;
  std::size_t slabs = 0;
  std::size_t objects = 0;
  std::size_t faults = 0;
  bool whole = true;

  template <class... Arguments>
  void fault(Format<std::type_identity_t<Arguments>...> format, const Arguments&... arguments) noexcept {
    ++faults;
    call.row<Arguments...>("fault", format, arguments...);
  }
};

/// @returns false when aborted.
bool verify_arena(Census& census, Arena& arena) noexcept {
  ++census.arenas;
  ArenaWalk walk(arena);
  Segment segment;
  unsigned steps = 0;
  while (walk.next(segment)) {
    const bool span = segment.kind == TagKind::kSpan;
    (span ? census.spans : census.segments) += 1;
    if (!walk.is_sound()) {
      census.fault("fault: arena {arena}: {part} {address} breaks an invariant\n", arena.name(),
                   span ? "span" : "segment", Address{segment.start});
    }
    if (++steps % kSteps == 0 && !census.call.yield()) return false;
  }
  return true;
}

/// One slab of a pass: checked under its layer's lock, reported without the lock.
struct SlabLook {
  Cache* cache = nullptr;
  std::uintptr_t start = 0;
  std::size_t objects = 0;
  std::size_t damaged = 0;
  bool sound = true;
};

void look_at_slab(SlabLayer& layer, Slab& slab, void* argument) noexcept {
  auto& look = *static_cast<SlabLook*>(argument);
  look.start = slab.start;
  look.objects = slab.objects;
  look.sound = layer.is_sound(slab);
  if constexpr (kChecked) look.damaged = checked::inspect(*look.cache, slab);
}

/// @returns false when aborted.
bool verify_cache(Census& census, Cache& cache) noexcept {
  ++census.caches;
  SlabPass pass(cache.slabs());
  SlabLook look;
  look.cache = &cache;
  unsigned steps = 0;
  while (pass.step(look_at_slab, &look)) {
    ++census.slabs;
    census.objects += look.objects;
    if (!look.sound)
      census.fault("fault: cache {cache}: slab {address} breaks an invariant\n", cache.name(), Address{look.start});
    if (look.damaged != 0) {
      census.fault("fault: cache {cache}: slab {address} has {damaged}\n", cache.name(), Address{look.start},
                   Counted{look.damaged, "damaged object/damaged objects"});
    }
    if (++steps % kSteps == 0 && !census.call.yield()) return false;
  }
  census.whole = census.whole && pass.complete();
  if (const std::size_t damaged = cache.inspect_quarantine(); damaged != 0) {
    census.fault("fault: cache {cache}: its quarantine has {damaged}\n", cache.name(),
                 Counted{damaged, "damaged object/damaged objects"});
  }
  switch (cache.verify_hart_caches()) {
    case Status::kOk: break;
    case Status::kMismatch:
      census.fault("fault: cache {cache}: a hart's magazines break an invariant\n", cache.name());
      break;
    default: census.whole = false; break;  // a hart has not answered
  }
  return census.call.yield();
}

CommandStatus run_verify(Invocation& call) noexcept {
  const std::string_view name = call.words()[1];
  if (!names_any<Cache>(name) && !names_any<Arena>(name)) return call.fail("No such arena or slab {}", name);
  Census census{call};
  bool aborted = false;
  Matching<Arena> arenas(name);
  while (Arena* arena = aborted ? nullptr : arenas.next()) aborted = !verify_arena(census, *arena);
  Matching<Cache> caches(name);
  while (Cache* cache = aborted ? nullptr : caches.next()) aborted = !verify_cache(census, *cache);
  if (const std::size_t damaged = name.empty() ? guards::verify() : 0; damaged != 0)
    census.fault("fault: {damaged}\n", Counted{damaged, "damaged guarded object/damaged guarded objects"});
  call.row("end",
           "arenas {arenas}, spans {spans}, segments {segments}, caches {caches}, slabs {slabs}\n"
           "verify: objects {objects}, faults {faults}: {verdict}\n",
           census.arenas, census.spans, census.segments, census.caches, census.slabs, census.objects, census.faults,
           closing_word(aborted, census.whole));
  if (census.faults != 0) return call.fail("{}", Counted{census.faults, "fault/faults"});
  return closing_status(aborted);
}

void complete_verify(Completion& completion) noexcept {
  if (completion.index() != 1) return;
  offer_arenas(completion);
  offer_caches(completion);
}

}  // namespace

constinit const Command verify = {.name = "verify",
                                  .usage = "verify [NAME]",
                                  .summary = "check every invariant of an arena or a cache, or of all",
                                  .run = run_verify,
                                  .max_arguments = 1,
                                  .complete = complete_verify,
                                  .example = "verify",
                                  .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
