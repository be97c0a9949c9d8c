#pragma once
/// The console reads bytes from a serial line and writes bytes to it. Text for people and frames for programs share the
/// line (docs/protocol.md).
///
///     Terminal::read ─▶ feed() ─▶ demultiplexer ─┬─ text ──▶ receive ring ─▶ line editor ─┬─▶ dispatch ─▶ command
///     (or the embedder calls feed())             ├─ Ctrl-C while a command runs: abort    │
///                                                ├─ request ──▶ one may wait ─────────────┘
///                                                └─ hello, broken frame: answered at once
///
/// Invariants
///  1. One command runs at a time. Input that arrives meanwhile waits: text in the receive ring, and one request beside
///     it. The console handles both in the order of their arrival.
///  2. The console reads input, answers frames and recognizes Ctrl-C whenever a command yields, not only between
///     commands.
///  3. Ctrl-C aborts the running command and drops the text typed before it, as a terminal's driver does. It never
///     drops a request.
///  4. A line that lost a byte is not run. The console erases the received part and drops the rest up to the line end,
///     or until nothing has arrived for wire::kSilenceMs. A line that began before start() counts as such a line,
///     because a boot loader may have consumed its beginning.
///  5. The console allocates nothing and holds no lock while a command runs.
///  6. The console sends raw frames only while a host keeps asking for them. Otherwise, and after a hello, it sends
///     frames in armour.
///
/// Context: one task calls all functions except notify(). The task yields through Terminal::yield(), which may call
///          only feed() and notify() of the console.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/console/trace_backend.hpp>
#include <qm/console/command.hpp>
#include <qm/console/exhaustion_log.hpp>
#include <qm/console/line_editor.hpp>
#include <qm/console/misuse_log.hpp>
#include <qm/console/notices.hpp>
#include <qm/console/output.hpp>
#include <qm/wire/demultiplexer.hpp>
#include <qm/wire/frame.hpp>

namespace qm::console {

/// The serial line, which the embedder implements.
class Terminal {
 public:
  /// Sends @p bytes before it returns, or queues them. The bytes of one call (a line or a frame) stay together on the
  /// serial line. Must not call the console.
  virtual void write(std::string_view bytes) noexcept = 0;

  /// Reads up to bytes.size() received bytes, without waiting. @returns their number. Not needed if the embedder calls
  /// feed().
  virtual std::size_t read(std::span<char> bytes) noexcept {
    (void)bytes;
    return 0;
  }

  /// @returns how many bytes the driver dropped since the last call. All of them arrived after the bytes that read()
  ///          has returned.
  virtual std::size_t take_lost() noexcept { return 0; }

  /// Lets other tasks of this hart run for a while. Called between the lines of a report.
  virtual void yield() noexcept {}

  /// A time that never goes back. The default asks the port.
  virtual std::uint64_t milliseconds() noexcept;

 protected:
  ~Terminal() = default;
};

/// The function or variable of the image that contains an address.
struct Symbol {
  std::string_view name;
  std::size_t offset = 0;  ///< of the address in the symbol, in bytes
  std::size_t size = 0;    ///< of the symbol, in bytes; 0: not known
  bool is_function = true;
};

/// Finds the function or variable that contains @p address. @returns false if none is known. Must not allocate.
using SymbolResolver = bool (*)(std::uintptr_t address, Symbol& symbol) noexcept;

/// Finds the function or variable called @p name. @returns false if there is none. Must not allocate.
using SymbolFinder = bool (*)(std::string_view name, std::uintptr_t& address) noexcept;

/// Describes an address in words that the firmware knows: `the stack of hart 0 task main`. @returns the number of
/// characters written to @p text; 0 if the firmware knows nothing. Must not allocate.
using PlaceDescriber = std::size_t (*)(std::uintptr_t address, std::span<char> text) noexcept;

struct ConsoleConfig {
  std::string_view version = {};
  std::string_view build_id = {};  ///< of the image, in hexadecimal digits; empty: not known, and not in the banner
  unsigned harts = 1;
  std::uint64_t ram_bytes = 0;        ///< of the machine; 0: not known, and not in the banner
  SymbolResolver resolver = nullptr;  ///< null: addresses have no names
  SymbolFinder finder = nullptr;      ///< null: `whatis` accepts no names
  Completer symbols = nullptr;        ///< offers the names that finder knows; null: Tab completes no names
  PlaceDescriber describe = nullptr;  ///< null: `whatis` describes only the allocator's memory
  std::string_view prompt = kPrompt;
  /// Names and patterns, separated by commas, of the caches and arenas that background tasks use. `leaks` and `expect`
  /// leave them out unless the command names them.
  std::string_view background = {};
  std::uint32_t baud =
      0;  ///< bits per second of the serial line, 10 bits a character; 0: not known, and no duration is estimated
  /// Commands that run after a report of exhaustion was printed, such as `findleaks`, as if they were typed. The text
  /// must live as long as the console. Reports that come while they run cause no further run.
  std::string_view on_exhaustion = {};
  void (*wake)() noexcept = nullptr;  ///< called when notify() has given poll() something to do. Context: as notify()
};

/// Version of the text formats in docs/console.md. It is raised when a fixed part of a format changes.
inline constexpr unsigned kFormats = 2;

class Console {
 public:
  static constexpr std::size_t kReceiveBytes = 1024;
  static constexpr std::size_t kOutputPayload = 512;    ///< of an output frame
  static constexpr std::uint64_t kOutputDelayMs = 100;  ///< output for a program waits at most this long for more
  /// The time between two reads of the line counts as silence only up to this limit. So a pause of the firmware or of
  /// an emulator does not break a frame that is being sent.
  static constexpr unsigned kLookMs = wire::kSilenceMs / 4;

