#include <qm/host/target.hpp>

#include <utility>

namespace qm::host {
namespace {

/// @returns the last @p count lines of @p text, without a prompt at its end.
std::string last_lines(std::string text, unsigned count) {
  std::erase(text, '\r');
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t begin = text.size();
  while (count-- > 0 && begin != 0 && begin != std::string::npos) begin = text.rfind('\n', begin - 1);
  return begin == std::string::npos || begin == 0 ? text : text.substr(begin + 1);
}

std::string indented(const std::string& text) {
  std::string out = "\n  ";
  for (const char character : text) {
    out += character;
    if (character == '\n') out += "  ";
  }
  return out;
}

}  // namespace

Target Target::power_on(const QemuOptions& options, const TargetTimeouts& timeouts,
                        const std::function<void(const Qemu&)>& started) {
  Target target(timeouts);
  try {
    target.qemu_ = std::make_unique<Qemu>(options);
    if (started) started(*target.qemu_);
    *target.transcript_ = Transcript();
    std::string command;
    for (const std::string& argument : Qemu::arguments(options, target.qemu_->socket())) command += argument + " ";
    target.transcript_->note("process " + std::to_string(target.qemu_->pid()) + ": " + command);
    target.console_ =
        std::make_unique<Console>(target.qemu_->connect(Clock::now() + timeouts.start), *target.transcript_);
    target.console_->expect_answers(options.commands.size());
    target.only_sends_ = !options.commands.empty();
  } catch (const Error& error) {
    const Error shown = target.explained(error);
    if (target.qemu_ != nullptr) target.qemu_->kill();  // even with Lifetime::kKept: nobody can use it
    throw shown;
  }
  return target;
}

Target Target::boot(const QemuOptions& options, const TargetTimeouts& timeouts) {
  Target target = power_on(options, timeouts);
  target.greet();
  return target;
}

Target Target::open(const std::string& place, unsigned baud, const TargetTimeouts& timeouts, Keeps keeps) {
  Target target(timeouts);
  Transport line = Transport::open(place, baud, timeouts.connect);
  if (keeps == Keeps::kTranscript) *target.transcript_ = Transcript();
  target.console_ = std::make_unique<Console>(std::move(line), *target.transcript_);
  return target;
}

Target Target::attach(const std::string& place, unsigned baud, const TargetTimeouts& timeouts) {
  Target target = open(place, baud, timeouts);
  target.greet();
  return target;
}

void Target::greet() { greet(qemu_ != nullptr ? Beginning::kBoots : Beginning::kRuns); }

void Target::greet_again() {
  console_->expect_boot();
  greet(Beginning::kBoots);
}

void Target::greet(Beginning beginning) {
  try {
    if (beginning == Beginning::kBoots) console_->wait_for_prompt(timeouts_.boot);
    if (only_sends_) return;
    identity_ = console_->hello(beginning == Beginning::kBoots ? timeouts_.boot : timeouts_.hello);
  } catch (const Error& error) {
    if (qemu_ == nullptr) throw explained(error);
    const bool hangs = error.fault() == Fault::kTimedOut || error.fault() == Fault::kNoAnswer;
    const Error shown = explained(
        hangs ? Error(Fault::kNoAnswer, std::string("the target hangs while it boots: ") + error.what()) : error);
    qemu_->kill();  // even with Lifetime::kKept: nobody can use it
    throw shown;
  }
}

CommandResult Target::execute(std::string_view line, const Console::Listener& on_output) {
  try {
    if (console_->answers_left()) return console_->next_answer(line, timeouts_.command, on_output);
    return console_->execute(line, timeouts_.command, on_output);
  } catch (const Error& error) {
    throw explained(error);
  }
}

CommandResult Target::execute_for_rows(std::string_view line, const Console::RowListener& on_row) {
  try {
    return console_->execute_for_rows(line, timeouts_.command, on_row);
  } catch (const Error& error) {
    throw explained(error);
  }
}

std::string Target::type_command(std::string_view line) {
  try {
    return console_->type_command(line, timeouts_.command);
  } catch (const Error& error) {
    throw explained(error);
  }
}

ExitStatus Target::power_off(int status) {
  if (only_sends_) {
    qemu_->kill();
    return {false, status};
  }
  try {
    (void)console_->execute("poweroff " + std::to_string(status), timeouts_.end);
  } catch (const Error& error) {
    // The line may close before the answer has arrived completely.
    if (error.fault() != Fault::kDied) throw explained(error);
  }
  return wait_for_end();
}

ExitStatus Target::wait_for_end() {
  if (const auto ended = qemu_->wait(Clock::now() + timeouts_.end)) {
    transcript_->note("QEMU " + describe(*ended));
    return *ended;
  }
  const Error error = explained(Error(Fault::kTimedOut, "the target has not powered off"));
  qemu_->kill();
  throw error;
}

Error Target::explained(const Error& error) {
  transcript_->note(std::string("failed: ") + error.what());
  if (error.fault() == Fault::kVersion) return error;  // its message needs no addition
  std::string message = error.what();
  if (qemu_ != nullptr) {
    // After the line has closed, QEMU needs a moment to end.
    const auto ended =
        error.fault() == Fault::kDied ? qemu_->wait(Clock::now() + Milliseconds(2000)) : qemu_->exit_status();
    const std::string fate = "QEMU (" + qemu_->program() + ") ";
    if (ended && message.find(describe(*ended)) == std::string::npos) message += "; " + fate + describe(*ended);
    if (const std::string said = qemu_->messages(); !said.empty()) {
      message += "\nQEMU said:" + indented(last_lines(said, 10));
      transcript_->note("QEMU said: " + said);
    }
  }
  if (console_ != nullptr) {
    const std::string text = last_lines(console_->text(), 20);
    if (!text.empty()) message += "\nlast lines from the target:" + indented(text);
  }
  if (const auto& kept = transcript_->path(); !kept.empty()) message += "\ntranscript: " + kept.string();
  return {error.fault(), message};
}

}  // namespace qm::host
