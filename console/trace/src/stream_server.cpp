#include <bit>

#include <qm/console/stream_server.hpp>
#include <qm/heap.hpp>
#include <qm/system.hpp>

namespace qm::console {
namespace {

using trace::StreamState;
using wire::DefinitionKind;
using wire::FrameType;

int digit_of(char character) noexcept {
  if (character >= '0' && character <= '9') return character - '0';
  return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

}  // namespace

StreamServer::StreamServer(Send sender, void* context, std::string_view build_id) noexcept
    : send_(sender), context_(context) {
  for (std::size_t i = 0; i + 1 < build_id.size() && build_id_bytes_ < sizeof build_id_; i += 2) {
    const int high = digit_of(build_id[i]);
    const int low = digit_of(build_id[i + 1]);
    if (high < 0 || low < 0) break;
    build_id_[build_id_bytes_++] = static_cast<std::uint8_t>(high << 4 | low);
  }
}

void StreamServer::send(FrameType type, std::span<const std::uint8_t> payload) noexcept {
  ++frames_;
  send_(context_, type, payload);
}

// ---- the stream ---------------------------------------------------------------------------------------------------

bool StreamServer::pump(std::uint64_t now_ms) noexcept {
  const StreamState state = trace::stream_state();
  if (state == StreamState::kOff) {
    stream_ = 0;
    return false;
  }
  if (stream_ == 0) begin(now_ms);
  bool worked = false;
  const bool ending = state == StreamState::kEnding;
  for (unsigned hart = 0; hart < hart_count(); ++hart) worked = send_hart(hart, now_ms, ending) || worked;
  if (now_ms - statistics_ms_ >= kStatisticsMs) {
    statistics_ms_ = now_ms;
    send_statistics(false);
    if (!ending) judge_losses();
    worked = true;
  }
  if (ending && !worked) {
    send_end();
    worked = true;
  }
  return worked;
}

void StreamServer::begin(std::uint64_t now_ms) noexcept {
  const trace::StreamFigures figures = trace::stream_figures();
  stream_ = figures.number;
  frames_ = snapshots_ = 0;
  judged_events_ = judged_lost_ = 0;
  quiet_ = 0;
  patience_ = kPatience / 2;  // doubled when the stream first reduces
  statistics_ms_ = now_ms;
  const auto half = static_cast<std::uint32_t>(figures.ring_bytes / sizeof(trace::RingEntry) / 2);
  batch_ = half < kBatch ? half : kBatch;
  for (std::uint64_t& each : sent_ms_) each = now_ms;
  send_header();
  send_all(DefinitionKind::kSource);
}

void StreamServer::send_header() noexcept {
  const trace::StreamFigures figures = trace::stream_figures();
  wire::StreamHeader& header = header_;
  header = wire::StreamHeader{};
  header.pointer_bytes = sizeof(void*);
  header.big_endian = std::endian::native == std::endian::big;
  header.harts = hart_count();
  header.tick_rate = hal::Port::tick_rate();
  header.start_ticks = figures.start_ticks;
  header.boot = figures.boot;
  header.from_boot = figures.from_boot;
  header.mode = figures.first_mode;
  header.minimum_bytes = figures.options.minimum_bytes;
  header.sample_bytes = figures.options.sample_bytes;
  header.sample_seed = figures.seed;
  header.ring_bytes = static_cast<std::uint32_t>(figures.ring_bytes);
  header.build_id = std::span(build_id_).first(build_id_bytes_);
  header.pattern = figures.options.pattern;
  std::uint32_t number = 1;
  for (; number <= wire::StreamHeader::kMaxSizeClasses; ++number) {
    const std::size_t bytes = heap::class_bytes(number);
    if (bytes == 0) break;
    header.classes[number - 1] = static_cast<std::uint32_t>(bytes);
  }
  header.size_classes = std::span(header.classes).first(number - 1);
  wire::ByteWriter out(other_bytes_);
  if (pack(out, next_prefix(), header)) send(FrameType::kStreamHeader, out.written());
}

bool StreamServer::send_hart(unsigned hart, std::uint64_t now_ms, bool ending) noexcept {
  const std::uint32_t waiting = trace::events_waiting(hart);
  if (!ending && (waiting == 0 || (waiting < batch_ && now_ms - sent_ms_[hart] < kDelayMs))) return false;
  const std::uint32_t last = frames_ + kFramesAtOnce;
  wire::Event event;
  bool worked = false;
  while (static_cast<std::int32_t>(frames_ - last) < 0 && trace::next_event(hart, event)) {
    define_for(event);
    add_event(event);
    worked = true;
  }
  flush_events();
  sent_ms_[hart] = now_ms;
  return worked;
}

void StreamServer::add_event(const wire::Event& event) noexcept {
  if (events_begun_ && events_.add(event)) return;
  flush_events();
  events_.begin(event_bytes_, stream_, 0, event);
  events_begun_ = events_.add(event);
}

void StreamServer::flush_events() noexcept {
  flush_definitions();
  if (!events_begun_) return;
  events_begun_ = false;
  // The frame's number is known only now: frames with definitions have been sent before it.
  events_.set_number(frames_);
  send(FrameType::kEvents, events_.finish());
}

void StreamServer::send_end() noexcept {
  send_statistics(true);
  const trace::StreamFigures figures = trace::stream_figures();
  wire::ByteWriter out(other_bytes_);
  const wire::StreamEnd end{figures.stop_ticks, figures.events + figures.lost, figures.lost};
  if (pack(out, next_prefix(), end)) send(FrameType::kStreamEnd, out.written());
  stream_ = 0;
  trace::end_stream();
}

/// Changes the mode of the stream as invariant 2 says.
void StreamServer::judge_losses() noexcept {
  const trace::StreamFigures figures = trace::stream_figures();
  const std::uint64_t events = figures.events - judged_events_;
  const std::uint64_t lost = figures.lost - judged_lost_;
  judged_events_ = figures.events;
  judged_lost_ = figures.lost;
  quiet_ = lost == 0 ? quiet_ + 1 : 0;
  const auto mode = static_cast<unsigned>(figures.mode);
  const bool less = lost > events && figures.mode != wire::StreamMode::kCounters;
  const bool more = quiet_ >= patience_ && figures.mode > figures.first_mode;
  if (!less && !more) return;
  quiet_ = 0;
  constexpr std::uint32_t kAnswerMs = 10;
  const auto next = static_cast<wire::StreamMode>(less ? mode + 1 : mode - 1);
  // If a hart does not answer, the next snapshot tries again.
  const bool changed = trace::change_stream_mode(next, nullptr, kAnswerMs).status == Status::kOk;
  if (less && changed && patience_ < kMostPatience) patience_ *= 2;
}

// ---- definitions --------------------------------------------------------------------------------------------------

void StreamServer::define(DefinitionKind kind, std::uint32_t number) noexcept {
  bool known = false;
  if (kind == DefinitionKind::kSource) known = trace::define_source(number, definition_);
  if (kind == DefinitionKind::kStack) known = trace::define_stack(number, definition_);
  if (kind == DefinitionKind::kCallSite) known = trace::define_call_site(number, definition_);
  if (kind == DefinitionKind::kContext) known = trace::define_context(number, definition_);
  if (!known) return;
  if (!definitions_begun_) definitions_.begin(other_bytes_, next_prefix());
  definitions_begun_ = true;
  if (definitions_.add(definition_)) return;
  flush_definitions();
  definitions_.begin(other_bytes_, next_prefix());
  definitions_begun_ = definitions_.add(definition_);
}

void StreamServer::define_for(const wire::Event& event) noexcept {
  if (!trace::mark_defined(DefinitionKind::kSource, event.source)) define(DefinitionKind::kSource, event.source);
  if (!trace::mark_defined(DefinitionKind::kSource, event.new_source))
    define(DefinitionKind::kSource, event.new_source);
  if (!trace::mark_defined(DefinitionKind::kContext, event.context)) define(DefinitionKind::kContext, event.context);
  if (!trace::mark_defined(DefinitionKind::kCallSite, event.call_site))
    define(DefinitionKind::kCallSite, event.call_site);
  if (!trace::mark_defined(DefinitionKind::kStack, event.stack)) define(DefinitionKind::kStack, event.stack);
}

void StreamServer::flush_definitions() noexcept {
  if (!definitions_begun_) return;
  definitions_begun_ = false;
  send(FrameType::kDefinitions, definitions_.finish());
}

void StreamServer::send_all(DefinitionKind kind) noexcept {
  const std::uint32_t last = kind == DefinitionKind::kSource ? trace::last_source() : trace::last_context();
  for (std::uint32_t number = 1; number <= last; ++number) {
    if (!trace::mark_defined(kind, number)) define(kind, number);
  }
  flush_definitions();
}

void StreamServer::answer(const wire::Ask& ask) noexcept {
  if (stream_ == 0) return;
  if (ask.kind == 0) {
    trace::forget_defined();  // stacks and contexts are sent again before the next events that refer to them
    send_header();
    send_all(DefinitionKind::kSource);
    return;
  }
  for (std::uint32_t i = 0; i < ask.count; ++i) define(static_cast<DefinitionKind>(ask.kind), ask.numbers[i]);
  flush_definitions();
}

// ---- statistics ---------------------------------------------------------------------------------------------------

void StreamServer::add_statistic(const wire::Statistic& statistic, wire::StatisticsHead& head) noexcept {
  if (statistics_.add(statistic)) return;
  send(FrameType::kStatistics, statistics_.finish(false));
  head.first = false;
  statistics_.begin(other_bytes_, next_prefix(), head);
  (void)statistics_.add(statistic);
}

void StreamServer::send_statistics(bool final) noexcept {
  wire::StatisticsHead head{hal::Port::ticks(), snapshots_++, true, false, final};
  statistics_.begin(other_bytes_, next_prefix(), head);
  for (unsigned hart = 0; hart < hart_count(); ++hart) add_statistic(trace::hart_statistic(hart), head);
  wire::Statistic statistic;
  for (std::uint32_t number = 1; number <= trace::last_source(); ++number) {
    if (trace::source_statistic(number, statistic)) add_statistic(statistic, head);
  }
  send(FrameType::kStatistics, statistics_.finish(true));
}

}  // namespace qm::console
