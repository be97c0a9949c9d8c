/// findleaks: finds objects to which no pointer leads.

#include <qm/console/findleaks.hpp>

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/console/site_text.hpp>
#include <qm/hal/port.hpp>
#include <qm/scan.hpp>

namespace qm::console {
namespace {

void print_examples(Invocation& call, const std::uintptr_t (&examples)[LeakGroup::kExamples]) noexcept {
  for (const std::uintptr_t example : examples) {
    if (example != 0) call.row("example", "  {address}\n", Address{example});
  }
}

void print_group(Invocation& call, const LeakGroup& group) noexcept {
  {
    Row row(call, "leak");
    if (group.owner == nullptr) {
      row.print("{others}: ", "others");
    } else if (group.owner->kind() == RegistryKind::kCache) {
      row.print("cache {cache}, {size_bytes} bytes: ", from_c(group.owner->name()), group.object_size);
    } else {
      row.print("arena {arena}, {size_bytes} bytes: ", from_c(group.owner->name()), group.object_size);
    }
    row.print("heads {heads}, bytes {head_bytes}; under them {under}, bytes {under_bytes}\n", group.heads,
              group.head_bytes, group.under, group.under_bytes);
  }
  if constexpr (kCallSites) {
    if (group.site != nullptr && group.site != &qm_untagged_site) {
      call.out().whole_line();
      Row row(call, "taken_at");
      row.print("  taken at ");
      print_site(row, *group.site);
      row.print("\n");
    }
  }
  if (group.stack != 0) call.console().trace().print_deed(call.out(), "allocated by", group.stack);
  print_examples(call, group.examples);
}

/// Converts @p ticks to microseconds. Avoids a 64-bit division on RV32 where possible: the ticks of a pause fit a word.
std::uint32_t microseconds(std::uint64_t ticks) noexcept {
  const auto per_ms = static_cast<std::uint32_t>(static_cast<std::uint32_t>(hal::Port::tick_rate()) / 1000);
  const std::uint64_t most = UINT32_MAX / 1000;
  if (ticks <= most) return static_cast<std::uint32_t>(ticks) * 1000 / per_ms;
  const std::uint64_t left = ticks <= UINT32_MAX ? ticks : UINT32_MAX;
  return static_cast<std::uint32_t>(left) / per_ms * 1000;
}

CommandStatus tell_failure(Invocation& call, Status status, const LeakSummary& summary) noexcept {
  switch (status) {
    case Status::kBusy: return call.fail("another leak scan is under way");
    case Status::kRefused: return call.fail("the firmware names no roots for a leak scan");
    case Status::kMismatch: return call.fail("{} is damaged: no leaks are reported", from_c(summary.damaged));
    case Status::kInvalid: return call.fail("root {} is no memory", from_c(summary.damaged));
    case Status::kAborted: return call.fail("slabs come and go too fast for a sliced scan");
    case Status::kTimedOut:
      if (summary.hart != hal::BroadcastResult::kNobody) return call.fail("hart {} has not answered", summary.hart);
      break;
    case Status::kUnsafe:
      if (hal::in_panic()) return call.fail("hart {} may be inside the allocator", summary.hart);
      break;
    default: break;
  }
  return call.fail("the harts could not be stopped");
}

/// Whether a sliced scan goes on.
bool go_on(void* argument) noexcept { return static_cast<Invocation*>(argument)->yield(); }

CommandStatus run_findleaks(Invocation& call) noexcept {
  const bool is_sliced = call.arguments() != 0;
  if (is_sliced && (call.words()[1] != "sliced" || hal::in_panic())) return call.usage();
  LeakScan scan;
  const Status status = is_sliced ? scan.run_sliced(go_on, &call) : scan.run();
  const LeakSummary& summary = scan.summary();
  bool aborted = status == Status::kAborted && call.abort_requested();
  if (status != Status::kOk && status != Status::kNoMemory && !aborted) return tell_failure(call, status, summary);
  std::size_t heads = 0;
  for (const LeakGroup& group : scan.groups()) {
    heads += group.heads;
    if (aborted) continue;
    print_group(call, group);
    aborted = !call.yield();
  }
  const bool whole = status == Status::kOk;
  if (status == Status::kNoMemory) {
    call.row("memory", "memory: the scan needs {wanted_bytes} bytes and has {had_bytes}: no leaks are reported\n",
             summary.wanted_bytes, summary.work_bytes);
  } else if (whole) {
    if (summary.inner_only != 0) {
      call.row("inner_only", "held by pointers into them only: {objects}, bytes {bytes}\n",
               Counted{summary.inner_only, "object/objects"}, summary.inner_only_bytes);
      print_examples(call, summary.inner_examples);
    }
    if (summary.not_judged != 0)
      call.row("not_judged", "not judged: {objects}\n", Counted{summary.not_judged, "object/objects"});
    call.row("scanned",
             "live {live}, bytes {live_bytes}; words {words}, references {references}; pause {pause_us} us\n",
             summary.live, summary.live_bytes, summary.words, summary.references, microseconds(summary.pause_ticks));
    if (is_sliced) call.row("sliced", "sliced: {passes}\n", Counted{summary.passes, "pass/passes"});
  }
  call.row("end", "findleaks: leaks {leaks}, objects {objects}, bytes {bytes}: {verdict}\n", heads, summary.leaked,
           summary.leaked_bytes, closing_word(aborted, whole));
  return closing_status(aborted);
}

void complete_findleaks(Completion& completion) noexcept {
  if (completion.index() == 1) completion.offer("sliced");
}

QM_CONSOLE_COMMAND(findleaks, {.name = "findleaks",
                               .usage = "findleaks [sliced]",
                               .summary = "objects that no pointer leads to any more; all harts stand still for it",
                               .run = run_findleaks,
                               .max_arguments = 1,
                               .complete = complete_findleaks,
                               .forms = "sliced  while the harts run; they stand still for microseconds only",
                               .example = "findleaks\nfindleaks sliced",
                               .in_panic = true,
                               .wrap = Output::Wrap::kYes});

}  // namespace

// The command's entry lies in the same object file.
void add_findleaks() noexcept {}

}  // namespace qm::console
