#pragma once
/// The line editor: it turns the bytes of a terminal into lines, and echoes them.
///
///     prompt | view: view_columns_ characters of the line from view_ on | rest of the terminal's row
///              ^ the cursor stands at cursor_ - view_
///
/// Invariants
///  1. The line occupies one row of the terminal: a longer line scrolls sideways, so the cursor never moves up a row.
///     The editor assumes 80 columns until the terminal reports fewer. Ctrl-L asks the terminal for its width (cursor
///     position report); a terminal may also report a new size unasked, as xterm does (`ESC [ 8 ; ROWS ; COLUMNS t`).
///  2. Typing at the end of a line that fits echoes each character and nothing else.
///  3. The editor writes the prompt once for each line, and again after asynchronous text. Scrolling and recall move
///     the cursor relative to its position.
///  4. The line holds at most kMaxLine characters. The editor counts the characters past that limit, so that backspace
///     can remove them, and refuses the whole line when it ends with such characters.
///  5. A byte that is not printable ASCII is stored as kUnprintable and matches no name. The editor ignores unknown
///     control characters and escape sequences completely.

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
    kLine,       ///< the user entered line()
    kTooLong,    ///< the user entered a line longer than kMaxLine; line() is empty
    kAbandoned,  ///< Ctrl-C
    kComplete,   ///< Tab; after insert() or list_shown()
    kList,       ///< a second Tab with nothing in between
  };

  /// @param[in] echo   receives the echo; the owner flushes it.
  /// @param[in] prompt precedes the line; lives as long as the editor.
  explicit LineEditor(Output& echo, std::string_view prompt = kPrompt) noexcept
      : echo_(echo), prompt_(prompt), view_columns_(kColumns - prompt.size()) {}
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  /// Processes the next byte. After kLine, kTooLong and kAbandoned the terminal's cursor is at the start of a row, and
  /// the caller calls next_line(). Complexity: O(line). Context: one caller at a time.
  [[nodiscard]] Event push(std::uint8_t byte) noexcept;

  /// Empties the line and writes the prompt.
  void next_line() noexcept;

  /// Writes the prompt and the line again. The cursor is at the start of a row.
  void redraw() noexcept;

  /// Empties the line, and erases it on the terminal.
  void kill_line() noexcept;

  /// Inserts @p text at the cursor, up to the line's limit.
  void insert(std::string_view text) noexcept;

  [[nodiscard]] std::string_view line() const noexcept { return {line_, length_}; }
  /// The part of the line before the cursor.
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
  void stash() noexcept;
  void take(std::string_view text) noexcept;

  void begin_search() noexcept;
  bool search_key(std::uint8_t byte) noexcept;
  bool search(std::size_t age) noexcept;
  bool add_wanted(char c) noexcept;
  void show_wanted() noexcept;
  void end_search() noexcept;

  [[nodiscard]] std::size_t column() const noexcept { return cursor_ - view_; }
  void move_left(std::size_t columns) noexcept;
  void show(char c) noexcept;
  std::size_t choose_view() noexcept;
  void draw_from(std::size_t old_column) noexcept;
  void draw_row() noexcept;
  void set_prompt(std::string_view prompt) noexcept;

  Output& echo_;
  std::string_view prompt_;
  std::size_t view_columns_;
  History history_;
  char line_[kMaxLine];
  char stash_[kMaxLine];  // the line that was being typed when recall began
  std::size_t length_ = 0;
  std::size_t stash_length_ = 0;
  std::size_t cursor_ = 0;
  std::size_t view_ = 0;
  std::size_t excess_ = 0;
  std::size_t recalled_ = 0;  // 0: the line being typed; else history_[recalled_ - 1]
  unsigned parameter_ = 0;    // the number that all digits of a sequence form
  unsigned last_ = 0;         // the number behind its last separator
  Escape escape_ = Escape::kNone;
  bool bare_ = false;      // no byte has arrived since `ESC [` or `ESC O`
  std::uint8_t rest_ = 0;  // bytes that still belong to the sequence
  bool after_cr_ = false;
  bool after_tab_ = false;

  // After Ctrl-R the prompt is `find WANTED: `; the typed characters are WANTED.
  static constexpr std::size_t kMostWanted = 24;
  bool searching_ = false;
  std::size_t wanted_length_ = 0;
  std::string_view own_prompt_;
  char prompt_of_search_[8 + kMostWanted];
};

}  // namespace qm::console
