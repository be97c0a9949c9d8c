/// kmemstat: one line for each cache and arena.

#include "commands.hpp"

#include <qm/console/amount.hpp>
#include <qm/console/names.hpp>
#include <qm/console/query.hpp>
#include <qm/console/row.hpp>
#include <qm/system.hpp>

namespace qm::console::commands {
namespace {

enum class Key : std::uint8_t { kNone, kName, kSize, kUsed, kIdle, kTotal, kAllocations, kFailures };

struct KeyName {
  std::string_view word;
  Key key;
};
constexpr KeyName kKeys[] = {{"name", Key::kName},        {"size", Key::kSize},   {"used", Key::kUsed},
                             {"idle", Key::kIdle},        {"total", Key::kTotal}, {"allocs", Key::kAllocations},
                             {"failures", Key::kFailures}};

/// A cache, or an arena that only users allocate from.
struct Line {
  Traceable* source = nullptr;  ///< valid until the walk continues
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

/// Walks over the caches and arenas that have a line. Each byte that users hold is counted in exactly one line. The
/// objects of quantum caches count at their arena. Memory that caches and arenas import counts at the importers.
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

/// Finds the lines in sorted order, with one walk for each line. A bitmap marks the places of lines already shown.
class Sorted {
 public:
  static constexpr std::size_t kMax = 512;

  Sorted(std::string_view pattern, Key key) noexcept : pattern_(pattern), key_(key) {}

  /// @param[out] name a copy of the line's name: `source` is no longer valid when the walk has ended.
  /// @returns false if no line is left.
  bool next(Line& best, char (&name)[kNameBytes]) noexcept {
    Lines lines(pattern_);
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
    if (key_ == Key::kName) return from_c(line.source->name()) < from_c(best_name);
    return line.value(key_) > best.value(key_);
  }

  std::string_view pattern_;
  Key key_;
  std::uint64_t shown_[kMax / 64] = {};
};

/// The widths of the columns. Columns of numbers are as wide as their sums, which are the largest numbers. Names have
/// the remaining columns.
struct Widths {
  static constexpr std::size_t kNames = 30;
  static constexpr std::size_t kLeastNames = 8;
  Unit unit;
  std::size_t size, used, idle, total, allocations, failures, names;

  static constexpr std::size_t most(std::size_t a, std::size_t b) noexcept { return a > b ? a : b; }
  Widths(const Line& sum, std::uint64_t largest_size, bool in_bytes) noexcept
      : unit(in_bytes ? Unit::bytes() : Unit::of(sum.total)),
        size(1 + most(6, Unit::digits(largest_size))),
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
  Row row(call, kind);
  row.text("name", name);
  if (line.size != 0) row.number("size_bytes", line.size);
  row.number("used_bytes", line.used).number("idle_bytes", line.idle).number("total_bytes", line.total);
  if (line.counted) row.number("allocations", line.allocations);
  row.number("failures", line.failures);
}

void print_line(Invocation& call, const Line& line, std::string_view name, const Widths& widths) noexcept {
  Output& out = call.out();
  if (call.rows()) {
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

void print_header(Output& out, const Widths& widths) noexcept {
  out.text(widths.unit.name());
  out.repeat(' ', widths.names - widths.unit.name().size());
  print_right(out, "size/B", widths.size);  // always in bytes
  print_right(out, "in use", widths.used);
  print_right(out, "idle", widths.idle);
  print_right(out, "total", widths.total);
  print_right(out, "used", 5);
  print_right(out, "allocs", widths.allocations);
  print_right(out, "fail", widths.failures);
  out.put('\n');
}

CommandStatus show_lines(Invocation& call, const Query& query, Key key) noexcept {
  Line sum;
  std::uint64_t largest_size = 0;
  std::size_t all = 0;
  bool past_order = false;
  bool aborted = false;
  {
    Lines lines(query.pattern());
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
  if (!call.rows()) print_header(call.out(), widths);
  Lines as_made(query.pattern());
  Sorted sorted(query.pattern(), key);
  Line line;
  char name[kNameBytes];
  std::size_t shown = 0;
  while (!aborted && shown < query.top) {
    const bool any = key == Key::kNone ? as_made.next(line) : sorted.next(line, name);
    if (!any) break;
    if (key == Key::kNone) line.source->copy_name(name);
    print_line(call, line, from_c(name), widths);
    ++shown;
    aborted = !call.yield();
  }
  if (!aborted) print_line(call, sum, "total", widths);
  const bool missing = past_order && key != Key::kNone;
  call.row("end", "shown {shown} of {all}: {verdict}\n", shown, all, closing_word(aborted, !missing));
  return closing_status(aborted);
}

constexpr unsigned kKmemstatTakes = Takes::kInBytes | Takes::kPattern | Takes::kSort | Takes::kTop;

CommandStatus run_kmemstat(Invocation& call) noexcept {
  if (call.words()[1] == "-v") return call.arguments() == 1 ? show_tree(call) : call.usage();
  Query query;
  const CommandStatus status = read_query(call, 1, kKmemstatTakes, query);
  if (status != CommandStatus::kOk) return status;
  Key key = Key::kNone;
  for (const KeyName& one : kKeys) {
    if (query.sort == one.word) key = one.key;
  }
  if (!query.sort.empty() && key == Key::kNone) return call.usage();
  if (!query.pattern().empty() && !names_any<Traceable>(query.pattern()))
    return call.fail("No such slab {}", query.pattern());
  return show_lines(call, query, key);
}

void complete_kmemstat(Completion& completion) noexcept {
  if (completion.index() > 1 && completion.words()[completion.index() - 1] == "sort") {
    for (const KeyName& one : kKeys) completion.offer(one.word);
  } else if (complete_query(completion, 1, kKmemstatTakes)) {
    if (completion.index() == 1) completion.offer("-v");
    offer_caches(completion);
  }
}

}  // namespace

constinit const Command kmemstat = {
    .name = "kmemstat",
    .usage = "kmemstat [-b] [PATTERN] [sort KEY] [top N]",
    .summary = "a line a cache: bytes in use and idle, allocations, failures",
    .run = run_kmemstat,
    .max_arguments = 6,
    .complete = complete_kmemstat,
    .forms =
        "kmemstat [-b] [PATTERN] [sort KEY] [top N]  KEY is name, size, used, idle, total, allocs or failures; -b: "
        "bytes\n"
        "kmemstat -v  all arenas and caches as a tree, in bytes, in the columns of Akaros",
    .example = "kmemstat kmem_* sort used top 5\nkmemstat -b packet\nkmemstat -v",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
