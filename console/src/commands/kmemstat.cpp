/// kmemstat and free: all memory at a glance.

#include "commands.hpp"

#include <qm/console/names.hpp>
#include <qm/system.hpp>

namespace qm::console::commands {
namespace {

constexpr std::size_t kNameColumns = 30;
constexpr std::size_t kIndent = 4;
/// Levels of arenas shown: a row's name starts at 4 columns a level.
constexpr unsigned kMaxLevels = 12;

/// One kmemstat under way.
struct Tree {
  Invocation& call;
  unsigned arenas = 0;
  unsigned caches = 0;
  bool aborted = false;
  bool too_deep = false;

  void begin_row(const char* name, unsigned depth, char type) noexcept {
    Output& out = call.out();
    const std::size_t indent = kIndent * depth;
    out.repeat(' ', indent);
    out.text(from_c(name));
    const std::size_t used = indent + from_c(name).size();
    if (used < kNameColumns) out.repeat(' ', kNameColumns - used);
    out.text(": ");
    out.put(type);
    out.text(" :");
  }

  void print(const ArenaStats& stats, std::size_t quantum) noexcept {
    call.print("{:8}:{:15}:{:15}:{:12}:{:15}:{:15}: {}\n", quantum, stats.total, stats.allocated,
               stats.allocations_ever, stats.idle + stats.in_extents, stats.high_water, stats.failures);
  }

  void print(const CacheStats& stats) noexcept {
    const std::size_t size = stats.object_size;
    const std::size_t idle = stats.objects - stats.in_use;
    call.print("{:8}:{:15}:{:15}:", size, stats.objects * size, stats.in_use * size);
    if (stats.counted) {
      call.print("{:12}", stats.allocations);
    } else {
      call.print("{:12}", "-");
    }
    call.print(":{:15}:{:15}: {}\n", idle * size, stats.high_water * size, stats.failures);
  }

  void show(Arena& arena, unsigned depth) noexcept {
    begin_row(arena.name(), depth, 'A');
    print(arena.stats(), arena.quantum());
    ++arenas;
    aborted = !call.yield();
  }

  void show_caches_of(const Arena& arena, unsigned depth) noexcept {
    Matching<Cache> caches_of({});
    while (Cache* cache = aborted ? nullptr : caches_of.next()) {
      if (&cache->source() != &arena) continue;
      begin_row(cache->name(), depth, 'S');
      print(cache->stats());
      ++caches;
      aborted = !call.yield();
    }
  }

  static bool is_source(const Arena& arena) noexcept {
    Matching<Arena> arenas_of({});
    const Arena* drawing = arenas_of.next();
    while (drawing != nullptr && drawing->source() != &arena) drawing = arenas_of.next();
    return drawing != nullptr;
  }

  /// Shows the arenas without a source, each followed by the arenas that draw from it and then by its caches. A level's
  /// cursor stands on the arena whose branch is shown, and so pins it.
  void show_all() noexcept {
    RegistryCursor<Arena> cursors[kMaxLevels];
    Arena* branch[kMaxLevels] = {};
    unsigned level = 0;
    while (!aborted) {
      Arena* const above = level == 0 ? nullptr : branch[level - 1];
      Arena* arena = level == kMaxLevels ? nullptr : cursors[level].next();
      while (arena != nullptr && arena->source() != above) arena = cursors[level].next();
      if (arena != nullptr) {
        show(*arena, level);
        branch[level++] = arena;
        continue;
      }
      if (level == 0) return;
      too_deep = too_deep || (level == kMaxLevels && is_source(*above));
      show_caches_of(*above, level);
      --level;
    }
  }
};

CommandStatus run_kmemstat(Invocation& call) noexcept {
  call.print(
      "{:<30}:Typ: Objsize:      Total Amt:      Alloc Amt: Allocs Ever:       Idle Amt:     High Water: Failed\n",
      "Arena/Slab Name");
  call.out().repeat('-', 88);
  call.print("\n");
  Tree tree{call};
  tree.show_all();
  call.print("caches {}, arenas {}: {}\n", tree.caches, tree.arenas, closing_word(tree.aborted, !tree.too_deep));
  return closing_status(tree.aborted);
}

// ---- free -----------------------------------------------------------------------------------------------------------

/// Bytes of @p arena's memory that nobody holds; of `base`, what no slab has of the extents.
std::size_t idle_bytes(Arena& arena) noexcept {
  const ArenaStats stats = arena.stats();
  return &arena == &base_arena() ? stats.in_extents : stats.free;
}

/// Bytes of @p cache's slabs that nobody holds: each idle object with its share of its slab, so that a slab that goes
/// takes all of its bytes along.
std::size_t idle_bytes(Cache& cache) noexcept {
  const CacheStats stats = cache.stats();
  return (stats.objects - stats.in_use) * cache.slab_bytes() / cache.slabs().objects();
}

CommandStatus run_free(Invocation& call) noexcept {
  std::size_t idle = 0;
  unsigned caches = 0;
  unsigned arenas = 0;
  bool aborted = false;
  Matching<Arena> all_arenas({});
  while (Arena* arena = aborted ? nullptr : all_arenas.next()) {
    if (&arena->root() != &base_arena()) continue;
    idle += idle_bytes(*arena);
    ++arenas;
    aborted = !call.yield();
  }
  Matching<Cache> all_caches({});
  while (Cache* cache = aborted ? nullptr : all_caches.next()) {
    if (&cache->source().root() != &base_arena()) continue;
    idle += idle_bytes(*cache);
    ++caches;
    aborted = !call.yield();
  }
  const ArenaStats base = base_arena().stats();
  if (!aborted) {
    call.print("Total Memory : {:15}\n", base.total);
    call.print("Used Memory  : {:15}\n", base.allocated);
    call.print("Free Memory  : {:15}\n", base.free);
    call.print("Idle Memory  : {:15}\n", idle);
    call.print("Least Free   : {:15}\n", base.total - base.high_water);
    call.print("Largest Free : {:15}\n", base.largest_free);
  }
  call.print("caches {}, arenas {}: {}\n", caches, arenas, closing_word(aborted));
  return closing_status(aborted);
}

}  // namespace

constinit const Command kmemstat = {
    .name = "kmemstat",
    .usage = "kmemstat",
    .summary = "arenas and caches as a tree: what they hold, what users hold, what is idle",
    .run = run_kmemstat,
    .in_panic = true};

constinit const Command free_memory = {.name = "free",
                                       .usage = "free",
                                       .summary = "memory in total: used, free, idle, least ever free, largest piece",
                                       .run = run_free,
                                       .in_panic = true};

}  // namespace qm::console::commands
