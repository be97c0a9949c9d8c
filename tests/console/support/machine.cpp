#include "machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include <qm/test/harts.hpp>

namespace qm::test {
namespace {

constexpr std::string_view kPrompt = "qm> ";
constexpr std::chrono::seconds kBootLimit{60};
/// An emulator on a busy machine may pause in the middle of a frame for longer than the target waits for its rest.
constexpr int kMostSends = 4;
/// Longest wait for an answer after the target has reported a damaged frame, which may have been another one.
constexpr std::chrono::seconds kDoubt{2};

bool at_prompt(std::string_view text) {
  return text.ends_with(kPrompt) && (text.size() == kPrompt.size() || text[text.size() - kPrompt.size() - 1] == '\n');
}

}  // namespace

host::QemuOptions demo() {
  host::QemuOptions options;
  const char* image = std::getenv("QM_IMAGE");
  options.image = image == nullptr ? QM_DEMO_IMAGE : image;
  options.harts = harts();
  if (const char* board = std::getenv("QM_BOARD")) options.board = board;
  options.extra = {"-no-reboot"};
  return options;
}

Machine::Machine(const host::QemuOptions& options, std::string_view early, std::chrono::milliseconds delay)
    : qemu_(options), buffer_(wire::Demultiplexer::buffer_bytes(wire::kMaxPayloadBytes)), demultiplexer_(buffer_) {
  std::string command;
  for (const std::string& word : host::Qemu::arguments(options, qemu_.socket())) command += word + " ";
  transcript_.note(command);
  line_ = std::make_unique<host::Transport>(qemu_.connect(host::Clock::now() + kBootLimit));
  if (!early.empty()) {
    wait([] { return false; }, delay);
    send(early);
  }
  if (!wait([this] { return at_prompt(text_); }, kBootLimit)) fail("no prompt after the boot");
}

void Machine::fail(const std::string& what) {
  throw host::Error(
      host::Fault::kTimedOut,
      what + "\nlast text: " + host::escaped(text_.substr(text_.size() - std::min<std::size_t>(text_.size(), 400))) +
          "\ntranscript: " + transcript());
}

void Machine::send(std::string_view bytes) {
  transcript_.sent(bytes);
  line_->write(bytes, host::Clock::now() + std::chrono::seconds(20));
}

std::string Machine::type_line(std::string_view line) {
  text_.clear();
  send(std::string(line) + "\r");
  if (!wait([this] { return at_prompt(text_) && text_.find('\n') != std::string::npos; })) {
    fail("no prompt after \"" + std::string(line) + "\"");
  }
  std::string printed = text_.substr(text_.find('\n') + 1);
  printed.resize(printed.size() - kPrompt.size());
  std::erase(printed, '\r');
  return printed;
}

Machine::Answer Machine::request(std::string_view line) { return answer_to(ask(wire::FrameType::kRequest, line)); }

std::uint32_t Machine::ask(wire::FrameType type, std::string_view line) {
  const std::uint32_t number = next_request();
  const auto answered = [&] { return answer_to(number).answered; };
  for (int sent = 0; sent < kMostSends; ++sent) {
    const std::size_t before = errors().size();
    const auto damaged = [&] {
      const std::vector<wire::ProtocolError> all = errors();
      return std::find(all.begin() + static_cast<std::ptrdiff_t>(std::min(before, all.size())), all.end(),
                       wire::ProtocolError::kDamaged) != all.end();
    };
    send(frame(type, number, line));
    wait([&] { return answered() || damaged(); });
    if (answered() || wait(answered, kDoubt)) return number;
    if (!damaged()) break;
    settle();  // the rest of the damaged frame is on its way
    std::printf("the target got the frame of \"%s\" damaged; it is sent again\n", std::string(line).c_str());
  }
  fail("no status for the request \"" + std::string(line) + "\"");
}

std::vector<std::uint64_t> addresses(const std::vector<host::ReportRow>& rows, std::string_view kind) {
  std::vector<std::uint64_t> found;
  for (const host::ReportRow& row : rows) {
    if (row.kind == kind) found.push_back(row.number("address"));
  }
  return found;
}

std::vector<host::ReportRow> Machine::rows(std::string_view line) {
  const std::uint32_t number = ask(wire::FrameType::kRowRequest, line);
  std::vector<host::ReportRow> rows;
  for (const Received& received : frames_) {
    if (received.request != number || received.type != wire::FrameType::kRow) continue;
    host::ReportRow row;
    if (!host::read_row(wire::as_bytes(received.payload), row))
      fail("a malformed row of \"" + std::string(line) + "\"");
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string Machine::frame(wire::FrameType type, std::uint32_t number, std::string_view payload) {
  std::string bytes(wire::armoured_size(payload.size()), ' ');
  bytes.resize(wire::encode({type, next_sequence_++, number, wire::as_bytes(payload)}, bytes));
  return bytes;
}

Machine::Answer Machine::answer_to(std::uint32_t number) const {
  Answer answer;
  for (const Received& received : frames_) {
    if (received.request != number) continue;
    if (received.type == wire::FrameType::kOutput) answer.text += received.payload;
    wire::StatusPayload status;
    if (received.type == wire::FrameType::kStatus && wire::unpack(wire::as_bytes(received.payload), status)) {
      answer.answered = true;
      answer.status = status.status;
    }
  }
  return answer;
}

std::vector<wire::ProtocolError> Machine::errors() const {
  std::vector<wire::ProtocolError> errors;
  for (const Received& received : frames_) {
    wire::ErrorPayload error;
    if (received.type == wire::FrameType::kError && wire::unpack(wire::as_bytes(received.payload), error)) {
      errors.push_back(error.error);
    }
  }
  return errors;
}

bool Machine::wait(const std::function<bool()>& done, std::chrono::milliseconds limit) {
  const auto deadline = host::Clock::now() + limit;
  while (!done()) {
    if (!pump(deadline)) return done();
  }
  return true;
}

bool Machine::wait_for_text(std::string_view needle, std::chrono::milliseconds limit) {
  return wait([&] { return text_.find(needle) != std::string::npos; }, limit);
}

void Machine::settle(std::chrono::milliseconds silence) {
  while (pump(host::Clock::now() + silence)) {
  }
}

bool Machine::pump(host::Clock::time_point deadline) {
  char bytes[4096];
  const auto count = line_->read(bytes, deadline);
  if (!count) {
    transcript_.note("the line was closed");
    return false;
  }
  if (*count == 0) return false;
  transcript_.received({bytes, *count});
  for (std::size_t at = 0; at < *count; ++at) take(demultiplexer_.push(static_cast<std::uint8_t>(bytes[at])));
  return true;
}

void Machine::take(const wire::Demultiplexer::Step& step) {
  if (step.frame) {
    const wire::Frame& frame = demultiplexer_.frame();
    frames_.push_back({frame.type, frame.sequence, frame.request, std::string(wire::as_text(frame.payload))});
  }
  for (std::uint8_t at = 0; at < step.text_count; ++at) text_ += static_cast<char>(step.text[at]);
}

int Machine::wait_for_end() {
  settle();
  const auto status = qemu_.wait(host::Clock::now() + std::chrono::seconds(20));
  return status && !status->by_signal ? status->number : -1;
}

void Machine::clear() {
  text_.clear();
  frames_.clear();
}

std::unique_ptr<Machine> MachineTest::shared_;

Machine& MachineTest::machine() {
  if (shared_ == nullptr) shared_ = std::make_unique<Machine>();
  return *shared_;
}

void MachineTest::discard() { shared_.reset(); }

void MachineTest::expect_it_still_works() {
  machine().send("\x03");
  machine().settle();
  EXPECT_TRUE(machine().type_line("version").starts_with("Quartermaster "));
  const Machine::Answer answer = machine().request("version");
  EXPECT_TRUE(answer.text.starts_with("Quartermaster ")) << answer.text;
  EXPECT_EQ(answer.status, wire::CommandStatus::kOk);
}

void MachineTest::TearDown() {
  if (!HasFailure() || shared_ == nullptr) return;
  std::cout << "transcript: " << shared_->transcript() << "\n";
  discard();
}

}  // namespace qm::test
