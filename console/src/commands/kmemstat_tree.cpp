/// kmemstat -v: all arenas and caches as a tree.

#include "commands.hpp"

#include <qm/console/names.hpp>
#include <qm/console/row.hpp>

namespace qm::console::commands {
namespace {

constexpr std::size_t kNameColumns = 30;
constexpr std::size_t kIndent = 4;
/// Levels of arenas shown: a row's name starts at 4 columns a level.
constexpr unsigned kMaxLevels = 12;

/// One run of kmemstat -v.
struct Tree {
  Invocation& call;
  unsigned arenas = 0;
  unsigned caches = 0;
  bool aborted = false;
  bool too_deep = false;

  /// Prints the name, indented by its depth, and the type.
  void begin(Row& row, const char* name, unsigned depth, char type) noexcept {
    Output& out = call.out();
    row.text("name", from_c(name)).number("depth", depth);
    if (call.rows()) return;
    out.whole_line();
    const std::size_t indent = kIndent * depth;
    out.repeat(' ', indent);
    out.text(from_c(name));
    const std::size_t used = indent + from_c(name).size();
    if (used < kNameColumns) out.repeat(' ', kNameColumns - used);
    out.print(": {} :", std::string_view(&type, 1));
  }

  void print(Row& row, const ArenaStats& stats, std::size_t quantum) noexcept {
    row.print("{size_bytes:8}:{total_bytes:15}:{used_bytes:15}:{allocations:12}", quantum, stats.total, stats.allocated,
              stats.allocations_ever);
    row.print(":{idle_bytes:15}:{high_water_bytes:15}: {failures}\n", stats.idle + stats.in_extents, stats.high_water,
              stats.failures);
  }

  void print(Row& row, const CacheStats& stats) noexcept {
    const std::size_t size = stats.object_size;
    const std::size_t idle = stats.objects - stats.in_use;
    row.print("{size_bytes:8}:{total_bytes:15}:{used_bytes:15}:", size, stats.objects * size, stats.in_use * size);
    if (stats.counted) {
      row.print("{allocations:12}", stats.allocations);
    } else {
      row.print("{:12}", "-");
    }
    row.print(":{idle_bytes:15}:{high_water_bytes:15}: {failures}\n", idle * size, stats.high_water * size,
              stats.failures);
  }

  void show(Arena& arena, unsigned depth) noexcept {
    {
      Row row(call, "arena");
      begin(row, arena.name(), depth, 'A');
      print(row, arena.stats(), arena.quantum());
    }
    ++arenas;
    aborted = !call.yield();
  }

  void show_caches_of(const Arena& arena, unsigned depth) noexcept {
    Matching<Cache> caches_of({});
    while (Cache* cache = aborted ? nullptr : caches_of.next()) {
      if (&cache->source() != &arena) continue;
      {
        Row row(call, "cache");
        begin(row, cache->name(), depth, 'S');
        print(row, cache->stats());
      }
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

  /// Shows the arenas without a source, each followed by the arenas that import from it and then by its caches. The
  /// cursor of a level stands on the arena whose branch is shown, so that arena cannot be destroyed.
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

}  // namespace

CommandStatus show_tree(Invocation& call) noexcept {
  call.out().whole_line();
  call.head(
      "{:<30}:Typ: Objsize:      Total Amt:      Alloc Amt: Allocs Ever:       Idle Amt:     High Water: Failed\n",
      "Arena/Slab Name");
  call.out().whole_line();
  call.head("----------------------------------------------------------------------------------------\n");
  Tree tree{call};
  tree.show_all();
  call.row("end", "caches {caches}, arenas {arenas}: {verdict}\n", tree.caches, tree.arenas,
           closing_word(tree.aborted, !tree.too_deep));
  return closing_status(tree.aborted);
}

}  // namespace qm::console::commands
