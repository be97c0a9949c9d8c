/// kmemstat and free: all memory at a glance.

#include "commands.hpp"

#include <span>

#include <qm/console/amount.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
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
    out.whole_line();
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

CommandStatus show_tree(Invocation& call) noexcept {
  call.out().whole_line();
  call.print(
      "{:<30}:Typ: Objsize:      Total Amt:      Alloc Amt: Allocs Ever:       Idle Amt:     High Water: Failed\n",
      "Arena/Slab Name");
  call.out().whole_line();
  call.out().repeat('-', 88);
  call.print("\n");
  Tree tree{call};
  tree.show_all();
  call.print("caches {}, arenas {}: {}\n", tree.caches, tree.arenas, closing_word(tree.aborted, !tree.too_deep));
  return closing_status(tree.aborted);
}

// ---- a line a cache -------------------------------------------------------------------------------------------------

enum class Key : std::uint8_t { kNone, kName, kSize, kUsed, kIdle, kTotal, kAllocations, kFailures };

struct KeyName {
  std::string_view word;
  Key key;
};
constexpr KeyName kKeys[] = {{"name", Key::kName},        {"size", Key::kSize},   {"used", Key::kUsed},
                             {"idle", Key::kIdle},        {"total", Key::kTotal}, {"allocs", Key::kAllocations},
                             {"failures", Key::kFailures}};

struct Query {
  std::string_view pattern;
  Key key = Key::kNone;
  std::size_t top = SIZE_MAX;
  bool in_bytes = false;
  bool as_tree = false;
};

/// A cache, or an arena from which users alone draw.
struct Line {
  Traceable* source = nullptr;  ///< until the walk goes on
  std::size_t place = 0;        ///< in the walk
  std::uint64_t size = 0;
  std::uint64_t used = 0;
  std::uint64_t idle = 0;
  std::uint64_t total = 0;
  std::uint64_t allocations = 0;
  bool counted = true;
  bool arena = false;
  std::uint64_t failures = 0;

  [[nodiscard]] std::uint64_t value(Key key) const noexcept {
    switch (key) {
      case Key::kSize: return size;
      case Key::kUsed: return used;
      case Key::kIdle: return idle;
      case Key::kTotal: return total;
      case Key::kAllocations: return allocations;
      case Key::kFailures: return failures;
      default: return 0;
    }
  }
  void add(const Line& other) noexcept {
    used += other.used;
    idle += other.idle;
    total += other.total;
    allocations += other.allocations;
    counted = counted && other.counted;
    failures += other.failures;
  }
};

/// Walks over what has a line. Each byte that users hold is in one of them: what quantum caches hand out is counted at
/// their arena, and what an arena hands out to caches and arenas, at those.
class Lines {
 public:
  explicit Lines(std::string_view pattern) noexcept : sources_(pattern) {}

  bool next(Line& line) noexcept {
    while (Traceable* source = sources_.next()) {
      line = {};
      line.source = source;
      line.place = place_++;
      if (source->kind() == RegistryKind::kCache ? look_at(static_cast<Cache&>(*source), line)
                                                 : look_at(static_cast<Arena&>(*source), line))
        return true;
    }
    return false;
  }

 private:
  static bool look_at(Cache& cache, Line& line) noexcept {
    if ((cache.flags() & cache_flags::kQuantumCache) != 0) return false;
    const CacheStats stats = cache.stats();
    line.size = stats.object_size;
    line.used = std::uint64_t{stats.in_use} * stats.object_size;
    line.total = std::uint64_t{stats.objects} * stats.object_size;
    line.idle = line.total - line.used;
    line.allocations = stats.allocations;
    line.counted = stats.counted;
    line.failures = stats.failures;
    return true;
  }
  static bool look_at(Arena& arena, Line& line) noexcept {
    if (&arena.root() != &base_arena() || arena.has_importers()) return false;
    const ArenaStats stats = arena.stats();
    line.arena = true;
    line.size = arena.quantum();
    line.used = stats.allocated;
    line.total = stats.total;
    line.idle = line.total - line.used;
    line.allocations = stats.allocations_ever;
    line.failures = stats.failures;
    return true;
  }

  Matching<Traceable> sources_;
  std::size_t place_ = 0;
};

/// Finds the lines in the order that was asked for, one a walk. Those that were shown are remembered by their places.
class Sorted {
 public:
  static constexpr std::size_t kMax = 512;

  explicit Sorted(const Query& query) noexcept : query_(query) {}

  /// @param[out] name of the line, copied, as the walk is at its end. @returns false when there is none left.
  bool next(Line& best, char (&name)[kNameBytes]) noexcept {
    Lines lines(query_.pattern);
    Line line;
    bool any = false;
    while (lines.next(line)) {
      if (line.place >= kMax || (shown_[line.place / 64] >> line.place % 64 & 1) != 0) continue;
      if (any && !precedes(line, best, name)) continue;
      best = line;
      line.source->copy_name(name);
      any = true;
    }
    if (any) shown_[best.place / 64] |= std::uint64_t{1} << best.place % 64;
    return any;
  }

