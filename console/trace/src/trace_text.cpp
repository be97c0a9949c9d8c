#include "trace_text.hpp"

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>

namespace qm::console {
namespace {

/// Frames of a stack that is printed on one line.
constexpr unsigned kLineFrames = 8;

void print_frame(Console& console, Output& out, unsigned number, std::uintptr_t pc) noexcept {
  // A return address lies behind its call, perhaps in the next function already.
  Symbol symbol;
  const bool known = console.resolve(pc - 1, symbol);
  out.whole_line();
  out.print("#{:02} [<{}>] in {}\n", number, Address{pc}, known ? symbol.name : std::string_view("(null)"));
}

/// The frames of the row before, a row each.
void send_frames(Console& console, Output& out, const std::uintptr_t* pcs, unsigned depth) noexcept {
  for (unsigned at = 0; at < depth; ++at) {
    ReportRow row(console, out, "frame");
    row.address("address", pcs[at]);
    Symbol symbol;
    if (!console.resolve(pcs[at] - 1, symbol)) continue;
    row.text("function", symbol.name).number("offset", symbol.offset + 1);
  }
}

enum class Size : std::uint8_t { kLeftOut, kShown };

/// `rx_deliver+0x12`, or `rx_deliver+0x12/0x60` with the function's size, where the image says it.
void print_symbol(Console& console, Output& out, std::uintptr_t pc, Size size = Size::kLeftOut) noexcept {
  Symbol symbol;
  if (!console.resolve(pc - 1, symbol)) {
    out.print("{}", Address{pc});
    return;
  }
  out.print("{}+0x{:x}", symbol.name, symbol.offset + 1);
  if (size == Size::kShown && symbol.size != 0) out.print("/0x{:x}", symbol.size);
}

}  // namespace

CommandStatus check_name(Invocation& call, std::string_view pattern) noexcept {
  bool found = false;
  bool no_trace = false;
  Matching<Traceable> sources(pattern);
  while (const Traceable* source = sources.next()) {
    found = true;
    no_trace = no_trace || !source->traceable();
  }
  if (!found) return call.fail("No such slab {}", pattern);
  if (!names_many(pattern) && no_trace) return call.fail("Unable to trace slab {}", pattern);
  return call.ok();
}

unsigned note_skipped(Invocation& call, std::string_view pattern) noexcept {
  unsigned no_trace = 0;
  unsigned untraced = 0;
  unsigned traced = 0;
  Matching<Traceable> sources(pattern);
  while (Traceable* source = sources.next()) {
    if (!source->traceable()) ++no_trace;
    else if (!trace::cache_trace(*source).known) ++untraced;
    else ++traced;
  }
  call.print("note: skipped {} no-trace caches, {} that were never traced\n", no_trace, untraced);
  return traced;
}

void print_seconds(Output& out, std::uint64_t ticks) noexcept {
  const std::uint64_t milliseconds = ticks / (hal::Port::tick_rate() / 1000);
  out.print("{}.{:03} s", milliseconds / 1000, milliseconds % 1000);
}

void print_record(Console& console, Output& out, const trace::DumpEntry& entry, Detail detail) noexcept {
  if (ReportRow::wanted(console, out)) {
    ReportRow(console, out, "object")
        .address("address", entry.object)
        .number("size_bytes", entry.requested)
        .number("hart", entry.hart)
        .text("context", entry.context)
        .number("age_ms", entry.age_ticks / (hal::Port::tick_rate() / 1000))
        .number("sequence", entry.sequence)
        .number("stack", entry.stack_id)
        .number("truncated", entry.truncated ? 1 : 0);
    return send_frames(console, out, entry.pcs, entry.depth);
  }
  out.whole_line();
  out.print("Obj {}, from hart {} {}:", Address{entry.object}, entry.hart, entry.context);
  if (detail == Detail::kVerbose) {
    out.print(" size {}, age ", entry.requested);
    print_seconds(out, entry.age_ticks);
    out.print(", seq {}", entry.sequence);
  }
  out.print("\n----\n");
  for (unsigned at = 0; at < entry.depth; ++at) print_frame(console, out, at + 1, entry.pcs[at]);
  if (entry.truncated) out.print("#{:02} [<...>] in ... (truncated)\n", entry.depth + 1);
  out.print("\n");
}

bool Forecast::wanted(std::uint64_t records) const noexcept {
  return call_.console().config().baud != 0 && records > kSample;
}

bool Forecast::add(const trace::DumpEntry& entry, Detail detail) noexcept {
  char buffer[64];
  const auto count = [](void* characters, std::string_view bytes) noexcept {
    *static_cast<std::uint64_t*>(characters) += bytes.size();
  };
  Output out(buffer, Output::Target::kTerminal, count, &characters_);
  print_record(call_.console(), out, entry, detail);
  out.flush();
  return ++sampled_ < kSample;
}

void Forecast::print(std::uint64_t records, std::string_view how) noexcept {
  constexpr std::uint64_t kBitsPerCharacter = 10;
  const std::uint32_t baud = call_.console().config().baud;
  if (sampled_ == 0) return;
  const std::uint64_t characters = records * characters_ / sampled_;
  const std::uint64_t ms = characters * kBitsPerCharacter * 1000 / baud;
  if (ms <= kPatienceMs) return;
  call_.print("note: {}, {} {} s at {} baud; by stack is shorter\n", Counted{records, "object/objects"}, how,
              (ms + 999) / 1000, baud);
}

CommandStatus read_older(Invocation& call, std::string_view text, std::uint64_t& before) noexcept {
  static trace::Dump dump;  // 2 KiB; one command runs at a time
  static trace::DumpEntry entry;
  constexpr std::uint64_t kLimitMs = std::uint64_t{24} * 24 * 3'600'000;  // ages wrap after that
  std::uint64_t ms = 0;
  const Number read = parse_duration(text, kLimitMs, ms);
  if (read != Number::kOk) return call.fail("{} is no time: 500ms, 5s, 3m, 1h", text);
  before = 0;
  dump.begin_all();
  while (dump.next(entry) && entry.age_ticks / (hal::Port::tick_rate() / 1000) >= ms) before = entry.sequence + 1;
  (void)dump.finish();
  return call.ok();
}

namespace {

void print_stack_rows(Console& console, Output& out, const trace::StackRow& row, std::string_view sign) noexcept {
  if (ReportRow::wanted(console, out)) {
    ReportRow(console, out, "stack")
        .number("stack", row.id)
        .change("objects", static_cast<std::int32_t>(row.objects))
        .number("bytes", row.bytes)
        .number("truncated", row.stack.truncated ? 1 : 0);
    return send_frames(console, out, row.stack.pcs, row.stack.depth);
  }
  for (unsigned at = 0; at < row.stack.depth; ++at) {
    out.whole_line();
    out.put(' ');
    print_symbol(console, out, row.stack.pcs[at], Size::kShown);
    out.put('\n');
  }
  if (row.stack.truncated) out.text(" ... (truncated)\n");
  const auto objects = static_cast<std::int32_t>(row.objects);
  out.print("stack_count: {}{}\nstack_bytes: {}{}\nstack_id: 0x{:08x}{}\n", objects < 0 ? "" : sign, objects, sign,
            row.bytes, row.id, row.collided ? " (collided)" : "");
}

/// `0-2, 5`
void print_harts(Output& out, hal::HartMask harts) noexcept {
  const char* separator = "";
  for (unsigned first = 0; harts >> first != 0; ++first) {
    if ((harts >> first & 1) == 0) continue;
    unsigned last = first;
    while (last + 1 < hal::Port::kMaxHarts && (harts >> (last + 1) & 1) != 0) ++last;
    out.print("{}{}", separator, first);
    if (last != first) out.print("-{}", last);
    separator = ", ";
    if (last + 1 == hal::Port::kMaxHarts) break;
    first = last;
  }
}

/// The first ones, and how many more.
void print_contexts(Output& out, const trace::StackDetails& details) noexcept {
  constexpr unsigned kShown = 8;
  unsigned count = 0;
  for (std::uint32_t id = 0; id < 1U << trace::kContextIdBits; ++id) {
    if (!details.has_context(id) || ++count > kShown) continue;
    out.print("{}{}", count == 1 ? "" : ", ", id != 0 ? trace::context_label(id) : "not known");
  }
  if (count > kShown) out.print(", {} more", count - kShown);
}

}  // namespace

void print_stack(Console& console, Output& out, const trace::StackRow& row, std::string_view sign) noexcept {
  print_stack_rows(console, out, row, sign);
  out.text("\n");
}

void print_stack_closely(Console& console, Output& out, const trace::StackRow& row,
                         const trace::StackDetails& details) noexcept {
  print_stack_rows(console, out, row, {});
  if (details.records != 0) {
    out.print("stack_held: {}\nstack_age: oldest ", details.held_bytes);
    print_seconds(out, details.oldest_ticks);
    out.text(", mean ");
    print_seconds(out, details.mean_ticks);
    out.text("\nstack_harts: ");
    print_harts(out, details.harts);
    out.text("\nstack_contexts: ");
    print_contexts(out, details);
    out.text("\n");
  }
  out.text("\n");
}

void print_stack_notes(Invocation& call, const trace::StackTotals& totals) noexcept {
  if (totals.lost_objects != 0) {
    call.print("note: {}, {} bytes without a stack: the stack depot is full\n",
               Counted{totals.lost_objects, "object/objects"}, totals.lost_bytes);
  }
  if (totals.sampled != 0)
    call.print("note: {} are estimates\n",
               Counted{totals.sampled, "cache is sampled: its figures/caches are sampled: theirs"});
  if (totals.counting != 0)
    call.print("note: {} counts only: bytes are of whole objects\n",
               Counted{totals.counting, "cache keeps/caches keep"});
  if (totals.truncated != 0) call.print("note: {} truncated\n", Counted{totals.truncated, "stack is/stacks are"});
  if (totals.collided != 0)
    call.print("note: {} is another stack's\n",
               Counted{totals.collided, "stack has another id, as its own/stacks have another id, as theirs"});
}

void print_stack_line(Console& console, Output& out, const trace::CallStack& stack) noexcept {
  const unsigned shown = stack.depth < kLineFrames ? stack.depth : kLineFrames;
  for (unsigned at = 0; at < shown; ++at) {
    if (at != 0) out.text(" < ");
    print_symbol(console, out, stack.pcs[at]);
  }
  if (shown < stack.depth || stack.truncated) out.text(" < ...");
}

}  // namespace qm::console
