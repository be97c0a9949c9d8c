/// The console, first half: it edits lines, runs commands and prints.

#include <qm/console/console.hpp>

#include <qm/console/row.hpp>
#include <qm/console/text.hpp>
#include <qm/hal/hart.hpp>

namespace qm::console {
namespace {

constexpr std::uint8_t kCtrlC = 0x03;

/// @returns @p line up to the first word that begins with `#`.
std::string_view without_comment(std::string_view line) noexcept {
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '#' && (at == 0 || Words::is_blank(line[at - 1]) || line[at - 1] == ';')) return part(line, 0, at);
  }
  return line;
}

/// @returns the command called @p word, the first word of a line; nullptr if there is none.
const Command* find_command(std::string_view word) noexcept {
  return CommandTable::find(word == "?" ? std::string_view("help") : word);
}

/// The console that runs a command, for abort_requested().
constinit Console* active = nullptr;

}  // namespace

std::uint64_t Terminal::milliseconds() noexcept { return hal::Port::ticks() / (hal::Port::tick_rate() / 1000); }

Console::Console(Terminal& terminal, const ConsoleConfig& config) noexcept
    : terminal_(terminal),
      config_(config),
      demultiplexer_(frame_in_, wire::Demultiplexer::Side::kTarget),
      text_(text_buffer_, Output::Target::kTerminal, &Console::write_text, this),
      editor_(text_, config.prompt) {}

void Console::write_text(void* console, std::string_view bytes) noexcept {
  static_cast<Console*>(console)->terminal_.write(bytes);
}

void Console::write_output_frame(void* console, std::string_view bytes) noexcept {
  auto& self = *static_cast<Console*>(console);
  if (!self.answering_) return;  // the request has been answered: its status is the last frame
  self.send_frame(wire::FrameType::kOutput, self.running_request_, wire::as_bytes(bytes));
}

/// Sends printed text to a program that has asked for rows: a line, or a part of a line that does not fit the buffer.
void Console::write_line_row(void* console, std::string_view bytes) noexcept {
  auto& self = *static_cast<Console*>(console);
  std::uint8_t payload[kOutputPayload + 32];
  wire::RowWriter row(payload, self.rows_out_->line_kind());
  row.text("line", bytes);
  write_row(console, row.written());
}

void Console::write_row(void* console, std::span<const std::uint8_t> row) noexcept {
  auto& self = *static_cast<Console*>(console);
  if (self.answering_) self.send_frame(wire::FrameType::kRow, self.running_request_, row);
}

void Console::print_banner(Output& out) const noexcept {
  Row row(out, "version");
  row.print("Quartermaster {version}", config_.version);
  if (!config_.build_id.empty()) row.print(" build {build}", config_.build_id);
  row.print(", {harts}", Counted{config_.harts, "hart/harts"});
  if (config_.ram_bytes != 0) row.print(", {ram_mib} MiB", config_.ram_bytes >> 20);
  row.print(", formats {formats}\n", kFormats);
}

void Console::start() noexcept {
  text_.whole_line();
  print_banner(text_);
  lose_begun_line();
  take_over(*this);
}

void Console::take_over(Console& former) noexcept {
  print_reports_of(former);
  editor_.next_line();
  text_.flush();
  prompt_shown_ = true;
}

// ---- the loop -------------------------------------------------------------------------------------------------------

bool Console::poll() noexcept {
  if (running_) return false;
  pump();
  bool worked = print_notices();
  if (follow_exhaustion()) worked = true;
  while (step()) {
    worked = true;
    pump();
  }
  report_lost();
  if (!worked && trace_->finish(terminal_.milliseconds())) worked = true;
  text_.flush();
  return trace_->send(terminal_.milliseconds()) || worked;
}

bool Console::needs_poll() const noexcept { return demultiplexer_.waiting() || lost_ != 0 || trace_->waiting(); }

/// Handles the next byte or the waiting request, in the order of their arrival. @returns false if there is neither.
bool Console::step() noexcept {
  // The request's position may be older than the tail: Ctrl-C drops the text that arrived before the request.
  const bool request_first = static_cast<std::int32_t>(request_position_ - ring_tail_) <= 0;
  if (request_waits_ && (request_first || ring_empty())) {
    run_request();
    return true;
  }
  if (ring_empty()) return false;
  edit(ring_[ring_tail_++ % kReceiveBytes]);
  return true;
}

