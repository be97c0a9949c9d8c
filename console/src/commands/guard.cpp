/// guard: gives some allocations a place in memory that traps around them.

#include <qm/console/guard.hpp>

#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/guards.hpp>

namespace qm::console {
namespace {

/// The name that stands for the heap: its size classes and its blocks.
constexpr std::string_view kHeapName = "kmalloc";

bool is_selected(Cache& cache) noexcept {
  return (cache.state().load(std::memory_order_relaxed) & trace_state::kGuard) != 0;
}

void print_rate(Invocation& call, std::string_view name, const guards::Stats& stats) noexcept {
  if (stats.every != 0) {
    call.row("guard", "guard {cache}: at most one allocation in {every} is guarded\n", name, stats.every);
  } else {
    call.row("guard", "guard {cache}: at most one allocation in {ms} ms is guarded\n", name, stats.ms);
  }
}

CommandStatus print_guards(Invocation& call) noexcept {
  const guards::Stats stats = guards::stats();
  if (stats.slots == 0) {
    call.row("end", "guards: none: {verdict}\n", closing_word(false));
    return call.ok();
  }
  call.row("end",
           "guards: {live} in use, {freed} freed, {places}, {sampled} guarded so far, {missed} without a place\n"
           "  {protection}: {verdict}\n",
           stats.live, stats.freed, Counted{stats.slots, "place/places"}, stats.sampled, stats.missed,
           stats.traps ? "outside accesses trap" : "no trap: checked at the free", closing_word(false));
  return call.ok();
}

CommandStatus list_guards(Invocation& call) noexcept {
  const guards::Stats stats = guards::stats();
  if (stats.heap) print_rate(call, kHeapName, stats);
  Matching<Cache> caches({});
  while (Cache* cache = caches.next()) {
    if (is_selected(*cache) && !(stats.heap && cache->slabs().of_heap())) print_rate(call, cache->name(), stats);
  }
  return print_guards(call);
}

CommandStatus explain_guards(Invocation& call, std::string_view name, Status status) noexcept {
  switch (status) {
    case Status::kNoMemory: return call.fail("no memory for guarded objects");
    case Status::kTimedOut: return call.fail("a hart has not answered");
    case Status::kUnsafe: return call.fail("not in {}", hal::in_panic() ? "panic" : "this context");
    case Status::kInvalid: return call.fail("the number is too large");
    default:
      if (kChecked) return call.fail("a checking build checks every object");
      return call.fail("{} cannot have guarded objects", name);
  }
}

CommandStatus stop_guards(Invocation& call) noexcept {
  const guards::Stats stats = guards::stats();
  const Status status = guards::stop();
  if (status == Status::kBusy) {
    call.row("end", "guards: no more samples; {live} in use, which stay guarded\n", guards::stats().live);
  } else if (status != Status::kOk) {
    return explain_guards(call, kHeapName, status);
  } else {
    call.row("end", "guards: {sampled} guarded, ended\n", stats.sampled);
  }
  return call.ok();
}

CommandStatus start_guards(Invocation& call, std::string_view pattern, const guards::Config& config) noexcept {
  const bool has_heap = names(pattern, kHeapName);
  if (!has_heap && !names_any<Cache>(pattern)) return call.fail("No such slab {}", pattern);
  Status status = guards::start(config);
  if (status != Status::kOk) return explain_guards(call, pattern, status);
  const guards::Stats stats = guards::stats();
  if (has_heap) {
    static_cast<void>(guards::select_heap());
    print_rate(call, kHeapName, stats);
  }
  unsigned refused = 0;
  Matching<Cache> caches(pattern);
  while (Cache* cache = caches.next()) {
    if (has_heap && cache->slabs().of_heap()) continue;
    status = guards::select(*cache);
    if (status == Status::kOk) {
      print_rate(call, cache->name(), stats);
    } else if (names_many(pattern) && status == Status::kRefused) {
      ++refused;
    } else {
      return explain_guards(call, cache->name(), status);
    }
  }
  if (refused != 0) call.note("skipped {} caches that cannot have guarded objects\n", refused);
  return print_guards(call);
}

CommandStatus run_guard(Invocation& call) noexcept {
  const Words& words = call.words();
  if (call.arguments() == 0) return list_guards(call);
  if (call.arguments() == 1) return words[1] == "off" ? stop_guards(call) : call.usage();
  const bool by_time = words[2] == "each";
  if (call.arguments() != 3 || (!by_time && words[2] != "every")) return call.usage();
  std::uint64_t number = 0;
  const Number parsed = parse_number(words[3], UINT32_MAX, number);
  if (parsed != Number::kOk) return call.fail_number(words[3], parsed);
  if (number == 0) return call.fail("the number is at least 1");
  const auto rate = static_cast<std::uint32_t>(number);
  return start_guards(call, words[1], by_time ? guards::Config{.ms = rate} : guards::Config{.every = rate});
}

void complete_guard(Completion& completion) noexcept {
  if (completion.index() == 1) {
    completion.offer("off");
    completion.offer(kHeapName);
    offer_traceable_caches(completion);
  } else if (completion.index() == 2 && completion.words()[1] != "off") {
    completion.offer("each");
    completion.offer("every");
  }
}

QM_CONSOLE_COMMAND(guard, {.name = "guard",
                           .usage = "guard [SLAB_NAME every N|SLAB_NAME each MS|off]",
                           .summary = "put one allocation in N, or each MS ms, in memory that traps around it",
                           .run = run_guard,
                           .max_arguments = 3,
                           .complete = complete_guard,
                           .forms = "guard  lists what is guarded; `kmalloc` is the whole heap",
                           .example = "guard kmalloc every 1000\nguard kmalloc each 10\nguard\nguard off",
                           .wrap = Output::Wrap::kYes});

}  // namespace

// The command's entry lies in the same object file.
void add_guard() noexcept {}

}  // namespace qm::console
