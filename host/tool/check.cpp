#include "check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include <qm/host/capture.hpp>
#include <qm/host/counted.hpp>
#include <qm/host/elf_image.hpp>
#include <qm/host/model.hpp>
#include <qm/host/stream_reader.hpp>

#include "commands.hpp"
#include "progress.hpp"

namespace qm::tool {
namespace {

constexpr std::size_t kShownEach = 5;

std::string name_of(const host::Definitions& definitions, std::uint32_t traceable) {
  const auto found = definitions.traceables.find(traceable);
  return found != definitions.traceables.end() ? found->second.name : fmt::format("number {}", traceable);
}

/// @returns the counters @p of as a device with 32-bit words has them: they wrap.
host::Counters wrapped(const host::Counters& of) {
  const auto word = [](std::uint64_t number) { return static_cast<std::uint32_t>(number); };
  return {word(of.allocations), word(of.frees),     word(of.reallocations),
          word(of.requested),   word(of.allocated), word(of.freed)};
}

/// From good to bad: the worst of several verdicts counts.
enum class Verdict { kEqual, kNotCompared, kWrong };

/// Checks one stream.
class StreamCheck {
 public:
  StreamCheck(const host::Definitions& definitions, std::size_t place)
      : definitions_(definitions), place_(place), model_(definitions) {}

  void take(const host::Event& event);
  void take(const host::Statistics& statistics) {
    if (statistics.final) final_ = statistics;
  }
  void take(const host::ModeChange& change) {
    if (change.mode != host::StreamMode::kFull) sampled_ = true;
  }
  void stopped(std::uint64_t ticks) { end_ticks_ = std::max(end_ticks_, ticks); }
  void take(const host::Gap& gap) {
    (gap.why == host::Missing::kOverrun ? overruns_ : missing_)[gap.hart] += gap.events;
  }

  /// Prints the findings. @returns the verdict.
  [[nodiscard]] Verdict report();

 private:
  void misfit(const host::Event& event, host::Misfit misfit);
  [[nodiscard]] bool report_harts() const;
  [[nodiscard]] bool report_pairing() const;
  void report_out() const;
  [[nodiscard]] Verdict report_equality() const;
  [[nodiscard]] unsigned compare(const char* what, const std::string& of, std::uint64_t device,
                                 std::uint64_t model) const;
  [[nodiscard]] bool nothing_missing() const { return overruns_.empty() && missing_.empty(); }