 private:
  [[nodiscard]] bool precedes(const Line& line, const Line& best, const char* best_name) const noexcept {
    if (query_.key == Key::kName) return from_c(line.source->name()) < from_c(best_name);
    return line.value(query_.key) > best.value(query_.key);
  }

  const Query& query_;
  std::uint64_t shown_[kMax / 64] = {};
};

/// The widths of the columns: as the sums need, of which no line has more; the names have the rest.
struct Widths {
  static constexpr std::size_t kNames = 30;
  static constexpr std::size_t kLeastNames = 8;
  Unit unit;
  std::size_t size, used, idle, total, allocations, failures, names;

  static constexpr std::size_t most(std::size_t a, std::size_t b) noexcept { return a > b ? a : b; }
  Widths(const Line& sum, std::uint64_t largest_size, bool in_bytes) noexcept
      : unit(in_bytes ? Unit::bytes() : Unit::of(sum.total)),
        size(1 + most(4, Unit::digits(largest_size))),
        used(1 + most(8, unit.columns(sum.used))),
        idle(1 + most(8, unit.columns(sum.idle))),
        total(1 + most(8, unit.columns(sum.total))),
        allocations(1 + most(8, Unit::digits(sum.allocations))),
        failures(1 + most(4, Unit::digits(sum.failures))) {
    const std::size_t figures = size + used + idle + total + 5 + allocations + failures;
    names = figures + kLeastNames > kColumns ? kLeastNames : kColumns - figures;
    if (names > kNames) names = kNames;
  }
};

void send_line(Invocation& call, const Line& line, std::string_view kind, std::string_view name) noexcept {
  ReportRow row(call, kind);
  row.text("name", name);
  if (line.size != 0) row.number("size_bytes", line.size);
  row.number("used_bytes", line.used).number("idle_bytes", line.idle).number("total_bytes", line.total);
  if (line.counted) row.number("allocations", line.allocations);
  row.number("failures", line.failures);
}

void print_line(Invocation& call, const Line& line, std::string_view name, const Widths& widths) noexcept {
  Output& out = call.out();
  if (ReportRow::wanted(call)) {
    const bool is_sum = line.size == 0;
    return send_line(call, line, is_sum ? "sum" : line.arena ? "arena" : "cache", name);
  }
  print_name(out, name, widths.names);
  if (line.size == 0) {
    out.repeat(' ', widths.size);
  } else {
    Unit::bytes().print(out, line.size, widths.size);
  }
  widths.unit.print(out, line.used, widths.used);
  widths.unit.print(out, line.idle, widths.idle);
  widths.unit.print(out, line.total, widths.total);
  out.print(" {:3}%", line.total == 0 ? 0 : line.used * 100 / line.total);
  if (line.counted) {
    Unit::bytes().print(out, line.allocations, widths.allocations);
  } else {
    out.repeat(' ', widths.allocations - 1);
    out.put('-');
  }
  Unit::bytes().print(out, line.failures, widths.failures);
  out.put('\n');
}

void print_right(Output& out, std::string_view text, std::size_t width) noexcept {
  out.repeat(' ', width - text.size());
  out.text(text);
}

void print_header(Output& out, const Widths& widths) noexcept {
  out.text(widths.unit.name());
  out.repeat(' ', widths.names - widths.unit.name().size());
  print_right(out, "size", widths.size);
  print_right(out, "in use", widths.used);
  print_right(out, "idle", widths.idle);
  print_right(out, "total", widths.total);
  print_right(out, "used", 5);
  print_right(out, "allocs", widths.allocations);
  print_right(out, "fail", widths.failures);
  out.put('\n');
}

CommandStatus show_lines(Invocation& call, const Query& query) noexcept {
  Line sum;
  std::uint64_t largest_size = 0;
  std::size_t all = 0;
  bool past_order = false;
  bool aborted = false;
  {
    Lines lines(query.pattern);
    Line line;
    while (!aborted && lines.next(line)) {
      sum.add(line);
      if (line.size > largest_size) largest_size = line.size;
      ++all;
      past_order = past_order || line.place >= Sorted::kMax;
      aborted = !call.yield();
    }
  }
  const Widths widths(sum, largest_size, query.in_bytes);
  if (!ReportRow::wanted(call)) print_header(call.out(), widths);
  Lines as_made(query.pattern);
  Sorted sorted(query);
  Line line;
  char name[kNameBytes];
  std::size_t shown = 0;
  while (!aborted && shown < query.top) {
    const bool any = query.key == Key::kNone ? as_made.next(line) : sorted.next(line, name);
    if (!any) break;
    if (query.key == Key::kNone) line.source->copy_name(name);
    print_line(call, line, from_c(name), widths);
    ++shown;
    aborted = !call.yield();
  }
  if (!aborted) print_line(call, sum, "total", widths);
  const bool missing = past_order && query.key != Key::kNone;
  call.print("shown {} of {}: {}\n", shown, all, closing_word(aborted, !missing));
  return closing_status(aborted);
}

