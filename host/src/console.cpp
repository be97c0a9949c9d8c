#include <qm/host/console.hpp>

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace qm::host {
namespace {

constexpr std::string_view kPrompt = "qm> ";
constexpr std::size_t kTextKept = std::size_t{16} << 20;
/// Longer than the target's limit: an emulator that shares its processor may pause in the middle of a frame, and no
/// person types half a frame to a program.
constexpr Milliseconds kSilence{10 * wire::kSilenceMs};
constexpr Milliseconds kWriteTimeout{10'000};
// Longest wait for an answer after the target has reported a broken frame without saying which one.
constexpr Milliseconds kDoubt{2'000};
// Longest wait for the end of a command after Ctrl-C.
constexpr Milliseconds kStop{2'000};

std::string seconds(Milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  if (time.count() % 1000 != 0) text += "." + std::to_string(time.count() % 1000 + 1000).substr(1);
  return text + " s";
}

/// @returns a command as messages quote it: cut after 60 characters.
std::string quoted(std::string_view line) {
  return "\"" + escaped(line.substr(0, 60)) + (line.size() > 60 ? "...\"" : "\"");
}

}  // namespace

Console::Console(Transport transport, Transcript& transcript)
    : transport_(std::move(transport)),
      transcript_(transcript),
      frame_buffer_(wire::kMaxFrameBytes),
      demultiplexer_(frame_buffer_),
      // Answers to an earlier program on the same line must not be taken for answers to this one.
      next_request_(static_cast<std::uint32_t>(getpid()) << 16 | 1) {
  transcript_.note("attached to " + transport_.place());
}

CommandResult Console::execute(std::string_view line, Milliseconds timeout, const Listener& on_output) {
  Pending pending;
  pending.on_output = &on_output;
  return ask(wire::FrameType::kRequest, line, timeout, pending);
}

CommandResult Console::execute_for_rows(std::string_view line, Milliseconds timeout, const RowListener& on_row) {
  Pending pending;
  pending.on_row = &on_row;
  return ask(wire::FrameType::kRowRequest, line, timeout, pending);
}

CommandResult Console::ask(wire::FrameType type, std::string_view line, Milliseconds timeout, Pending& pending) {
  if (line.size() > wire::kMaxPayloadBytes) {
    throw Error(Fault::kUsage, "a command of " + std::to_string(line.size()) + " characters does not fit a frame");
  }
  pending.request = new_request();
  pending_ = &pending;
  send(type, pending.request, line);
  await(pending, timeout, quoted(line));
  return std::move(pending.result);
}

void Console::expect_answers(std::size_t count) {
  for (std::uint32_t request = 1; request <= count; ++request) expected_.emplace_back().request = request;
}

CommandResult Console::next_answer(std::string_view line, Milliseconds timeout, const Listener& on_output) {
  Pending next = std::move(expected_.front());
  expected_.pop_front();
  if (on_output && !next.result.text.empty()) on_output(next.result.text);
  next.on_output = &on_output;
  pending_ = &next;
  await(next, timeout, quoted(line));
  return std::move(next.result);
}

Identity Console::hello(Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (Clock::now() < deadline) {
    Pending pending;
    pending.request = new_request();
    pending_ = &pending;
    std::uint8_t room[64];
    send(wire::FrameType::kHello, pending.request,
         wire::as_text(pack(
             wire::HelloPayload{.max_payload_bytes = wire::kMaxPayloadBytes, .build_id = "", .text = "qm"}, room)));
    const auto again = std::min(deadline, Clock::now() + Milliseconds(500));
    while (!pending.answered && !pending.failure && Clock::now() < again) (void)pump(again);
    pending_ = nullptr;
    if (pending.failure) throw Error(*pending.failure);
    if (pending.answered) return pending.hello;
  }
  throw Error(Fault::kNoAnswer, transport_.place() + ": nobody has answered within " + seconds(timeout) +
                                    "; is the firmware running, and does no other program hold the line?");
}

bool Console::use_raw_frames(Milliseconds timeout) {
  Pending pending;
  pending.request = new_request();
  pending_ = &pending;
  said_ = Clock::now();
  send(wire::FrameType::kAskForm, pending.request, wire::as_text(wire::pack(wire::LineForm{true})));
  await(pending, timeout, "raw frames");
  raw_ = demultiplexer_.raw();
  return raw_;
}

void Console::say_that_somebody_is_here() {
  if (!raw_ || Clock::now() < said_ + Milliseconds(wire::kHeartbeatMs)) return;
  said_ = Clock::now();
  send(wire::FrameType::kAskForm, 0, wire::as_text(wire::pack(wire::LineForm{true})));
}

void Console::wait_for_prompt(Milliseconds timeout) {
  while (!at_prompt()) {
    if (!pump(Clock::now() + timeout))
      throw Error(Fault::kTimedOut, "no prompt, and nothing else for " + seconds(timeout));
  }
}

std::size_t Console::wait_for_text(std::string_view needle, Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    if (const std::size_t place = text_.find(needle); place != std::string::npos) return place + needle.size();
    if (!pump(deadline)) throw Error(Fault::kTimedOut, "no " + quoted(needle) + " within " + seconds(timeout));
  }
}

std::string Console::type_command(std::string_view line, Milliseconds timeout) {
  clear_text();
  type(std::string(line) + "\r");
  while (!at_prompt() || text_.find('\n') == std::string::npos) {
    if (!pump(Clock::now() + timeout)) {
      throw Error(Fault::kTimedOut, quoted(line) + " was typed; no prompt, and nothing else for " + seconds(timeout));
    }
  }
  std::string printed = text_.substr(text_.find('\n') + 1);
  printed.resize(printed.rfind(kPrompt));
  std::erase(printed, '\r');
  return printed;
}

void Console::type(std::string_view bytes) {
  transcript_.sent(bytes);
  if (on_line_) on_line_(Direction::kSent, bytes);
  transport_.write(bytes, Clock::now() + kWriteTimeout);
}

void Console::send(wire::FrameType type, std::uint32_t request, std::string_view payload) {
  std::string line(wire::armoured_size(payload.size()), ' ');
  if (wire::encode({type, next_sequence_, request, wire::as_bytes(payload)}, line) == 0) {
    throw Error(Fault::kUsage, "a payload of " + std::to_string(payload.size()) + " bytes does not fit a frame");
  }
  ++next_sequence_;
  if (type == wire::FrameType::kRequest || type == wire::FrameType::kRowRequest) {
    transcript_.note("request " + std::to_string(request) + ": " + std::string(payload));
  }
  this->type(line);
}

bool Console::pump(Clock::time_point deadline) {
  for (;;) {
    say_that_somebody_is_here();
    const bool held = demultiplexer_.waiting();
    auto until = held ? std::min(deadline, last_byte_ + kSilence) : deadline;
    if (raw_) until = std::min(until, said_ + Milliseconds(wire::kHeartbeatMs));
    char bytes[4096];
    const auto count = transport_.read(bytes, until);
    if (!count) {
      transcript_.note("the line was closed");
      flush_text();
      throw Error(Fault::kDied, "the line was closed");
    }
    if (*count != 0) {
      take_in({bytes, *count});
      return true;
    }
    if (held && Clock::now() >= last_byte_ + kSilence) take(demultiplexer_.timeout());
    flush_text();
    // Perhaps only the held bytes have timed out, or a message to the target was due: the caller has time left.
    if (Clock::now() >= deadline) return false;
  }
}

void Console::take_in(std::string_view received) {
  last_byte_ = Clock::now();
  if (on_line_) on_line_(Direction::kReceived, received);
  transcript_.received(received);
  for (const char byte : received) take(demultiplexer_.push(static_cast<std::uint8_t>(byte)));
  flush_text();
}

void Console::take(const wire::Demultiplexer::Step& step) {
  if (step.frame) take_frame(demultiplexer_.frame());
  if (step.broken != wire::Broken::kNone) take_broken(step.broken);
  fresh_.append(reinterpret_cast<const char*>(step.text), step.text_count);
}

void Console::take_frame(const wire::Frame& frame) {
  flush_text();
  if (const std::uint16_t lost = sequence_check_.lost_before(frame.sequence); lost != 0) {
    lost_frames_ += lost;
    transcript_.note(std::to_string(lost) + " frames lost");
    fail_pending(std::to_string(lost) + " frames of the target were lost");
  }
  if (frame.type == wire::FrameType::kError && pending_ != nullptr &&
      (frame.request == 0 || frame.request == pending_->request)) {
    take_error(frame);
  } else if (Pending* const pending = asked(frame.request)) {
    answer(*pending, frame);
  } else if (frame.type >= wire::FrameType::kStreamHeader && frame.type <= wire::FrameType::kStreamEnd) {
    if (on_stream_) on_stream_(frame);
  } else if (frame.type == wire::FrameType::kForm) {
    transcript_.note(demultiplexer_.raw() ? "frames come raw" : "frames come in armour");
  } else {
    ++ignored_frames_;
    transcript_.note("ignored a frame of type " + std::to_string(static_cast<unsigned>(frame.type)) + ", request " +
                     std::to_string(frame.request));
  }
}

/// @returns the request that waits for the answer @p request; nullptr if there is none.
Console::Pending* Console::asked(std::uint32_t request) noexcept {
  if (pending_ != nullptr && pending_->request == request) return pending_;
  for (Pending& each : expected_) {
    if (each.request == request) return &each;
  }
  return nullptr;
}

void Console::answer(Pending& pending, const wire::Frame& frame) {
  pending.damage.clear();  // another frame was the broken one
  switch (frame.type) {
    case wire::FrameType::kHello: {
      wire::HelloPayload payload;
      if (!unpack(frame.payload, payload)) return fail_pending("the target's hello is too short");
      pending.hello = {std::string(payload.text), std::string(payload.build_id)};
      pending.answered = true;
      return;
    }
    case wire::FrameType::kForm: pending.answered = true; return;  // the demultiplexer evaluates it
    case wire::FrameType::kOutput: {
      std::string text(wire::as_text(frame.payload));
      std::erase(text, '\r');
      pending.result.text += text;
      if (pending.on_output != nullptr && *pending.on_output) (*pending.on_output)(text);
      return;
    }
    case wire::FrameType::kRow: {
      ReportRow row;
      if (!read_row(frame.payload, row)) return fail_pending("a row of the target is malformed");
      if (pending.on_row != nullptr) (*pending.on_row)(row);
      return;
    }
    case wire::FrameType::kStatus: {
      wire::StatusPayload payload;
      if (!unpack(frame.payload, payload)) return fail_pending("the target's status is too short");
      pending.result.status = payload.status;
      pending.result.output_dropped = (payload.flags & wire::kOutputDropped) != 0;
      pending.answered = true;
      transcript_.note("request " + std::to_string(frame.request) + " ended: " + std::string(name(payload.status)));
      return;
    }
    default:
      ++ignored_frames_;
      transcript_.note("ignored a frame of type " + std::to_string(static_cast<unsigned>(frame.type)));
  }
}

void Console::take_error(const wire::Frame& frame) {
  wire::ErrorPayload payload;
  if (!unpack(frame.payload, payload)) return fail_pending("the target's error is too short");
  const std::string text(payload.text);
  transcript_.note("error " + std::to_string(static_cast<unsigned>(payload.error)) + " from the target: " + text);
  switch (payload.error) {
    case wire::ProtocolError::kVersion: return fail_version(payload.version);
    case wire::ProtocolError::kDamaged:
      pending_->damage = text;
      pending_->doubted_since = Clock::now();
      return;
    case wire::ProtocolError::kUnknownType:
      if (pending_->on_row != nullptr)
        return fail_pending("the target knows no rows: its firmware is older than this program");
      [[fallthrough]];
    default:
      pending_->result.text += "error: " + text + "\n";
      if (pending_->on_output != nullptr && *pending_->on_output) (*pending_->on_output)("error: " + text + "\n");
      pending_->result.status =
          payload.error == wire::ProtocolError::kBusy ? wire::CommandStatus::kBusy : wire::CommandStatus::kFailed;
      pending_->answered = true;
  }
}

void Console::take_broken(wire::Broken reason) {
  transcript_.note("broken frame: " + std::string(name(reason)));
  if (reason == wire::Broken::kVersion) {
    fail_version(demultiplexer_.header().version);
  } else if (reason != wire::Broken::kTail && reason != wire::Broken::kForeign) {
    fail_pending("a frame of the target arrived broken (" + std::string(name(reason)) + ")");
  }
}

/// Keeps the first reason. It is thrown after all received bytes are processed. Damage after the answer does not
/// concern the request.
void Console::fail_pending(const std::string& why, Fault fault) {
  if (pending_ != nullptr && !pending_->answered && !pending_->failure) pending_->failure = Error(fault, why);
}

void Console::fail_version(unsigned spoken) {
  fail_pending("the target speaks protocol version " + std::to_string(spoken) + ", this program " +
                   std::to_string(wire::kProtocolVersion),
               Fault::kVersion);
}

std::uint32_t Console::new_request() noexcept {
  if (next_request_ == 0) ++next_request_;
  return next_request_++;
}

void Console::flush_text() {
  if (fresh_.empty()) return;
  const std::string text = std::exchange(fresh_, {});
  text_ += text;
  if (text_.size() > kTextKept) text_.erase(0, text_.size() - kTextKept / 2);
  if (on_text_) on_text_(text);
}

void Console::await(Pending& pending, Milliseconds silence, const std::string& what) {
  struct Forget {
    Pending*& pending;
    ~Forget() { pending = nullptr; }
  } forget{pending_};
  while (!pending.answered && !pending.failure) {
    bool came = false;
    try {
      const auto deadline = Clock::now() + silence;
      came = pump(pending.damage.empty() ? deadline : std::min(deadline, pending.doubted_since + kDoubt));
    } catch (const Error& error) {
      if (error.fault() == Fault::kInterrupted) stop(pending);
      throw Error(error.fault(), what + ": " + error.what());
    }
    if (given_up(pending)) fail_pending("the request arrived broken at the target: " + pending.damage);
    if (!came && !pending.failure)
      throw Error(Fault::kTimedOut, what + ": no answer, and nothing else for " + seconds(silence));
  }
  if (pending.failure) throw Error(pending.failure->fault(), what + ": " + pending.failure->what());
}

/// Sends Ctrl-C and waits for the answer, at most kStop; a second interruption ends the wait.
void Console::stop(const Pending& pending) noexcept {
  try {
    type("\x03");
    for (const auto until = Clock::now() + kStop; !pending.answered && Clock::now() < until;) (void)pump(until);
  } catch (const Error&) {  // nothing more can be done
  }
}

/// Whether a request is in doubt for so long that it counts as lost.
bool Console::given_up(const Pending& pending) const {
  return !pending.answered && !pending.damage.empty() && Clock::now() >= pending.doubted_since + kDoubt;
}

bool Console::at_prompt() const noexcept { return text_.ends_with(kPrompt); }

}  // namespace qm::host