void Console::edit(std::uint8_t byte) noexcept {
  const LineEditor::Event event = editor_.push(byte);
  switch (event) {
    case LineEditor::Event::kNone: return;
    case LineEditor::Event::kComplete:
    case LineEditor::Event::kList: complete(event == LineEditor::Event::kList); return;
    case LineEditor::Event::kLine:
    case LineEditor::Event::kTooLong:
    case LineEditor::Event::kAbandoned: break;
  }
  prompt_shown_ = false;
  if (event == LineEditor::Event::kLine) run(editor_.line());
  if (event == LineEditor::Event::kTooLong) text_.print("error: line longer than {} characters\n", kMaxLine);
  report_lost();
  editor_.next_line();
  prompt_shown_ = true;
}

// ---- commands -------------------------------------------------------------------------------------------------------

CommandStatus Console::run(std::string_view line) noexcept {
  text_.flush();
  running_ = true;
  abort_ = ring_drop_through_abort();
  active = this;
  const CommandStatus status = dispatch(line, text_);
  active = nullptr;
  running_ = false;
  if (!text_.at_line_start()) text_.put('\n');
  print_notices();
  text_.flush();
  return status;
}

void Console::run_request() noexcept {
  text_.flush();
  request_waits_ = false;
  running_request_ = request_;
  running_ = true;
  answering_ = true;
  abort_ = false;
  active = this;
  // A copy, because another request may arrive and wait while this one runs.
  const std::array<char, kMaxLine> line = request_line_;
  const bool rows = request_answer_ == Answer::kRows;
  Output out(output_buffer_, rows ? Output::Target::kRows : Output::Target::kFrames,
             rows ? &Console::write_line_row : &Console::write_output_frame, this, &Console::write_row);
  rows_out_ = rows ? &out : nullptr;
  const CommandStatus status = dispatch({line.data(), request_length_}, out);
  rows_out_ = nullptr;
  out.flush();
  if (answering_) send_status(status);
  active = nullptr;
  answering_ = false;
  running_ = false;
  // Ctrl-C also abandons the line that is being typed.
  if (abort_ && !editor_.line().empty()) edit(kCtrlC);
}

/// Runs the commands of a line, which semicolons separate, up to the first that fails.
CommandStatus Console::dispatch(std::string_view line, Output& out) noexcept {
  line = without_comment(line);
  CommandStatus status = CommandStatus::kOk;
  while (status == CommandStatus::kOk && !line.empty()) {
    const std::size_t end = find(line, ';');
    status = dispatch_one(part(line, 0, end), out);
    line = end == kNowhere ? std::string_view() : part(line, end + 1);
  }
  return status;
}

CommandStatus Console::dispatch_one(std::string_view line, Output& out) noexcept {
  const Words words(line);
  if (words.empty()) return CommandStatus::kOk;
  const Command* command = find_command(words[0]);
  if (command == nullptr) {
    out.begin_line("error");
    out.print("unknown command \"{}\" (try help)\n", words[0]);
    return CommandStatus::kUnknownCommand;
  }
  Invocation call(*this, *command, words, out);
  if (hal::in_panic() && !command->in_panic) return call.fail("not in panic");
  const std::size_t arguments = words.size() - 1;
  if (arguments < command->min_arguments || arguments > command->max_arguments) return call.usage();
  if (!out.rows()) out.wrap(command->wrap);
  const CommandStatus status = command->run(call);
  out.wrap(Output::Wrap::kNo);
  return status;
}

bool Console::yield_for(Output& out) noexcept {
  if (&out == &text_) {
    out.flush();
  } else if (out.empty()) {
    output_since_ms_ = terminal_.milliseconds();
  } else if (terminal_.milliseconds() - output_since_ms_ >= kOutputDelayMs) {
    out.flush();
    output_since_ms_ = terminal_.milliseconds();
  }
  if (&out != &text_ || out.at_line_start()) print_notices();
  (void)trace_->send(terminal_.milliseconds());
  terminal_.yield();
  pump();
  return !abort_;
}

