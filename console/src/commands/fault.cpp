/// fault: makes allocations fail on purpose.

#include "commands.hpp"

#include <algorithm>

#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/arena.hpp>
#include <qm/fault.hpp>

namespace qm::console::commands {
namespace {

constexpr std::string_view kInternal = "internal";

void print_name(Row& row, const fault::Fault& one) noexcept {
  if (one.of == fault::Of::kCache) {
    row.print("fault {cache}: ", one.owner->name());
  } else {
    row.print("fault {source}: ", one.owner != nullptr ? std::string_view(one.owner->name()) : kInternal);
  }
}

CommandStatus end_all(Invocation& call) noexcept {
  for (unsigned index = 0; index < fault::kMaxFaults; ++index) {
    const fault::Fault one = fault::at(index);
    if (one.of == fault::Of::kNothing) continue;
    Row row(call, "fault");
    print_name(row, one);
    row.print("{failed} of {counted} allocations failed\n", one.failed, one.counted);
  }
  call.row("end", "fault: {faults} ended\n", fault::clear());
  return call.ok();
}

void print(Invocation& call, const fault::Fault& one) noexcept {
  Row row(call, "fault");
  print_name(row, one);
  if (one.mode == fault::Mode::kNth) {
    row.print("allocation {nth} fails, {counted} counted\n", one.n, one.counted);
  } else if (one.mode == fault::Mode::kFrom) {
    row.print("allocation {from} and all later ones fail, {failed} of {counted} so far\n", one.n, one.failed,
              one.counted);
  } else {
    row.print("one allocation in {every} fails, {failed} of {counted} so far\n", one.n, one.failed, one.counted);
  }
}

/// Tells what a new fault does.
void tell(Invocation& call, const fault::Fault& one) noexcept {
  Row row(call, "fault");
  print_name(row, one);
  if (one.mode == fault::Mode::kNth) {
    row.print("allocation {nth} from now fails\n", one.n);
  } else if (one.mode == fault::Mode::kFrom) {
    row.print("allocation {from} from now and all later ones fail\n", one.n);
  } else {
    row.print("one allocation in {every} fails\n", one.n);
  }
}

CommandStatus list(Invocation& call) noexcept {
  unsigned armed = 0;
  for (unsigned index = 0; index < fault::kMaxFaults; ++index) {
    const fault::Fault one = fault::at(index);
    if (one.of == fault::Of::kNothing) continue;
    print(call, one);
    ++armed;
  }
  call.row("end", "faults {faults} of {room}: {verdict}\n", armed, fault::kMaxFaults, closing_word(false));
  return call.ok();
}

CommandStatus explain(Invocation& call, std::string_view name, Status status) noexcept {
  switch (status) {
    case Status::kNoMemory: return call.fail("more than {} faults", fault::kMaxFaults);
    case Status::kTimedOut: return call.fail("a hart has not answered: {} has no fault", name);
    case Status::kUnsafe: return call.fail("not in {}", hal::in_panic() ? "panic" : "this context");
    default: return call.fail("{} cannot have a fault", name);
  }
}

/// Whether there are enough slots for a fault in each traceable cache that @p pattern names.
bool has_room(std::string_view pattern) noexcept {
  unsigned lacking = 0;
  Matching<Cache> caches(pattern);
  while (const Cache* cache = caches.next()) lacking += cache->traceable() ? 1 : 0;
  unsigned room = 0;
  for (unsigned index = 0; index < fault::kMaxFaults; ++index) {
    const fault::Fault one = fault::at(index);
    const bool is_replaced = one.of == fault::Of::kCache && one.owner->traceable() && names(pattern, one.owner->name());
    room += one.of == fault::Of::kNothing || is_replaced ? 1 : 0;
  }
  return lacking <= room;
}

CommandStatus set(Invocation& call, std::string_view pattern, fault::Mode mode, std::uint32_t n) noexcept {
  if (!has_room(pattern)) return call.fail("more than {} faults", fault::kMaxFaults);
  unsigned no_trace = 0;
  Matching<Cache> caches(pattern);
  while (Cache* cache = caches.next()) {
    if (!cache->traceable()) {
      if (!names_many(pattern)) return call.fail("Unable to fault slab {}", pattern);
      ++no_trace;
      continue;
    }
    const Status status = fault::set(*cache, mode, n);
    if (status != Status::kOk) return explain(call, cache->name(), status);
    tell(call, {fault::Of::kCache, cache, mode, n});
  }
  if (names_many(pattern)) call.note("skipped {} no-trace caches\n", no_trace);
  return call.ok();
}

/// A fault of an arena; nullptr: of all that the allocator acquires.
CommandStatus set(Invocation& call, Arena* arena, fault::Mode mode, std::uint32_t n) noexcept {
  const Status status = arena != nullptr ? fault::set(*arena, mode, n) : fault::set_internal(mode, n);
  if (status != Status::kOk) return explain(call, {}, status);
  tell(call, {arena != nullptr ? fault::Of::kArena : fault::Of::kInternal, arena, mode, n});
  return call.ok();
}

CommandStatus run_fault(Invocation& call) noexcept {
  const Words& words = call.words();
  if (call.arguments() == 0) return list(call);
  if (call.arguments() == 1) return words[1] == "off" ? end_all(call) : call.usage();
  const auto* const name = std::find(fault::kModeNames.begin(), fault::kModeNames.end(), words[2]);
  if (name == fault::kModeNames.end() || call.arguments() != 3) return call.usage();
  const bool is_cache = names_any<Cache>(words[1]);
  Matching<Arena> arenas(words[1]);
  Arena* const arena = names_many(words[1]) ? nullptr : arenas.next();
  if (!is_cache && arena == nullptr && words[1] != kInternal) return call.fail("No such slab {}", words[1]);
  std::uint64_t n = 0;
  const Number parsed = parse_number(words[3], UINT32_MAX, n);
  if (parsed != Number::kOk) return call.fail_number(words[3], parsed);
  if (n == 0) return call.fail("N is at least 1");
  const auto mode = static_cast<fault::Mode>(name - fault::kModeNames.begin());
  if (is_cache) return set(call, words[1], mode, static_cast<std::uint32_t>(n));
  return set(call, arena, mode, static_cast<std::uint32_t>(n));
}

void complete_fault(Completion& completion) noexcept {
  if (completion.index() == 1) {
    completion.offer("off");
    completion.offer(kInternal);
    offer_traceable_caches(completion);
    offer_arenas(completion);
  } else if (completion.index() == 2 && completion.words()[1] != "off") {
    for (const std::string_view name : fault::kModeNames) completion.offer(name);
  }
}

}  // namespace

constinit const Command fault_injection = {
    .name = "fault",
    .usage = "fault [NAME nth N|NAME every N|NAME from N|off]",
    .summary = "make allocations fail: the N-th from now, one in N, all from the N-th",
    .run = run_fault,
    .max_arguments = 3,
    .complete = complete_fault,
    .forms =
        "fault  lists the armed faults\nNAME  caches, an arena, or `internal`: all that the allocator takes on slow "
        "paths",
    .example = "fault packet every 10\nfault kheap nth 3\nfault internal from 5\nfault\nfault off",
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