  explicit Console(Terminal& terminal, const ConsoleConfig& config) noexcept;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Makes the console use @p trace from here on. Trace calls it. Context: before start().
  void use(TraceBackend& trace) noexcept { trace_ = &trace; }
  [[nodiscard]] TraceBackend& trace() noexcept { return *trace_; }

  /// Prints the banner and the first prompt. To be called once, before poll(). The console drops the line that the
  /// terminal has begun to receive (invariant 4), and keeps the lines after it.
  void start() noexcept;
  /// Replaces start() when this console takes over the serial line of @p former, which never polls again. Prints the
  /// notices and reports that @p former has not printed, and no banner.
  void take_over(Console& former) noexcept;

  /// Receives @p bytes from the serial line. Terminal::yield() may call it while a command runs.
  void feed(std::span<const char> bytes) noexcept;

  /// Queues @p line as the request @p number, as if a frame had brought it. The answer goes to the serial line.
  /// @returns false, with nothing changed, if another request waits.
  [[nodiscard]] bool request(std::string_view line, std::uint32_t number) noexcept {
    return request(line, number, Answer::kText);
  }

  /// Runs @p line as if it had been typed, and prints its output without a prompt. It is for firmware with its own
  /// shell, which calls neither start() nor poll(). @returns the status of the last command. Context: no command runs.
  CommandStatus run(std::string_view line) noexcept;

  /// Does all work that is due: reads the terminal, edits the line, runs complete commands, prints notices. To be
  /// called when bytes have arrived, after notify() (see ConsoleConfig::wake), and, while needs_poll() is true, at
  /// least every poll_ms() milliseconds.
  /// @returns whether there was any work.
  bool poll() noexcept;

  /// Whether poll() may have work without new input: a timeout that ends a frame or a line that lost a byte, a stop
  /// that a hart has not answered, or the event stream.
  [[nodiscard]] bool needs_poll() const noexcept;
  /// The longest time between two calls of poll() while needs_poll(), in milliseconds.
  [[nodiscard]] unsigned poll_ms() const noexcept {
    return demultiplexer_.waiting() || lost_ != 0 ? std::min(kLookMs, trace_->poll_ms()) : trace_->poll_ms();
  }

  /// Queues @p text, which the console prints on lines of its own when that disturbs no other output. A final line end
  /// is optional.
  /// @returns false if there is no room; the notice is then counted as lost.
  /// Context: any hart, any interrupt level.
  bool notify(std::string_view text) noexcept { return woken(notices_.add(text)); }

  /// Queues a report of misuse, which is printed with the names of the functions on its stacks.
  /// @returns as notify(). Context: any hart, any interrupt level.
  bool notify(const MisuseReport& report) noexcept { return woken(misuse_.add(report)); }

  /// Queues a report of exhaustion, which is printed with the stacks that hold the most at the time of this call.
  /// @returns as notify(). Complexity and context: as ExhaustionLog::add().
  bool notify(const ExhaustionReport& report) noexcept { return woken(exhaustion_.add(report, *trace_)); }

  [[nodiscard]] const ConsoleConfig& config() const noexcept { return config_; }
  [[nodiscard]] ConsoleConfig& config() noexcept { return config_; }
  /// Finds the function or variable that contains @p address. @returns false if none is known.
  [[nodiscard]] bool resolve(std::uintptr_t address, Symbol& symbol) const noexcept {
    return config_.resolver != nullptr && config_.resolver(address, symbol);
  }
  /// Sends a frame, raw or in armour as the host asked (invariant 6). Context: the console's task.
  void send_frame(wire::FrameType type, std::uint32_t request, std::span<const std::uint8_t> payload) noexcept;
  /// Prints the banner line: name, version, build, harts, memory, formats.
  void print_banner(Output& out) const noexcept;

  /// Reads input of the console that runs a command. It is for waits that cannot yield, such as a broadcast, and has
  /// the signature of hal::AbortTest. @returns whether Ctrl-C was seen; false while no console runs a command.
  [[nodiscard]] static bool abort_requested() noexcept;

