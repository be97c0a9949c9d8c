#pragma once
/// The console: bytes of a line in, bytes out. Text for people and frames for programs share the line
/// (docs/protocol.md).
///
///     Terminal::read ─▶ feed() ─▶ demultiplexer ─┬─ text ──▶ receive ring ─▶ line editor ─┬─▶ dispatch ─▶ command
///     (or the embedder calls feed())             ├─ Ctrl-C while a command runs: abort    │
///                                                ├─ request ──▶ one may wait ─────────────┘
///                                                └─ hello, broken frame: answered at once
///
/// Invariants
///  1. One command at a time. What arrives while it runs waits: text in the receive ring, one request beside it; they
///     are taken in the order of their arrival.
///  2. Input is taken in, frames are answered and Ctrl-C is seen whenever a command yields, not only between commands.
///  3. Ctrl-C aborts the running command and drops the text typed before it, as a terminal's driver does; never a
///     request.
///  4. A line of which a byte was lost is not run: what came of it is erased, and its rest is dropped up to the line end,
///     or until nothing has come for wire::kSilenceMs. A line that began before start() counts as one, because a boot
///     loader may have taken its beginning.
///  5. Nothing is allocated; no lock is held while a command runs.
///  6. Frames go out raw only while a host asks for it, again and again; else, and after a hello, in armour.
///
/// Context: all functions but notify() belong to one task. The task yields through Terminal::yield(), which must not
///          call the
/// console but feed() and notify().

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/console/books.hpp>
#include <qm/console/command.hpp>
#include <qm/console/exhaustion_log.hpp>
#include <qm/console/line_editor.hpp>
#include <qm/console/misuse_log.hpp>
#include <qm/console/notices.hpp>
#include <qm/console/output.hpp>
#include <qm/wire/demultiplexer.hpp>
#include <qm/wire/frame.hpp>

namespace qm::console {

/// What the embedder supplies.
class Terminal {
 public:
  /// Sends @p bytes before it returns, or queues them. The bytes of one call - a line, a frame - stay together on the
  /// line. Must not call the console.
  virtual void write(std::string_view bytes) noexcept = 0;

  /// Takes up to bytes.size() received bytes, without waiting. @returns how many. Not needed where feed() is called.
  virtual std::size_t read(std::span<char> bytes) noexcept {
    (void)bytes;
    return 0;
  }

  /// @returns how many bytes the driver had to drop since the last call, all of them after those that read() has
  ///          returned.
  virtual std::size_t take_lost() noexcept { return 0; }

  /// Lets other tasks of this hart run for a while. Called between the lines of a report.
  virtual void yield() noexcept {}

  /// A time that never goes back. The default asks the port.
  virtual std::uint64_t milliseconds() noexcept;

 protected:
  ~Terminal() = default;
};

/// A function of the image, around an address.
struct Symbol {
  std::string_view name;
  std::size_t offset = 0;  ///< of the address in the function
  std::size_t size = 0;    ///< of the function; 0: not known
};

/// Finds the function that contains @p address. @returns false if none is known. Must not allocate.
using SymbolResolver = bool (*)(std::uintptr_t address, Symbol& symbol) noexcept;

/// Finds the function called @p name. @returns false if there is none. Must not allocate.
using SymbolFinder = bool (*)(std::string_view name, std::uintptr_t& address) noexcept;

/// Writes what the firmware knows of an address, in words: `the stack of hart 0 task main`. @returns how many characters; 0:
/// nothing. Must not allocate.
using PlaceDescriber = std::size_t (*)(std::uintptr_t address, std::span<char> text) noexcept;

/// Offers the names of the firmware's workloads to completion.
using Completer = void (*)(Completion& completion) noexcept;

struct ConsoleConfig {
  std::string_view version = {};
  std::string_view build_id = {};  ///< of the image, in hexadecimal digits; empty: not known, and not in the banner
  unsigned harts = 1;
  std::uint64_t ram_bytes = 0;        ///< of the machine; 0: likewise
  SymbolResolver resolver = nullptr;  ///< null: addresses have no names
  SymbolFinder finder = nullptr;      ///< null: `whatis` takes no names
  PlaceDescriber describe = nullptr;  ///< null: nothing is known of memory that is not the allocator's
  std::string_view prompt = kPrompt;
  /// Names and patterns, with commas between them: caches and arenas of tasks that run beside whatever is tested. `leaks`
  /// and `expect` leave them out unless they are named.
  std::string_view background = {};
  std::uint32_t baud =
      0;  ///< bits per second of the line, 10 of them a character; 0: not known, and nothing is estimated
  void (*wake)() noexcept = nullptr;  ///< notify() has given poll() something to do. Context: notify()'s
};

/// Number of the contract of the text formats: console.md's, raised when a fixed part changes.
inline constexpr unsigned kFormats = 2;

class Console {
 public:
  static constexpr std::size_t kReceiveBytes = 1024;
  static constexpr std::size_t kOutputPayload = 512;    ///< of an output frame
  static constexpr std::uint64_t kOutputDelayMs = 100;  ///< how long output for a program may wait for more
  /// So much of the time between two looks at the line counts as silence: a firmware or an emulator that pauses must not
  /// break a frame that is on its way.
  static constexpr unsigned kLookMs = wire::kSilenceMs / 4;

  explicit Console(Terminal& terminal, const ConsoleConfig& config) noexcept;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Has @p books asked from here on. For TraceBooks; before start().
  void use(Books& books) noexcept { books_ = &books; }
  [[nodiscard]] Books& books() noexcept { return *books_; }

