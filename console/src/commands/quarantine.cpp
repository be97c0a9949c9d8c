/// quarantine: lets the freed objects of a cache wait before they are used again.

#include "commands.hpp"

#include <qm/console/names.hpp>
#include <qm/console/row.hpp>

namespace qm::console::commands {
namespace {

CommandStatus list_quarantines(Invocation& call) noexcept {
  unsigned count = 0;
  Matching<Cache> caches({});
  while (Cache* cache = caches.next()) {
    const CacheStats stats = cache->stats();
    if (stats.quarantine == 0) continue;
    call.row("quarantine",
             "quarantine {cache}: {in_quarantine} in {quarantine_bytes} bytes, {left_quarantine} left it\n",
             cache->name(), Counted{stats.quarantined, "object/objects"}, stats.quarantine, stats.quarantine_passed);
    ++count;
  }
  call.row("end", "quarantines {quarantines}: {verdict}\n", count, closing_word(false));
  return call.ok();
}

CommandStatus end_quarantines(Invocation& call, std::string_view pattern) noexcept {
  unsigned ended = 0;
  Matching<Cache> caches(pattern);
  while (Cache* cache = caches.next()) {
    if (cache->stats().quarantine == 0) continue;
    static_cast<void>(cache->set_quarantine(0));
    call.row("quarantine", "quarantine {cache}: ended, {left_quarantine} left it\n", cache->name(),
             Counted{cache->stats().quarantine_passed, "object/objects"});
    ++ended;
  }
  call.row("end", "quarantine: {quarantines} ended\n", ended);
  return call.ok();
}

CommandStatus explain_quarantine(Invocation& call, const Cache& cache, Status status) noexcept {
  switch (status) {
    case Status::kInvalid: return call.fail("an object of {} has {} bytes", cache.name(), cache.object_size());
    case Status::kNoMemory: return call.fail("no memory for the quarantine of {}", cache.name());
    case Status::kTimedOut: return call.fail("a hart has not answered: {} has no quarantine", cache.name());
    case Status::kUnsafe: return call.fail("not in {}", hal::in_panic() ? "panic" : "this context");
    default: return call.fail("{} cannot have a quarantine", cache.name());
  }
}

CommandStatus set(Invocation& call, std::string_view pattern, std::size_t bytes) noexcept {
  Matching<Cache> checked(pattern);
  while (const Cache* cache = checked.next()) {
    if (cache->may_have_quarantine() && cache->object_size() > bytes)
      return explain_quarantine(call, *cache, Status::kInvalid);
  }
  unsigned refused = 0;
  Matching<Cache> caches(pattern);
  while (Cache* cache = caches.next()) {
    const Status status = cache->set_quarantine(bytes);
    if (names_many(pattern) && status == Status::kRefused) {
      ++refused;
    } else if (status != Status::kOk) {
      return explain_quarantine(call, *cache, status);
    } else {
      call.row("quarantine", "quarantine {cache}: up to {quarantine_bytes} freed bytes wait\n", cache->name(), bytes);
    }
  }
  if (names_many(pattern)) call.note("skipped {} caches that cannot have one\n", refused);
  return call.ok();
}

CommandStatus run_quarantine(Invocation& call) noexcept {
  const Words& words = call.words();
  if (call.arguments() == 0) return list_quarantines(call);
  if (call.arguments() == 1) return words[1] == "off" ? end_quarantines(call, {}) : call.usage();
  if (!names_any<Cache>(words[1])) return call.fail("No such slab {}", words[1]);
  if (words[2] == "off") return end_quarantines(call, words[1]);
  std::uint64_t bytes = 0;
  const Number parsed = parse_size(words[2], SIZE_MAX / 2, bytes);
  if (parsed != Number::kOk) return call.fail_number(words[2], parsed);
  return bytes != 0 ? set(call, words[1], static_cast<std::size_t>(bytes)) : call.usage();
}

void complete_quarantine(Completion& completion) noexcept {
  if (completion.index() == 1) {
    completion.offer("off");
    offer_traceable_caches(completion);
  } else if (completion.index() == 2 && completion.words()[1] != "off") {
    completion.offer("off");
  }
}

}  // namespace

constinit const Command quarantine = {
    .name = "quarantine",
    .usage = "quarantine [SLAB_NAME SIZE|SLAB_NAME off|off]",
    .summary = "let freed objects wait, poisoned, up to SIZE bytes: finds a write after a free",
    .run = run_quarantine,
    .max_arguments = 2,
    .complete = complete_quarantine,
    .forms = "quarantine  lists the caches that have one",
    .example = "quarantine packet 64K\nquarantine\nquarantine packet off\nquarantine off",
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