  const host::Definitions& definitions_;
  std::size_t place_;
  host::Model model_;
  std::optional<host::Statistics> final_;
  std::map<std::uint16_t, std::uint64_t> overruns_, missing_;
  std::array<std::uint64_t, host::kMisfits> misfits_{};
  std::vector<std::string> shown_;
  std::map<std::uint16_t, std::uint64_t> last_ticks_;
  std::uint64_t out_of_time_ = 0;
  std::uint64_t last_number_ = 0;
  std::uint64_t out_of_order_ = 0;
  std::uint64_t end_ticks_ = 0;
  bool sampled_ = false;
};

void StreamCheck::take(const host::Event& event) {
  if (model_.events() != 0 && event.number <= last_number_) ++out_of_order_;
  last_number_ = event.number;
  std::uint64_t& last = last_ticks_[event.hart];
  if (event.ticks < last) ++out_of_time_;
  last = event.ticks;
  end_ticks_ = std::max(end_ticks_, event.ticks);
  misfit(event, model_.apply(event).misfit);
}

void StreamCheck::misfit(const host::Event& event, host::Misfit misfit) {
  if (misfit == host::Misfit::kNone) return;
  // Objects that were live before the stream began may be freed in it.
  if (misfit == host::Misfit::kUnknown && !definitions_.header.from_boot) return;
  if (misfits_[static_cast<std::size_t>(misfit)]++ >= kShownEach) return;
  shown_.push_back(fmt::format("  event {}: {}: {:#x} of {}, hart {}", event.number, host::name(misfit), event.address,
                               name_of(definitions_, event.traceable), event.hart));
}

bool StreamCheck::report_harts() const {
  for (std::uint16_t hart = 0; hart < definitions_.header.harts; ++hart) {
    const auto count = [&](const auto& of) { return of.contains(hart) ? of.at(hart) : 0; };
    const std::uint64_t overruns = count(overruns_), missing = count(missing_);
    const std::uint64_t events = model_.harts().contains(hart) ? model_.harts().at(hart).events : 0;
    fmt::print("  hart {}: {}, {}", hart, host::counted(events, "event"), host::counted(overruns, "overrun"));
    if (missing != 0) fmt::print(", {} did not arrive", missing);
    fmt::print("\n");
  }
  if (out_of_time_ != 0)
    fmt::print("  older than the one before on their hart: {}\n", host::counted(out_of_time_, "event"));
  if (out_of_order_ != 0)
    fmt::print("  of a number that was there before: {}\n", host::counted(out_of_order_, "event"));
  return out_of_time_ == 0 && out_of_order_ == 0;
}

bool StreamCheck::report_pairing() const {
  std::uint64_t frees = 0, allocations = 0, reallocations = 0, before = 0, found = 0;
  for (const auto& [number, counters] : model_.traceables()) {
    allocations += counters.allocations;
    frees += counters.frees;
    reallocations += counters.reallocations;
  }
  for (const auto& [number, count] : model_.unknown_frees()) before += count;
  for (const std::uint64_t each : misfits_) found += each;
  fmt::print("  {}, {}, {}; freed on another hart: {}\n", host::counted(allocations, "allocation"),
             host::counted(frees, "free"), host::counted(reallocations, "reallocation"), model_.crossed());
  if (!definitions_.header.from_boot)
    fmt::print("  {} of objects that are older than the stream\n", host::counted(before, "free"));
  if (found != 0 && (!final_ || !nothing_missing())) {
    fmt::print("  do not fit those before them, as some are missing: {}\n", host::counted(found, "event"));
    return false;
  }
  for (const std::string& line : shown_) fmt::print("{}\n", line);
  for (std::size_t kind = 1; kind < host::kMisfits; ++kind) {
    if (misfits_[kind] > kShownEach) {
      fmt::print("  and {} more: {}\n", misfits_[kind] - kShownEach, host::name(static_cast<host::Misfit>(kind)));
    }
  }
  return found == 0;
}

unsigned StreamCheck::compare(const char* what, const std::string& of, std::uint64_t device,
                              std::uint64_t model) const {
  if (device == model) return 0;
  if (nothing_missing()) fmt::print("  {}: {} {} by the device's count, {} by its events\n", of, device, what, model);
  return 1;
}

Verdict StreamCheck::report_equality() const {
  if (!final_) {
    fmt::print("  not compared: the device's last statistics are missing\n");
    return Verdict::kNotCompared;
  }
  if (sampled_ || definitions_.header.mode != host::StreamMode::kFull) {
    fmt::print("  not compared: the device sent a sample of its events, not all\n");
    return Verdict::kNotCompared;
  }
  const bool narrow = definitions_.header.pointer_bytes == 4;
  unsigned unequal = 0, numbers = 0;
  std::map<std::uint32_t, host::Counters> all = final_->traceables;
  for (const auto& [number, counters] : model_.traceables()) (void)all[number];
  for (const auto& [number, ignored] : all) {
    const std::string of = name_of(definitions_, number);
    const auto device_at = final_->traceables.find(number);
    const auto model_at = model_.traceables().find(number);
    host::Counters device = device_at != final_->traceables.end() ? device_at->second : host::Counters{};
    host::Counters model = model_at != model_.traceables().end() ? model_at->second : host::Counters{};
    if (narrow) {
      device = wrapped(device);
      model = wrapped(model);
    }
    unequal += compare("allocations", of, device.allocations, model.allocations);
    unequal += compare("frees", of, device.frees, model.frees);
    unequal += compare("reallocations", of, device.reallocations, model.reallocations);
    unequal += compare("bytes requested", of, device.requested, model.requested);
    unequal += compare("bytes allocated", of, device.allocated, model.allocated);
    numbers += 6;
    const std::uint64_t more =
        narrow ? static_cast<std::uint32_t>(device.freed - model.freed) : device.freed - model.freed;
    const bool older = !model_.knows_freed_bytes(number) && (narrow ? more != 0 : device.freed > model.freed);
    if (older && nothing_missing())
      fmt::print("  {}: {} freed, older than the stream\n", of, host::counted(more, "byte"));
    unequal += older ? 0 : compare("bytes freed", of, device.freed, model.freed);
  }
  for (const auto& [hart, counters] : final_->harts) {
    const std::uint64_t events = model_.harts().contains(hart) ? model_.harts().at(hart).events : 0;
    unequal += compare("events", fmt::format("hart {}", hart), counters.events, events);
    ++numbers;
  }
  if (unequal == 0) {
    fmt::print("  equal to the device's statistics: {} of {} and {}\n", host::counted(numbers, "number"),
               host::counted(all.size(), "cache or arena", "caches and arenas"),
               host::counted(final_->harts.size(), "hart"));
  } else if (!nothing_missing()) {
    fmt::print("  {} of {} numbers differ from the device's, as events are missing\n", unequal, numbers);
  } else {
    fmt::print("  {} of {} numbers differ from the device's, and no event is known to be missing\n", unequal, numbers);
  }
  return unequal == 0 ? Verdict::kEqual : Verdict::kWrong;
}

/// Reports live objects. Arenas are apart, as in `qm report`: their segments become slabs and blocks.
void StreamCheck::report_out() const {
  std::uint64_t objects = 0, bytes = 0, segments = 0, segment_bytes = 0;
  model_.for_each_live([&](const host::LiveObject& object) {
    const auto found = definitions_.traceables.find(object.traceable);
    const bool arena = found != definitions_.traceables.end() && found->second.kind == host::EventKind::kArena;
    ++(arena ? segments : objects);
    (arena ? segment_bytes : bytes) += object.allocated;
  });
  fmt::print("  out at the end: {}, {}", host::counted(objects, "object"), host::counted(bytes, "byte"));
  if (segments != 0) {
    fmt::print("; in arenas {}, {}", host::counted(segments, "segment"), host::counted(segment_bytes, "byte"));
  }
  fmt::print("\n");
}

Verdict StreamCheck::report() {
  const host::StreamHeader& header = definitions_.header;
  const double seconds =
      header.ticks_per_second != 0 && end_ticks_ > header.start_ticks
          ? static_cast<double>(end_ticks_ - header.start_ticks) / static_cast<double>(header.ticks_per_second)
          : 0;
  fmt::print("stream {}: {} of {} in {:.3f} s, of `{}`{}{}\n", place_, host::counted(model_.events(), "event"),
             host::counted(header.harts, "hart"), seconds, header.pattern, header.from_boot ? ", from boot" : "",
             header.minimum_bytes != 0 ? fmt::format(", {} bytes or more", header.minimum_bytes) : "");
  const bool ordered = report_harts();
  const bool paired = report_pairing();
  const Verdict equal = report_equality();
  report_out();
  return ordered && paired ? equal : Verdict::kWrong;
}

class Checker : public host::EventHandler {
 public:
  void on_header(const host::Definitions& definitions) override {
    finish_stream();
    builds_.push_back(definitions.header.build_id);
    stream_ = std::make_unique<StreamCheck>(definitions, builds_.size());
  }
  void on_event(const host::Event& event) override { stream_->take(event); }
  void on_gap(const host::Gap& gap) override { stream_->take(gap); }
  void on_statistics(const host::Statistics& statistics) override { stream_->take(statistics); }
  void on_mode(const host::ModeChange& change) override { stream_->take(change); }
  void on_stream_end(std::uint64_t stop_ticks) override { stream_->stopped(stop_ticks); }
  void on_end(const host::CaptureEnd& end) override {
    finish_stream();
    end_ = end;
  }