void Console::answer_for(CommandStatus status) noexcept {
  if (answering_) send_status(status);
  answering_ = false;
}

bool Console::abort_requested() noexcept {
  if (active == nullptr) return false;
  active->pump();
  return active->abort_;
}

// ---- asynchronous text ----------------------------------------------------------------------------------------------

void Console::print_reports_of(Console& told) noexcept {
  char line[Notices::kMaxLine];
  while (const std::size_t length = told.notices_.take(line)) text_.print("{}\n", std::string_view(line, length));
  if (const std::uint32_t lost = told.notices_.take_lost(); lost > 0)
    text_.print("{} lost\n", Counted{lost, "notice/notices"});
  const Output::Wrap wrap = text_.wrap();
  text_.wrap(Output::Wrap::kYes);
  print_misuse(told.misuse_);
  print_exhaustion(told.exhaustion_);
  text_.wrap(wrap);
}

/// Moves the terminal's cursor below the line being typed.
void Console::begin_lines() noexcept {
  if (prompt_shown_) text_.raw("\r\n");
}

/// Shows the line being typed again, and flushes the text printed meanwhile.
void Console::end_lines() noexcept {
  if (!text_.at_line_start()) text_.put('\n');
  if (prompt_shown_) editor_.redraw();
  text_.flush();
}

bool Console::print_notices() noexcept {
  if (!notices_.pending() && !misuse_.pending() && !exhaustion_.pending()) return false;
  const Output::Wrap wrap = text_.wrap();
  text_.wrap(Output::Wrap::kNo);
  begin_lines();
  print_reports_of(*this);
  end_lines();
  text_.wrap(wrap);
  return true;
}

/// Runs the commands that follow a report of exhaustion. @returns false if there is nothing to run.
bool Console::follow_exhaustion() noexcept {
  if (!exhaustion_told_ || config_.on_exhaustion.empty()) return false;
  begin_lines();
  const bool shown = prompt_shown_;
  prompt_shown_ = false;
  run(config_.on_exhaustion);
  exhaustion_told_ = false;
  prompt_shown_ = shown;
  end_lines();
  return true;
}

/// Reports lost bytes, once the ring is empty and the line that lost a byte has ended. Input from then on is a new
/// line.
void Console::report_lost() noexcept {
  if (lost_ == 0 || !ring_empty() || (losing_ && !silent())) return;
  if (prompt_shown_) text_.raw("\r\n");
  text_.print("error: {} of input lost\n", Counted{lost_, "byte/bytes"});
  if (prompt_shown_) editor_.redraw();
  lost_ = 0;
  losing_ = false;
}

// ---- completion -----------------------------------------------------------------------------------------------------

void Console::offer_candidates(Completion& completion) noexcept {
  if (completion.index() == 0) {
    for (const Command* c = CommandTable::after({}); c != nullptr; c = CommandTable::after(c->name))
      completion.offer(c->name);
    return;
  }
  const Command* command = find_command(completion.words()[0]);
  if (command != nullptr && command->complete != nullptr) command->complete(completion);
}

void Console::complete(bool list) noexcept {
  std::string_view typed = editor_.before_cursor();
  for (std::size_t end = find(typed, ';'); end != kNowhere; end = find(typed, ';')) typed = part(typed, end + 1);
  std::size_t start = typed.size();
  while (start > 0 && !Words::is_blank(typed[start - 1])) --start;
  const Words before(part(typed, 0, start));
  const std::string_view prefix = part(typed, start);
  if (list) {
    text_.raw("\r\n");
    Completion shown(before, prefix, &text_, config_.symbols);
    offer_candidates(shown);
    if (shown.count() > Completion::kMaxListed) text_.print("\n{} more\n", shown.count() - Completion::kMaxListed);
    if (!text_.at_line_start()) text_.put('\n');
    editor_.redraw();
    return;
  }
  Completion found(before, prefix, nullptr, config_.symbols);
  offer_candidates(found);
  if (found.count() == 0) return;
  editor_.insert(part(found.common(), prefix.size()));
  if (found.count() == 1) editor_.insert(" ");
}

}  // namespace qm::console