 private:
  bool woken(bool kept) const noexcept {
    if (config_.wake != nullptr) config_.wake();
    return kept;
  }
  friend class Announcement;
  friend class Invocation;

  enum class Answer : std::uint8_t { kText, kRows };

  // input
  bool request(std::string_view line, std::uint32_t number, Answer answer) noexcept;
  void pump() noexcept;
  void take(const wire::Demultiplexer::Step& step) noexcept;
  void take_text(std::uint8_t byte) noexcept;
  void take_frame(const wire::Frame& frame) noexcept;
  void take_request(const wire::Frame& frame) noexcept;
  void take_broken(wire::Broken reason) noexcept;
  void lose(std::size_t bytes) noexcept;
  void lose_begun_line() noexcept;
  [[nodiscard]] bool silent() const noexcept { return silence_ms_ >= wire::kSilenceMs; }
  bool ring_push(std::uint8_t byte, std::uint32_t reserve) noexcept;
  [[nodiscard]] bool ring_empty() const noexcept { return ring_head_ == ring_tail_; }
  bool ring_drop_through_abort() noexcept;

  // work
  bool step() noexcept;
  void edit(std::uint8_t byte) noexcept;
  void complete(bool list) noexcept;
  void offer_candidates(Completion& completion) noexcept;
  void run_request() noexcept;
  CommandStatus dispatch(std::string_view line, Output& out) noexcept;
  CommandStatus dispatch_one(std::string_view line, Output& out) noexcept;
  bool yield_for(Output& out) noexcept;
  void answer_for(CommandStatus status) noexcept;
  void begin_lines() noexcept;
  void end_lines() noexcept;
  bool print_notices() noexcept;
  void print_reports_of(Console& told) noexcept;
  void print_misuse(MisuseLog& log) noexcept;
  void print_exhaustion(ExhaustionLog& log) noexcept;
  bool follow_exhaustion() noexcept;
  void report_lost() noexcept;

  // output
  void send_status(CommandStatus status) noexcept;
  void send_error(wire::ProtocolError error, std::uint32_t request, std::string_view text) noexcept;
  void send_hello(std::uint32_t request) noexcept;
  void take_form(const wire::Frame& frame) noexcept;
  void send_form(std::uint32_t request) noexcept;
  static void write_text(void* console, std::string_view bytes) noexcept;
  static void write_output_frame(void* console, std::string_view bytes) noexcept;
  static void write_line_row(void* console, std::string_view bytes) noexcept;
  static void write_row(void* console, std::span<const std::uint8_t> row) noexcept;

  Terminal& terminal_;
  ConsoleConfig config_;
  TraceBackend* trace_ = &TraceBackend::none;

  std::array<std::uint8_t, wire::Demultiplexer::buffer_bytes(kMaxLine)> frame_in_{};
  wire::Demultiplexer demultiplexer_;
  std::uint64_t looked_ms_ = 0;   // when pump() last read bytes
  std::uint64_t silence_ms_ = 0;  // since the last byte; the time between two reads counts as at most kLookMs

  std::array<std::uint8_t, kReceiveBytes> ring_;
  std::uint32_t ring_head_ = 0;  // free-running
  std::uint32_t ring_tail_ = 0;
  std::size_t lost_ = 0;          // bytes not yet reported
  bool losing_ = false;           // dropping up to the next line end
  bool clean_since_loss_ = true;  // the ring has no byte of a line after the last erasing mark

  std::array<char, kMaxLine> request_line_;
  std::size_t request_length_ = 0;
  std::uint32_t request_ = 0;
  std::uint32_t request_position_ = 0;  // in the ring: the text before this position arrived before the request
  bool request_waits_ = false;
  Answer request_answer_ = Answer::kText;

  std::array<char, 160> text_buffer_;
  Output text_;
  LineEditor editor_;
  Notices notices_;
  MisuseLog misuse_;
  ExhaustionLog exhaustion_;
  bool exhaustion_told_ = false;  // a report was printed, and the commands that follow it have not run
  bool prompt_shown_ = false;

  bool running_ = false;
  bool abort_ = false;
  bool answering_ = false;  // the running command is a request whose status has not been sent
  std::uint32_t running_request_ = 0;
  const Output* rows_out_ = nullptr;  // output of the running command, if it answers with rows
  std::uint64_t output_since_ms_ = 0;
  std::array<char, kOutputPayload> output_buffer_;
  std::array<char, wire::armoured_size(wire::kMaxPayloadBytes)> frame_out_;
  std::uint16_t sequence_ = 0;
  bool raw_ = false;            // frames go out raw: invariant 6
  std::uint64_t asked_ms_ = 0;  // when a host last asked for a form
};

}  // namespace qm::console
