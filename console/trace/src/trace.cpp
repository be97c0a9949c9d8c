#include <qm/console/trace.hpp>

#include "trace_commands.hpp"
#include "trace_text.hpp"

#include <qm/console/announcement.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>

namespace qm::console {
namespace {

/// These entries lie in this file so that an image links them iff it makes a Trace.
[[gnu::section("qm_commands"), gnu::used]] constinit const Command* const trace_commands[] = {
    &commands::kmemtrace, &commands::slab_trace, &commands::slab_stacks, &commands::mark,   &commands::marks,
    &commands::leaks,     &commands::expect,     &commands::growth,      &commands::status, &commands::kmausers,
};

/// Whether users hold the memory allocated from @p source. Memory that caches and arenas import counts at the
/// importers.
bool has_users(Traceable& source) noexcept {
  if (source.kind() == RegistryKind::kArena) return !static_cast<Arena&>(source).has_importers();
  return (static_cast<Cache&>(source).flags() & cache_flags::kQuantumCache) == 0;
}

}  // namespace

Trace::Trace(Console& console) noexcept
    : console_(console), stream_(&Trace::send_frame, &console, console.config().build_id) {
  console.use(*this);
}

void Trace::send_frame(void* console, wire::FrameType type, std::span<const std::uint8_t> payload) noexcept {
  static_cast<Console*>(console)->send_frame(type, 0, payload);
}

bool Trace::waiting() const noexcept { return trace::is_stopping() || stream_.busy(); }

bool Trace::finish(std::uint64_t now_ms) noexcept {
  if (!trace::is_stopping() || now_ms - stop_tried_ms_ < kStopRetryMs) return false;
  const trace::CommandResult result = trace::finish_stopping(kStopPatienceMs);
  stop_tried_ms_ = now_ms + kStopPatienceMs;
  if (result.status != Status::kOk || result.caches == 0) return false;
  Announcement(console_).out().print("slab_trace: the stop of {} is done\n", Counted{result.caches, "cache/caches"});
  return true;
}

// ---- reports of exhaustion ------------------------------------------------------------------------------------------

void Trace::find_holders(Holders& holders) noexcept {
  trace::StackReport report;
  holders.status = hal::may_wait() ? report.begin() : Status::kUnsafe;
  if (holders.status != Status::kOk) return;
  RegistryCursor<Traceable> sources;
  while (Traceable* source = sources.next()) {
    if (has_users(*source)) report.select(*source);
  }
  report.count_live(1);
  const trace::StackTotals& totals = report.totals();
  holders.all = totals.stacks;
  holders.objects = totals.objects;
  holders.bytes = totals.bytes;
  holders.dropped = totals.dropped;
  holders.whole = totals.complete();
  trace::StackRow row;
  while (holders.count < Holders::kStacks && report.next(row))
    holders.stacks[holders.count++] = {row.handle, row.objects, row.bytes};
}

void Trace::print_stacks(Output& out, const Holders& holders) noexcept {
  trace::CallStack stack;
  std::uint32_t id = 0;
  for (unsigned at = 0; at < holders.count; ++at) {
    const Holders::Stack& then = holders.stacks[at];
    if (!trace::stack_of(then.handle, stack, id)) continue;
    out.hang(4);
    out.print("  stack 0x{:08x}: bytes {}, objects {}: ", id, then.bytes, then.objects);
    print_stack_line(console_, out, stack);
    out.put('\n');
  }
}

void Trace::print_totals(Output& out, const Holders& holders, bool whole) noexcept {
  if (holders.status == Status::kBusy) out.text("  note: no stacks, as another report on stacks had not ended\n");
  if (holders.status == Status::kUnsafe) out.text("  note: no stacks, as there was no time to count them\n");
  const trace::Totals all = trace::totals();
  out.hang(4);
  out.print("  stacks {} of {}, objects {}, bytes {}, dropped {}, not traced {} of {} caches: {}\n", holders.count,
            holders.all, holders.objects, holders.bytes, holders.dropped, all.caches - all.traced, all.caches,
            closing_word(false, whole && holders.whole));
}

// ---- the record of an object ----------------------------------------------------------------------------------------

void Trace::print_deed(Output& out, std::string_view what, std::uint32_t handle) noexcept {
  trace::CallStack stack;
  std::uint32_t id = 0;
  if (!trace::stack_of(handle, stack, id)) return;
  if (out.rows()) {
    Row(out, "deed").text("what", what).number("stack", id);
    for (unsigned at = 0; at < stack.depth; ++at) Row(out, "frame").address("address", stack.pcs[at]);
    return;
  }
  out.hang(4);
  out.print("  {} ", what);
  print_stack_line(console_, out, stack);
  out.print(", stack 0x{:08x}\n", id);
}

void Trace::print_record(Output& out, Cache& cache, void* object) noexcept {
  static trace::DumpEntry entry;  // one command runs at a time
  if (trace::find(cache, object, entry)) console::print_record(console_, out, entry, Detail::kVerbose);
}

void Trace::print_record(Output& out, Arena& arena, std::uintptr_t start) noexcept {
  static trace::DumpEntry entry;  // one command runs at a time
  if (trace::find(arena, start, entry)) console::print_record(console_, out, entry, Detail::kVerbose);
}

}  // namespace qm::console
