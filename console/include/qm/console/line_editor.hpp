#pragma once
/// The line editor: bytes of a terminal in, lines out, echo on the way.
///
///     prompt | view: view_columns_ characters of the line from view_ on | rest of the terminal's row
///              ^ the cursor stands at cursor_ - view_
///
/// Invariants
///  1. The line fits one row of the terminal: a longer one scrolls sideways, and the cursor never has to go up a row. The
///     terminal has 80 columns until it says that it has fewer: Ctrl-L asks it (cursor position report), and who knows
///     of a change may tell it unasked, as xterm reports its size (`ESC [ 8 ; ROWS ; COLUMNS t`).
///  2. Typing at the end of a line that fits echoes each character and nothing else.
///  3. The prompt is written once for each line, and again after text that arrived asynchronously; scrolling and recall
///     move the cursor relative to where it is.
///  4. Nothing is taken into the line past its limit; what is too much is counted, so that backspace can take it back.
///     The line as a whole is refused at its end.
///  5. A byte that is no printable ASCII stands in the line as kUnprintable and matches no name. Control characters and
///     escape sequences without a meaning are ignored, with the bytes that belong to them.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/console/output.hpp>
#include <qm/wire/frame.hpp>

namespace qm::console {

inline constexpr std::string_view kPrompt = "qm> ";
inline constexpr std::size_t kMaxLine = wire::kMaxCommandBytes;
inline constexpr char kUnprintable = '\x7f';

/// The last lines that were entered.
class History {
 public:
  static constexpr std::size_t kLines = 16;
  /// Remembers @p line unless it is blank or the same as the last.
  void add(std::string_view line) noexcept;
  /// The line @p age steps back, 0 for the last; empty if there is none.
  [[nodiscard]] std::string_view operator[](std::size_t age) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  char lines_[kLines][kMaxLine];
  std::uint8_t lengths_[kLines] = {};
  std::size_t next_ = 0;
  std::size_t count_ = 0;
};

class LineEditor {
 public:
  enum class Event : std::uint8_t {
    kNone,
    kLine,       ///< line() is entered
    kTooLong,    ///< a line is entered that was longer than kMaxLine; line() is empty
    kAbandoned,  ///< Ctrl-C
    kComplete,   ///< Tab; after insert() or list_shown()
    kList,       ///< Tab again, with nothing in between
  };

  /// @param[in] echo   where echo goes; flushed by the owner.
  /// @param[in] prompt what stands before the line; lives as long as the editor.
  explicit LineEditor(Output& echo, std::string_view prompt = kPrompt) noexcept
      : echo_(echo), prompt_(prompt), view_columns_(kColumns - prompt.size()) {}
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Takes the next byte. After kLine, kTooLong and kAbandoned the terminal stands at the start of a row, and
  /// next_line() is due. Complexity: O(line). Context: one caller at a time.
  [[nodiscard]] Event push(std::uint8_t byte) noexcept;

  /// Empties the line and writes the prompt.
  void next_line() noexcept;

  /// Writes prompt and line as they are, from the start of a row.
  void redraw() noexcept;

  /// Empties the line without a trace on the terminal but the one that erases it.
  void kill_line() noexcept;

  /// Puts @p text in at the cursor, as far as the line's limit allows.
  void insert(std::string_view text) noexcept;

  [[nodiscard]] std::string_view line() const noexcept { return {line_, length_}; }
  /// What stands before the cursor.
  [[nodiscard]] std::string_view before_cursor() const noexcept { return {line_, cursor_}; }
  [[nodiscard]] std::size_t excess() const noexcept { return excess_; }

 private:
  enum class Escape : std::uint8_t { kNone, kEscape, kSequence, kRest };

  Event control(std::uint8_t byte) noexcept;
  void escape_sequence(std::uint8_t byte) noexcept;
  void key(char final, unsigned parameter) noexcept;
  void set_width(unsigned columns) noexcept;
  Event end_line() noexcept;
  void insert_character(char c) noexcept;
  void erase(std::size_t from, std::size_t to) noexcept;
  void move_to(std::size_t cursor) noexcept;
  void recall(std::size_t age) noexcept;
  void replace(std::string_view text) noexcept;
  void erase_word() noexcept;
  [[nodiscard]] std::size_t word_before() const noexcept;
  [[nodiscard]] std::size_t word_behind() const noexcept;
  void recall_like() noexcept;

  [[nodiscard]] std::size_t column() const noexcept { return cursor_ - view_; }
  void move_left(std::size_t columns) noexcept;
  void show(char c) noexcept;
  std::size_t choose_view() noexcept;
  void draw_from(std::size_t old_column) noexcept;

  Output& echo_;
  std::string_view prompt_;
  std::size_t view_columns_;
  History history_;
  char line_[kMaxLine];
  char stash_[kMaxLine];  // what was being typed when recall began
  std::size_t length_ = 0;
  std::size_t stash_length_ = 0;
  std::size_t cursor_ = 0;
  std::size_t view_ = 0;
  std::size_t excess_ = 0;
  std::size_t recalled_ = 0;  // 0: the line being typed; else history_[recalled_ - 1]
  unsigned parameter_ = 0;    // all digits of a sequence
  unsigned last_ = 0;         // those behind its last separator
  Escape escape_ = Escape::kNone;
  bool bare_ = false;      // nothing has come since `ESC [` or `ESC O`
  std::uint8_t rest_ = 0;  // bytes that still belong to the sequence
  bool after_cr_ = false;
  bool after_tab_ = false;
};

}  // namespace qm::console
