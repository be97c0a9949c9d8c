/// kmemtrace: starts and stops the event stream, which stream_server.hpp sends over the serial line in frames.

#include "trace_commands.hpp"

#include <limits>

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/trace/event_ring.hpp>
#include <qm/trace/event_stream.hpp>

namespace qm::console::commands {
namespace {

using trace::StreamState;

std::string_view name(wire::StreamMode mode) noexcept {
  switch (mode) {
    case wire::StreamMode::kFull: return "full";
    case wire::StreamMode::kSampled: return "sampled";
    case wire::StreamMode::kCounters: return "counters";
  }
  return "?";
}

/// Prints why the command is refused. @param[in] on true: a stream is on; false: another command runs.
CommandStatus fail_busy(Invocation& call, bool on) noexcept {
  call.fail("{}", on ? "a stream is on: kmemtrace stop" : "another slab_trace or kmemtrace has not ended");
  return CommandStatus::kBusy;
}

CommandStatus explain(Invocation& call, std::string_view pattern, const trace::CommandResult& result,
                      bool on) noexcept {
  switch (result.status) {
    case Status::kNotFound:
    case Status::kInvalid: return call.fail("No such slab {}", pattern);
    case Status::kRefused: return call.fail("Unable to trace slab {}", pattern);
    case Status::kTimedOut:
      if (result.hart == hal::BroadcastResult::kNobody)
        return call.fail("the harts were busy with another command for {} s", hal::kBroadcastDeadlineMs / 1000);
      return call.fail("hart {} has not answered for {} s", result.hart, hal::kBroadcastDeadlineMs / 1000);
    case Status::kAborted: call.fail("aborted"); return call.aborted();
    case Status::kNoMemory: return call.fail("no memory for the rings (kmemtrace ring BYTES)");
    case Status::kBusy: return fail_busy(call, on);
    default: return call.fail("not in {}", hal::in_panic() ? "panic" : "this context");
  }
}

/// Reads `[SLAB_NAME] [min BYTES] [sample BYTES]`.
CommandStatus parse(Invocation& call, trace::StreamOptions& options) noexcept {
  const Words& words = call.words();
  std::size_t at = 2;
  if (at < words.size() && words[at] != "min" && words[at] != "sample") options.pattern = words[at++];
  for (; at < words.size(); at += 2) {
    std::size_t* into = words[at] == "min"      ? &options.minimum_bytes
                        : words[at] == "sample" ? &options.sample_bytes
                                                : nullptr;
    if (into == nullptr || *into != 0 || at + 1 >= words.size()) return call.usage();
    std::uint64_t bytes = 0;
    const Number read = parse_size(words[at + 1], std::numeric_limits<std::uint32_t>::max(), bytes);
    if (read != Number::kOk) return call.fail_number(words[at + 1], read);
    if (bytes == 0) return call.usage();
    *into = static_cast<std::size_t>(bytes);
  }
  return call.ok();
}

CommandStatus start(Invocation& call) noexcept {
  trace::StreamOptions options;
  const CommandStatus read = parse(call, options);
  if (read != CommandStatus::kOk) return read;
  const bool on = trace::stream_state() != StreamState::kOff;
  const trace::CommandResult result = trace::start_stream(options, &Console::abort_requested);
  if (result.status != Status::kOk) return explain(call, options.pattern, result, on);
  const trace::StreamFigures figures = trace::stream_figures();
  call.row(
      "stream",
      "stream {stream}: {sources} caches and arenas, {skipped} no-trace ones skipped, ring {ring_bytes} bytes a hart\n",
      figures.number, figures.sources, result.skipped, figures.ring_bytes);
  return call.ok();
}

/// Ends recording, and waits until the contents of the rings are sent.
CommandStatus stop(Invocation& call) noexcept {
  if (trace::stream_state() == StreamState::kOff) return call.fail("no stream is on");
  if (trace::stream_state() == StreamState::kOn) {
    const trace::CommandResult result = trace::stop_stream(&Console::abort_requested);
    if (result.status != Status::kOk) return explain(call, "*", result, false);
  }
  const std::uint16_t number = trace::stream_figures().number;
  trace::StreamFigures figures;
  bool aborted = false;
  while (!aborted && trace::stream_state() != StreamState::kOff) aborted = !call.yield();
  figures = trace::stream_figures();
  call.row("end", "stream {stream}: events {events}, lost {lost}: {verdict}\n", number, figures.events, figures.lost,
           closing_word(aborted, figures.lost == 0 && figures.unjoined == 0));
  return closing_status(aborted);
}

CommandStatus status(Invocation& call) noexcept {
  const trace::StreamFigures figures = trace::stream_figures();
  constexpr std::string_view kStates[] = {"off", "on", "ending"};
  call.row("stream",
           "state {state}, mode {mode}, stream {stream}, caches and arenas {sources}, ring {ring_bytes} bytes a hart\n",
           kStates[static_cast<unsigned>(figures.state)], name(figures.mode), figures.number, figures.sources,
           figures.ring_bytes);
  if (figures.unjoined != 0) call.note("no memory to join for {} new caches\n", figures.unjoined);
  call.row("end", "events {events}, lost {lost}, waiting {waiting}: {verdict}\n", figures.events, figures.lost,
           figures.waiting, closing_word(false, figures.lost == 0 && figures.unjoined == 0));
  return call.ok();
}

CommandStatus ring(Invocation& call) noexcept {
  std::uint64_t bytes = 0;
  const Number read = parse_size(call.words()[2], std::numeric_limits<std::size_t>::max(), bytes);
  if (read != Number::kOk) return call.fail_number(call.words()[2], read);
  const bool on = trace::stream_state() != StreamState::kOff;
  switch (trace::set_ring_bytes(static_cast<std::size_t>(bytes))) {
    case Status::kOk: break;
    case Status::kInvalid:
      return call.fail("a ring has {} to {} bytes", trace::EventRing::kMinEntries * sizeof(trace::RingEntry),
                       trace::kMaxRingBytes);
    default: return fail_busy(call, on);
  }
  call.row("ring", "ring {ring_bytes} bytes a hart\n", trace::stream_figures().ring_bytes);
  return call.ok();
}

CommandStatus run_kmemtrace(Invocation& call) noexcept {
  const std::string_view verb = call.words()[1];
  if (verb == "start") return start(call);
  if (verb == "stop" && call.arguments() == 1) return stop(call);
  if (verb == "status" && call.arguments() == 1) return status(call);
  if (verb == "ring" && call.arguments() == 2) return ring(call);
  return call.usage();
}

void complete_kmemtrace(Completion& completion) noexcept {
  if (completion.index() == 1) {
    for (const std::string_view verb : {"start", "stop", "status", "ring"}) completion.offer(verb);
  } else if (completion.words()[1] == "start") {
    const std::string_view before = completion.words()[completion.index() - 1];
    if (completion.index() > 2 && (before == "min" || before == "sample")) return;
    if (completion.index() == 2) offer_traceable(completion);
    completion.offer("min");
    completion.offer("sample");
  }
}

}  // namespace

constinit const Command kmemtrace = {
    .name = "kmemtrace",
    .usage = "kmemtrace start|stop|status|ring",
    .summary = "every allocation and free as an event over the line",
    .run = run_kmemtrace,
    .min_arguments = 1,
    .max_arguments = 6,
    .complete = complete_kmemtrace,
    .forms =
        "kmemtrace start [SLAB_NAME] [min BYTES] [sample BYTES]\n"
        "                    send each allocation and free as a frame, for a program;\n"
        "                    min: of caches and segments at least that large;\n"
        "                    sample: one in so many bytes\n"
        "kmemtrace stop      end the stream, after the events that wait\n"
        "kmemtrace status    mode, events, losses\n"
        "kmemtrace ring BYTES  size of each hart's ring, while stopped",
    .example = "kmemtrace ring 256K\nkmemtrace start pack* min 64 sample 4K\nkmemtrace status\nkmemtrace stop",
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