  [[nodiscard]] Verdict verdict() const { return verdict_; }
  [[nodiscard]] const host::CaptureEnd& end() const { return end_; }
  [[nodiscard]] const std::vector<std::string>& builds() const { return builds_; }

 private:
  void finish_stream() {
    if (stream_ != nullptr) verdict_ = std::max(verdict_, stream_->report());
    stream_.reset();
  }

  std::unique_ptr<StreamCheck> stream_;
  std::vector<std::string> builds_;
  host::CaptureEnd end_;
  Verdict verdict_ = Verdict::kEqual;
};

/// @returns whether the build id of the capture is @p wanted. An empty id is unknown, and no reason to refuse.
bool check_build(const std::string& wanted, const std::string& found, const char* whose, bool force) {
  if (wanted.empty() || found.empty() || wanted == found) return true;
  fmt::print(stderr, "{}: the capture is of build {}, {} of build {}\n", force ? "qm: warning" : "qm", found, whose,
             wanted);
  return force;
}

}  // namespace

int check(const CheckOptions& options) {
  const std::string image = options.image.empty() ? "" : host::build_id_of(options.image);
  const host::CaptureAbout about = host::CaptureReader(options.file).about();
  const auto recorded = about.find("build-id");
  const std::string with = recorded != about.end() ? recorded->second : "";
  if (!check_build(image, with, "the image is", options.force)) return kCommandFailed;
  Checker checker;
  {
    Progress progress;
    host::ReadOptions reading;
    reading.progress = progress.listener();
    host::read_events(options.file, checker, reading);
  }
  bool of_build = true;
  for (const std::string& build : checker.builds()) {
    of_build = check_build(image, build, "the image is", options.force) && of_build;
    of_build = check_build(with, build, "the file recorded with it is", options.force) && of_build;
  }
  for (const std::string& note : checker.end().notes) fmt::print("note: {}\n", note);
  if (checker.end().unknown != 0)
    fmt::print("note: skipped {} of a later minor version\n", host::counted(checker.end().unknown, "part"));
  for (const host::Problem& problem : checker.end().problems) fmt::print("problem: {}\n", problem.text);
  const Verdict verdict = of_build ? checker.verdict() : Verdict::kWrong;
  const bool complete = checker.end().complete;
  fmt::print("{}: {}\n", options.file.string(),
             !complete                          ? "incomplete"
             : verdict == Verdict::kEqual       ? "complete"
             : verdict == Verdict::kNotCompared ? "complete, but compared with nothing"
                                                : "complete, but not right");
  return complete && verdict == Verdict::kEqual ? kOk : kCommandFailed;
}

}  // namespace qm::tool