/// Reads `[-v|-b] [PATTERN] [sort KEY] [top N]`. @returns kOk, or what the command answers.
CommandStatus read(Invocation& call, Query& query) noexcept {
  const Words& words = call.words();
  for (std::size_t at = 1; at < words.size(); ++at) {
    if (words[at] == "-v" && at == 1 && words.size() == 2) {
      query.as_tree = true;
    } else if (words[at] == "-b" && !query.in_bytes) {
      query.in_bytes = true;
    } else if (words[at] == "sort" && at + 1 < words.size()) {
      ++at;
      query.key = Key::kNone;
      for (const KeyName& one : kKeys) {
        if (words[at] == one.word) query.key = one.key;
      }
      if (query.key == Key::kNone) return call.usage();
    } else if (words[at] == "top" && at + 1 < words.size()) {
      ++at;
      std::uint64_t top = 0;
      const Number number = parse_number(words[at], SIZE_MAX, top);
      if (number != Number::kOk) return call.fail_number(words[at], number);
      query.top = static_cast<std::size_t>(top);
    } else if (query.pattern.empty() && words[at][0] != '-' && words[at] != "sort" && words[at] != "top") {
      query.pattern = words[at];
    } else {
      return call.usage();
    }
  }
  if (!query.pattern.empty() && !names_any<Traceable>(query.pattern))
    return call.fail("No such slab {}", query.pattern);
  return call.ok();
}

CommandStatus run_kmemstat(Invocation& call) noexcept {
  Query query;
  const CommandStatus status = read(call, query);
  if (status != CommandStatus::kOk) return status;
  return query.as_tree ? show_tree(call) : show_lines(call, query);
}

void complete_kmemstat(Completion& completion) noexcept {
  const std::string_view before = completion.words()[completion.index() - 1];
  if (before == "sort") {
    for (const KeyName& one : kKeys) completion.offer(one.word);
    return;
  }
  if (before == "top") return;
  for (const std::string_view word : {"-b", "sort", "top"}) completion.offer(word);
  if (completion.index() != 1) return;
  completion.offer("-v");
  offer_caches(completion);
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

struct Amount {
  std::string_view line;  ///< what Akaros calls it
  std::string_view column;
  std::string_view field;  ///< in a row
  std::uint64_t bytes;
};

/// A line of names and one of amounts.
void print_amounts(Output& out, std::span<const Amount> amounts, Unit unit) noexcept {
  constexpr std::size_t kWidth = 12;
  out.print("{:<5}", unit.name());
  for (const Amount& one : amounts) print_right(out, one.column, kWidth);
  out.text("\n     ");
  for (const Amount& one : amounts) unit.print(out, one.bytes, kWidth);
  out.put('\n');
}

CommandStatus run_free(Invocation& call) noexcept {
  const std::string_view word = call.words()[1];
  if (!word.empty() && word != "-v" && word != "-b") return call.usage();
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
    const Amount amounts[] = {{"Total Memory", "total", "total_bytes", base.total},
                              {"Used Memory", "used", "used_bytes", base.allocated},
                              {"Free Memory", "free", "free_bytes", base.free},
                              {"Idle Memory", "idle", "idle_bytes", idle},
                              {"Least Free", "least free", "least_free_bytes", base.total - base.high_water},
                              {"Largest Free", "largest", "largest_free_bytes", base.largest_free}};
    if (ReportRow::wanted(call)) {
      ReportRow row(call, "memory");
      for (const Amount& one : amounts) row.number(one.field, one.bytes);
    } else if (word == "-v") {
      for (const Amount& one : amounts) call.print("{:<13}: {:15}\n", one.line, one.bytes);
    } else {
      print_amounts(call.out(), amounts, word == "-b" ? Unit::bytes() : Unit::of(base.total));
    }
  }
  call.print("caches {}, arenas {}: {}\n", caches, arenas, closing_word(aborted));
  return closing_status(aborted);
}

void complete_free(Completion& completion) noexcept {
  if (completion.index() != 1) return;
  for (const std::string_view word : {"-b", "-v"}) completion.offer(word);
}

}  // namespace

constinit const Command kmemstat = {
    .name = "kmemstat",
    .usage = "kmemstat [-b] [PATTERN] [sort KEY] [top N]",
    .summary = "a line a cache: what users hold, what is idle, allocations, failures",
    .run = run_kmemstat,
    .max_arguments = 6,
    .complete = complete_kmemstat,
    .forms =
        "kmemstat [-b] [PATTERN] [sort KEY] [top N]  KEY is name, size, used, idle, total, allocs or failures; -b: "
        "bytes\n"
        "kmemstat -v  all arenas and caches as a tree, in bytes, in the columns of Akaros",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

constinit const Command free_memory = {.name = "free",
                                       .usage = "free [-v|-b]",
                                       .summary = "memory in total: used, free, idle, least ever free, largest piece",
                                       .run = run_free,
                                       .max_arguments = 1,
                                       .complete = complete_free,
                                       .forms = "free -v  a line an amount, in bytes; free -b  as free, in bytes",
                                       .in_panic = true,
                                       .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
