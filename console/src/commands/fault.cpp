/// fault: makes allocations fail on purpose.

#include "commands.hpp"

#include <algorithm>

#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/fault.hpp>

namespace qm::console::commands {
namespace {

CommandStatus end_all(Invocation& call) noexcept {
  for (unsigned index = 0; index < fault::kMaxFaults; ++index) {
    const fault::Fault one = fault::at(index);
    if (one.cache == nullptr) continue;
    call.row("fault", "fault {cache}: {failed} of {counted} allocations failed\n", one.cache->name(), one.failed,
             one.counted);
  }
  call.row("end", "fault: {faults} ended\n", fault::clear());
  return call.ok();
}

void print(Invocation& call, const fault::Fault& one) noexcept {
  if (one.mode == fault::Mode::kNth) {
    call.row("fault", "fault {cache}: allocation {nth} fails, {counted} counted\n", one.cache->name(), one.n,
             one.counted);
  } else if (one.mode == fault::Mode::kFrom) {
    call.row("fault", "fault {cache}: allocation {from} and all later ones fail, {failed} of {counted} so far\n",
             one.cache->name(), one.n, one.failed, one.counted);
  } else {
    call.row("fault", "fault {cache}: one allocation in {every} fails, {failed} of {counted} so far\n",
             one.cache->name(), one.n, one.failed, one.counted);
  }
}

CommandStatus list(Invocation& call) noexcept {
  unsigned armed = 0;
  for (unsigned index = 0; index < fault::kMaxFaults; ++index) {
    const fault::Fault one = fault::at(index);
    if (one.cache == nullptr) continue;
    print(call, one);
    ++armed;
  }
  call.row("end", "faults {faults} of {room}: {verdict}\n", armed, fault::kMaxFaults, closing_word(false));
  return call.ok();
}

CommandStatus explain(Invocation& call, const Cache& cache, Status status) noexcept {
  switch (status) {
    case Status::kNoMemory: return call.fail("more than {} faults", fault::kMaxFaults);
    case Status::kTimedOut: return call.fail("a hart has not answered: {} has no fault", cache.name());
    case Status::kUnsafe: return call.fail("not in {}", hal::in_panic() ? "panic" : "this context");
    default: return call.fail("{} cannot have a fault", cache.name());
  }
}

/// Whether there are enough slots for a fault in each traceable cache that @p pattern names.
bool has_room(std::string_view pattern) noexcept {
  unsigned lacking = 0;
  Matching<Cache> caches(pattern);
  while (const Cache* cache = caches.next()) lacking += cache->traceable() ? 1 : 0;
  unsigned room = 0;
  for (unsigned index = 0; index < fault::kMaxFaults; ++index) {
    const Cache* taken = fault::at(index).cache;
    room += taken == nullptr || (taken->traceable() && names(pattern, taken->name())) ? 1 : 0;  // replaced
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
    if (status != Status::kOk) return explain(call, *cache, status);
    if (mode == fault::Mode::kNth) {
      call.row("fault", "fault {cache}: allocation {nth} from now fails\n", cache->name(), n);
    } else if (mode == fault::Mode::kFrom) {
      call.row("fault", "fault {cache}: allocation {from} from now and all later ones fail\n", cache->name(), n);
    } else {
      call.row("fault", "fault {cache}: one allocation in {every} fails\n", cache->name(), n);
    }
  }
  if (names_many(pattern)) call.note("skipped {} no-trace caches\n", no_trace);
  return call.ok();
}

CommandStatus run_fault(Invocation& call) noexcept {
  const Words& words = call.words();
  if (call.arguments() == 0) return list(call);
  if (call.arguments() == 1) return words[1] == "off" ? end_all(call) : call.usage();
  const auto* const name = std::find(fault::kModeNames.begin(), fault::kModeNames.end(), words[2]);
  if (name == fault::kModeNames.end() || call.arguments() != 3) return call.usage();
  if (!names_any<Cache>(words[1])) return call.fail("No such slab {}", words[1]);
  std::uint64_t n = 0;
  const Number parsed = parse_number(words[3], UINT32_MAX, n);
  if (parsed != Number::kOk) return call.fail_number(words[3], parsed);
  if (n == 0) return call.fail("N is at least 1");
  return set(call, words[1], static_cast<fault::Mode>(name - fault::kModeNames.begin()), static_cast<std::uint32_t>(n));
}

void complete_fault(Completion& completion) noexcept {
  if (completion.index() == 1) {
    completion.offer("off");
    offer_traceable_caches(completion);
  } else if (completion.index() == 2 && completion.words()[1] != "off") {
    for (const std::string_view name : fault::kModeNames) completion.offer(name);
  }
}

}  // namespace

constinit const Command fault_injection = {
    .name = "fault",
    .usage = "fault [SLAB_NAME nth N|SLAB_NAME every N|SLAB_NAME from N|off]",
    .summary = "make allocations fail: the N-th from now, one in N, all from the N-th",
    .run = run_fault,
    .max_arguments = 3,
    .complete = complete_fault,
    .forms = "fault  lists the armed faults",
    .example = "fault packet every 10\nfault session nth 3\nfault packet from 5\nfault\nfault off",
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
