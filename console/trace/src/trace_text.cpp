#include "trace_text.hpp"

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>

namespace qm::console {
namespace {

/// The largest number of frames of a stack that is printed on one line.
constexpr unsigned kLineFrames = 8;

void print_frame(Console& console, Output& out, unsigned number, std::uintptr_t pc) noexcept {
  // A return address follows its call and may already belong to the next function.
  Symbol symbol;
  const bool known = console.resolve(pc - 1, symbol);
  out.whole_line();
  Row row(out, "frame");
  row.print("#{:02} [<{address}>] in ", number, Address{pc});
  known ? row.print("{function}\n", symbol.name).number("offset", symbol.offset + 1) : row.print("(null)\n");
}

/// `rx_deliver+0x12`
void print_symbol(Console& console, Output& out, std::uintptr_t pc) noexcept {
  Symbol symbol;
  if (!console.resolve(pc - 1, symbol)) return out.print("{}", Address{pc});
  out.print("{}+0x{:x}", symbol.name, symbol.offset + 1);
}

/// ` rx_deliver+0x12/0x60`, with the function's size if the image has it.
void print_sized_symbol(Console& console, Output& out, std::uintptr_t pc) noexcept {
  out.whole_line();
  Row row(out, "frame");
  Symbol symbol;
  if (console.resolve(pc - 1, symbol)) {
    row.address("address", pc).print(" {function}+0x{offset:x}", symbol.name, symbol.offset + 1);
    if (symbol.size != 0) row.print("/0x{function_bytes:x}", symbol.size);
  } else {
    row.print(" {address}", Address{pc});
  }
  row.print("\n");
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
  call.note("skipped {} no-trace caches, {} that were never traced\n", no_trace, untraced);
  return traced;
}

Milliseconds duration(std::uint64_t ticks) noexcept { return {ticks / (hal::Port::tick_rate() / 1000)}; }

void print_record(Console& console, Output& out, const trace::DumpEntry& entry, Detail detail) noexcept {
  {
    out.whole_line();
    Row row(out, "object");
    row.print("Obj {address}, from hart {hart} {context}:", Address{entry.object}, entry.hart, entry.context);
    if (detail == Detail::kVerbose || out.rows())
      row.print(" size {size_bytes}, age {age_ms}, seq {sequence}", entry.requested, duration(entry.age_ticks),
                entry.sequence);
    row.number("stack", entry.stack_id).number("truncated", entry.truncated ? 1 : 0).print("\n----\n");
  }
  for (unsigned at = 0; at < entry.depth; ++at) print_frame(console, out, at + 1, entry.pcs[at]);
  if (out.rows()) return;
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
  call_.note("{}, {} {} s at {} baud; by stack is shorter\n", Counted{records, "object/objects"}, how,
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

/// Prints the first contexts, and the number of the others.
void print_contexts(Output& out, const trace::StackDetails& details) noexcept {
  constexpr unsigned kShown = 8;
  unsigned count = 0;
  for (std::uint32_t id = 0; id < 1U << trace::kContextIdBits; ++id) {
    if (!details.has_context(id) || ++count > kShown) continue;
    Row(out, "context").print("{}{context}", count == 1 ? "" : ", ", id != 0 ? trace::context_label(id) : "not known");
  }
  if (count > kShown && !out.rows()) out.print(", {} more", count - kShown);
}

/// Prints the figures of a stack, and the details in @p closely if it is not null. People see them after the frames.
void print_stack_figures(Output& out, const trace::StackRow& stack, std::string_view sign,
                         const trace::StackDetails* closely) noexcept {
  {
    Row row(out, "stack");
    const auto objects = static_cast<std::int32_t>(stack.objects);
    row.print("stack_count: {}{objects}\nstack_bytes: {}{bytes}\nstack_id: 0x{stack:08x}{}\n", objects < 0 ? "" : sign,
              objects, sign, stack.bytes, stack.id, stack.collided ? " (collided)" : "");
    row.number("truncated", stack.stack.truncated ? 1 : 0);
    if (closely == nullptr || closely->records == 0) return;
    row.print("stack_held: {held_bytes}\nstack_age: oldest {oldest_ms}, mean {mean_ms}\n", closely->held_bytes,
              duration(closely->oldest_ticks), duration(closely->mean_ticks));
    row.number("harts", closely->harts);
  }
  if (!out.rows()) {
    out.text("stack_harts: ");
    print_harts(out, closely->harts);
    out.text("\nstack_contexts: ");
  }
  print_contexts(out, *closely);
  if (!out.rows()) out.text("\n");
}

}  // namespace

void print_stack(Console& console, Output& out, const trace::StackRow& row, std::string_view sign,
                 const trace::StackDetails* closely) noexcept {
  if (out.rows()) print_stack_figures(out, row, sign, closely);
  for (unsigned at = 0; at < row.stack.depth; ++at) print_sized_symbol(console, out, row.stack.pcs[at]);
  if (out.rows()) return;
  if (row.stack.truncated) out.text(" ... (truncated)\n");
  print_stack_figures(out, row, sign, closely);
  out.text("\n");
}

void print_sample_note(Invocation& call, const trace::StackTotals& totals) noexcept {
  if (totals.sampled == 0) return;
  call.note("{} are estimates\n", Counted{totals.sampled, "cache is sampled: its figures/caches are sampled: theirs"});
}

void print_stack_notes(Invocation& call, const trace::StackTotals& totals) noexcept {
  if (totals.lost_objects != 0) {
    call.note("{}, {} bytes without a stack: the stack depot is full\n", Counted{totals.lost_objects, "object/objects"},
              totals.lost_bytes);
  }
  print_sample_note(call, totals);
  if (totals.counting != 0)
    call.note("{} counts only: bytes are of whole objects\n", Counted{totals.counting, "cache keeps/caches keep"});
  if (totals.truncated != 0) call.note("{} truncated\n", Counted{totals.truncated, "stack is/stacks are"});
  if (totals.collided != 0)
    call.note("{} is another stack's\n",
              Counted{totals.collided, "stack has another id, as its own/stacks have another id, as theirs"});
}

void print_stack_line(Console& console, Output& out, const trace::CallStack& stack) noexcept {
  const unsigned shown = stack.depth < kLineFrames ? stack.depth : kLineFrames;
  if (shown == 0) return out.text("frames that could not be walked");
  for (unsigned at = 0; at < shown; ++at) {
    if (at != 0) out.text(" < ");
    print_symbol(console, out, stack.pcs[at]);
  }
  if (shown < stack.depth || stack.truncated) out.text(" < ...");
}

}  // namespace qm::console