  /// Prints the banner and the first prompt. Once, before poll(). What the terminal has received of a line until then is
  /// lost (invariant 4); the lines behind it are not.
  void start() noexcept;
  /// Instead of start(), without the banner: this console is to have the line of @p former, which never polls again.
  /// Prints what that was told and has not printed.
  void take_over(Console& former) noexcept;

  /// Takes in what came over the line. May be called by Terminal::yield(), while a command runs.
  void feed(std::span<const char> bytes) noexcept;

  /// Takes @p line as the request @p number that did not come over the line: its answer goes there as any other's.
  /// @returns false, with nothing changed, if another request waits.
  [[nodiscard]] bool request(std::string_view line, std::uint32_t number) noexcept {
    return request(line, number, Answer::kText);
  }

  /// Runs @p line as one that was typed, and prints what it prints, without a prompt: for firmware that has a shell of its
  /// own. Neither start() nor poll() is needed then. @returns what the last command answered. Context: no command runs.
  CommandStatus run(std::string_view line) noexcept;

  /// Does everything there is to do: reads the terminal, edits, runs the commands that are complete, prints notices.
  /// @returns whether there was anything. To be called when bytes have come, after notify() (ConsoleConfig::wake), and
  ///          after poll_ms() at the latest while needs_poll().
  bool poll() noexcept;

  /// Whether time alone may give poll() something to do: the end of a frame, of a line of which a byte was lost, or of a
  /// stop that a hart has not answered.
  [[nodiscard]] bool needs_poll() const noexcept;
  /// How long poll() may wait then.
  [[nodiscard]] unsigned poll_ms() const noexcept {
    return demultiplexer_.waiting() || lost_ != 0 ? std::min(kLookMs, books_->poll_ms()) : books_->poll_ms();
  }

  /// Has @p text printed on lines of its own as soon as that disturbs nothing; a final line end may be left out.
  /// @returns false, and the notice is counted as lost, if there is no room.
  /// Context: any hart, any interrupt level.
  bool notify(std::string_view text) noexcept { return woken(notices_.add(text)); }

  /// Has a report of misuse printed likewise, with the names of the functions on its stacks.
  /// @returns as notify(). Context: any hart, any interrupt level.
  bool notify(const MisuseReport& report) noexcept { return woken(misuse_.add(report)); }

  /// Has a report of exhaustion printed likewise, with the stacks that hold the most now.
  /// @returns as notify(). Complexity and context: as ExhaustionLog::add().
  bool notify(const ExhaustionReport& report) noexcept { return woken(exhaustion_.add(report, *books_)); }

  [[nodiscard]] const ConsoleConfig& config() const noexcept { return config_; }
  [[nodiscard]] ConsoleConfig& config() noexcept { return config_; }
  /// The function around @p address; false where none is known.
  [[nodiscard]] bool resolve(std::uintptr_t address, Symbol& symbol) const noexcept {
    return config_.resolver != nullptr && config_.resolver(address, symbol);
  }
  /// Sends a frame, in the form that the host asked for. Context: the console's task.
  void send_frame(wire::FrameType type, std::uint32_t request, std::span<const std::uint8_t> payload) noexcept;
  /// Prints the banner line: name, version, build, harts, memory, formats.
  void print_banner(Output& out) const noexcept;

  /// For waits that cannot yield, such as a round over the harts: takes input in and tells whether Ctrl-C was seen.
  /// Fits hal::AbortTest. Refers to the console that runs a command; false while none does.
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
  Books* books_ = &Books::none;

  std::array<std::uint8_t, wire::Demultiplexer::buffer_bytes(kMaxLine)> frame_in_{};
  wire::Demultiplexer demultiplexer_;
  std::uint64_t looked_ms_ = 0;   // when pump() last looked for bytes
  std::uint64_t silence_ms_ = 0;  // since the last byte; of the time between two looks no more than kLookMs

  std::array<std::uint8_t, kReceiveBytes> ring_;
  std::uint32_t ring_head_ = 0;  // free-running
  std::uint32_t ring_tail_ = 0;
  std::size_t lost_ = 0;          // bytes not yet reported
  bool losing_ = false;           // dropping up to the next line end
  bool clean_since_loss_ = true;  // nothing of a line is in the ring since the last erasing mark

  std::array<char, kMaxLine> request_line_;
  std::size_t request_length_ = 0;
  std::uint32_t request_ = 0;
  std::uint32_t request_position_ = 0;  // in the ring: the text before it came first
  bool request_waits_ = false;
  Answer request_answer_ = Answer::kText;

  std::array<char, 160> text_buffer_;
  Output text_;
  LineEditor editor_;
  Notices notices_;
  MisuseLog misuse_;
  ExhaustionLog exhaustion_;
  bool prompt_shown_ = false;

  bool running_ = false;
  bool abort_ = false;
  bool answering_ = false;  // the running command is a request that has no status yet
  std::uint32_t running_request_ = 0;
  const Output* rows_out_ = nullptr;  // of the running command, if it answers with rows
  std::uint64_t output_since_ms_ = 0;
  std::array<char, kOutputPayload> output_buffer_;
  std::array<char, wire::armoured_size(wire::kMaxPayloadBytes)> frame_out_;
  std::uint16_t sequence_ = 0;
  bool raw_ = false;            // frames go out raw: invariant 6
  std::uint64_t asked_ms_ = 0;  // when a host has last asked for that
};

}  // namespace qm::console
