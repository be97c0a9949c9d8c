#include "recorder.hpp"

#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <utility>

#include <qm/host/counted.hpp>
#include <qm/host/elf_image.hpp>
#include <qm/wire/stream.hpp>

#include "commands.hpp"

namespace qm::tool {
namespace {

// Each piece that is read from the line becomes a chunk, so small pieces are expensive; QEMU also writes faster to a
// reader that waits a little.
constexpr std::chrono::microseconds kGather{200};
constexpr host::Milliseconds kAskAgain{1000};
constexpr host::Milliseconds kShown{500};
constexpr host::Milliseconds kEndSilence{3000};
// Longest wait for the end of a stream: a stream that was not stopped does not end.
constexpr host::Milliseconds kEndLatest{15'000};

/// Prints to standard error and ignores failures: after SIGHUP the terminal is gone, and the rest of the work must
/// still be done.
template <class... Arguments>
void say(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  std::fputs(fmt::format(format, std::forward<Arguments>(arguments)...).c_str(), stderr);
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

host::CaptureAbout about(const RecordTo& to, const std::string& build_id) {
  host::CaptureAbout facts{
      {"started", now_text()}, {"command", to.command}, {"tool", "qm " QM_VERSION}, {"line", to.line}};
  utsname system{};
  if (uname(&system) == 0) facts["host"] = fmt::format("{} {} {}", system.nodename, system.sysname, system.release);
  if (to.baud != 0) facts["baud"] = std::to_string(to.baud);
  if (!to.image.empty()) {
    std::error_code ignored;
    facts["image"] = std::filesystem::absolute(to.image, ignored).string();
    facts["image-bytes"] = std::to_string(std::filesystem::file_size(to.image, ignored));
  }
  if (!build_id.empty()) facts["build-id"] = build_id;
  return facts;
}

std::string build_id_or_nothing(const std::filesystem::path& image) {
  return image.empty() ? "" : host::build_id_of(image);
}

}  // namespace

Recorder::Recorder(host::Console& console, const RecordTo& to)
    : console_(console),
      writer_(to.file, about(to, build_id_or_nothing(to.image))),
      image_build_id_(build_id_or_nothing(to.image)),
      streams_(passing_) {
  console_.transport().gather(kGather);
  console_.on_line([this](host::Direction direction, std::string_view bytes) {
    direction == host::Direction::kReceived ? writer_.received(bytes) : writer_.sent(bytes);
  });
  console_.on_stream([this](const wire::Frame& frame) { (void)streams_.take(frame); });
  if (!to.image.empty()) writer_.image(to.image);
}

Recorder::~Recorder() {
  console_.on_line({});
  console_.on_stream({});
}

void Recorder::identify(const host::Identity& identity, bool force) {
  writer_.note("target " + identity.text);
  const std::string& build_id = identity.build_id;
  if (image_build_id_.empty() || build_id.empty() || image_build_id_ == build_id) return;
  if (!force) {
    throw host::Error(host::Fault::kInput, "the target runs another image: its build id is " + build_id +
                                               ", the file's " + image_build_id_ + " (--force records nevertheless)");
  }
  writer_.note("recorded by force with the image of another build");
}

void Recorder::await_end_of_stream() {
  const auto latest = host::Clock::now() + kEndLatest;
  while (streams_.running() && host::Clock::now() < latest && console_.pump(host::Clock::now() + kEndSilence)) {
    ask_for_what_is_missing();
  }
}

void Recorder::ask_for_what_is_missing() {
  const auto now = host::Clock::now();
  if (!streams_.wants_definitions() || now < asked_ + kAskAgain) return;
  asked_ = now;
  ask_for_definitions(console_, streams_);
}

void ask_for_definitions(host::Console& console, host::StreamReader& streams) {
  streams.asked_for_definitions();
  std::uint8_t room[16];
  wire::ByteWriter out(room);
  if (pack(out, wire::Ask{})) console.send(wire::FrameType::kAsk, 0, wire::as_text(out.written()));
}

std::string Recorder::figures() const {
  const std::chrono::duration<double> since = host::Clock::now() - start_;
  std::string text = fmt::format("{:.1f} s, {}, {}", since.count(), host::counted(writer_.received_bytes(), "byte"),
                                 host::counted(passing_.events, "event"));
  if (passing_.overruns != 0) text += fmt::format(", {} dropped by the target", passing_.overruns);
  if (streams_.lost_frames() != 0)
    text += fmt::format(", {} lost on the line", host::counted(streams_.lost_frames(), "frame"));
  return text;
}

Interruptible::Interruptible() {
  struct sigaction action {};
  action.sa_handler = [](int) { host::Transport::interrupt(); };
  for (std::size_t each = 0; each < kSignals.size(); ++each) sigaction(kSignals[each], &action, &before_[each]);
}

Interruptible::~Interruptible() {
  for (std::size_t each = 0; each < kSignals.size(); ++each) sigaction(kSignals[each], &before_[each], nullptr);
}

void Recorder::end(const std::string& why) {
  if (ended_) return;
  ended_ = true;
  streams_.finish({});  // the last events would wait for others that no longer come
  writer_.end(why);
  say("recorded {}: {}\n", writer_.path().string(), figures());
}

namespace {

/// Receives until the time is over. @returns why it ended.
std::string listen(host::Target& target, Recorder& recorder, double seconds) {
  const bool for_ever = seconds <= 0;
  const auto end =
      host::Clock::now() + std::chrono::duration_cast<host::Clock::duration>(std::chrono::duration<double>(seconds));
  const bool shown = isatty(STDERR_FILENO) != 0;
  auto next = host::Clock::now();
  std::string why = "the time was over";
  try {
    while (for_ever || host::Clock::now() < end) {
      (void)target.console().pump(
          std::min(for_ever ? host::Clock::time_point::max() : end, host::Clock::now() + kShown));
      recorder.ask_for_what_is_missing();
      if (shown && host::Clock::now() >= next) {
        next = host::Clock::now() + kShown;
        say("\r{}  ", recorder.figures());
        std::fflush(stderr);
      }
    }
  } catch (const host::Error& error) {
    if (error.fault() != host::Fault::kInterrupted && error.fault() != host::Fault::kDied) throw;
    why = error.fault() == host::Fault::kInterrupted ? "Ctrl-C" : "the line was closed";
  }
  if (shown) say("\n");
  return why;
}

}  // namespace

bool start_stream(host::Target& target, const std::string& command) {
  const host::CommandResult result = target.execute(command);
  if (!result.ok()) say("qm: {}: {}", command, result.text);
  return result.ok();
}

void stop_stream(host::Target& target, Recorder& recorder) {
  const host::CommandResult result = target.execute("kmemtrace stop");
  if (!result.ok()) say("qm: kmemtrace stop: {}", result.text);
  recorder.await_end_of_stream();
}

int record(const RecordOptions& options) {
  host::Target target =
      // the capture has the bytes
      host::Target::open(options.serial, options.baud, options.timeouts, host::Keeps::kNothing);
  const Interruptible interruptible;
  Recorder recorder(target.console(), options.to);
  try {
    target.greet();
    recorder.identify(target.identity(), options.force);
    if (options.raw) use_raw_frames(target, options.timeouts);
    if (!options.start.empty() && !start_stream(target, options.start)) {
      recorder.end("the stream was not started");
      return kCommandFailed;
    }
    const std::string why = listen(target, recorder, options.seconds);
    if (!options.start.empty() && why != "the line was closed") stop_stream(target, recorder);
    recorder.end(why);
    return kOk;
  } catch (const host::Error& error) {
    recorder.end(error.what());
    if (error.fault() == host::Fault::kInterrupted) return kOk;
    throw;
  }
}

}  // namespace qm::tool
