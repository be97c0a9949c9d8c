/// reap: idle memory back to the arenas.

#include "commands.hpp"

#include <qm/system.hpp>

#include <qm/console/names.hpp>

namespace qm::console::commands {
namespace {

CommandStatus run_reap(Invocation& call) noexcept {
  const std::string_view name = call.words()[1];
  if (!name.empty() && !names_any<Cache>(name)) return call.fail("No such slab {}", name);
  std::size_t bytes = base_arena().stats().in_extents;  // less what stays there
  unsigned reaped = 0;
  bool aborted = false;
  // Caches of memory first: their slabs fall into the quantum caches of arenas, and those are reaped after them.
  for (const bool quantum : {false, true}) {
    Matching<Cache> caches(name);
    while (Cache* cache = aborted ? nullptr : caches.next()) {
      if (((cache->flags() & cache_flags::kQuantumCache) != 0) != quantum) continue;
      const std::size_t given = cache->reap();
      bytes += given;
      reaped += given != 0 ? 1 : 0;
      aborted = !call.yield();
    }
  }
  Matching<Arena> arenas({});
  while (Arena* arena = aborted ? nullptr : arenas.next()) {
    arena->reap();  // an empty span goes on to the source; what it holds was counted as its slabs came back
    aborted = !call.yield();
  }
  const std::size_t in_extents = base_arena().stats().in_extents;
  bytes -= in_extents < bytes ? in_extents : bytes;
  call.print("reap: {} bytes from {} caches: {}\n", bytes, reaped, closing_word(aborted));
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
                                .complete = complete_reap};

}  // namespace qm::console::commands
