#pragma once
/// Prints text without allocation and without a libc: a typed formatter that fills a buffer and passes it to a sink.
///
///     print("{:<20}: {:>8} bytes at {}\n", name, size, Address{start})
///
///     placeholder   {}  {:15}  {:<15}  {:02}  {:x}  {:016x}  {:+15}  {name:15}
///                       |      |       |      |     |        |       the field's name in a row (row.hpp)
///                       |      |       |      |     |        width, with a sign, `+` included
///                       |      |       |      |     width, filled with zeroes, hexadecimal
///                       |      |       |      hexadecimal without 0x
///                       |      |       width, filled with zeroes
///                       |      width, aligned to the left
///                       width, aligned to the right; a longer text is not cut
///
/// Invariants
///  1. Output is printable ASCII, tabs and line ends; any other byte becomes `?`. So a command can print names, symbols
///     and user input unchecked. Only raw() is exempt.
///  2. For a terminal, each line is passed to the sink in one call when it ends, unless it is longer than the buffer.
///  3. With wrap(), a line has at most kColumns columns: it is broken at the last space that fits, and continues
///     indented. Lines of a fixed format are exempt (whole_line()), and so are longer words.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <qm/console/text.hpp>

namespace qm::console {

/// Prints as 0x and all digits of a machine word: 16 on RV64, 8 on RV32.
struct Address {
  std::uintptr_t value = 0;
};

/// Prints as seconds to the millisecond: `12.045 s`.
struct Milliseconds {
  std::uint64_t value = 0;
};

/// Prints as a number and a noun: `1 object`, `2 objects`.
struct Counted {
  std::uint64_t number = 0;
  std::string_view what;  ///< singular, `/`, plural: `object/objects`
};

/// One argument of print().
class Argument {
 public:
  enum class Kind : std::uint8_t { kUnsigned, kSigned, kText, kAddress, kCounted, kSeconds };

  template <class T>
  requires std::integral<T> &&(!std::same_as<T, bool>)&&(!std::same_as<T, char>)constexpr Argument(
      T value) noexcept  // NOLINT: implicit by design
      : number_(static_cast<std::uint64_t>(value)), kind_(std::signed_integral<T> ? Kind::kSigned : Kind::kUnsigned) {}
  constexpr Argument(std::string_view text) noexcept : text_(text), kind_(Kind::kText) {}  // NOLINT
  constexpr Argument(const char* text) noexcept                                            // NOLINT
      : Argument(text == nullptr ? std::string_view("(null)") : from_c(text)) {}
  constexpr Argument(Address address) noexcept : number_(address.value), kind_(Kind::kAddress) {}  // NOLINT
  constexpr Argument(Counted counted) noexcept                                                     // NOLINT
      : number_(counted.number), text_(counted.what), kind_(Kind::kCounted) {}
  constexpr Argument(Milliseconds time) noexcept : number_(time.value), kind_(Kind::kSeconds) {}  // NOLINT

  [[nodiscard]] constexpr Kind kind() const noexcept { return kind_; }
  [[nodiscard]] constexpr std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] constexpr std::string_view text() const noexcept { return text_; }

 private:
  std::uint64_t number_ = 0;
  std::string_view text_;
  Kind kind_;
};

/// Longest line, in columns. A terminal of 80 columns may wrap after its last one.
inline constexpr std::size_t kColumns = 79;

namespace detail {
/// Not constexpr: a call to it in a constant expression is the compiler's error message.
void format_and_arguments_disagree();
}  // namespace detail

/// A format whose placeholders have been counted at compile time.
template <class... Arguments>
class Format {
 public:
  consteval Format(const char* text) : text_(from_c(text)) {  // NOLINT: implicit by design
    std::size_t placeholders = 0;
    for (const char c : text_) placeholders += c == '{' ? 1 : 0;
    if (placeholders != sizeof...(Arguments)) detail::format_and_arguments_disagree();
  }
  [[nodiscard]] constexpr std::string_view text() const noexcept { return text_; }

 private:
  std::string_view text_;
};

/// The output of a command. Context: one owner at a time, in any context in which the sink may be called.
class Output {
 public:
  using Sink = void (*)(void* context, std::string_view bytes) noexcept;
  enum class Target : std::uint8_t {
    kTerminal,  ///< lines end in CR LF; each is passed to the sink when it ends
    kFrames,    ///< lines end in LF; they are passed to the sink when the buffer is full, and by flush()
    kRows,      ///< each line is passed to the sink when it ends, without its line end
  };
  /// Receives the payload of a row.
  using RowSink = void (*)(void* context, std::span<const std::uint8_t> row) noexcept;

  /// @param[in] buffer   at least 2 bytes; the caller owns it and keeps it until this output is destroyed.
  /// @param[in] row_sink for kRows: receives the rows.
  Output(std::span<char> buffer, Target target, Sink sink, void* context, RowSink row_sink = nullptr) noexcept
      : buffer_(buffer), sink_(sink), context_(context), row_sink_(row_sink), target_(target) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void put(char c) noexcept;
  void text(std::string_view text) noexcept {
    for (const char c : text) put(c);
  }
  void repeat(char c, std::size_t count) noexcept {
    while (count-- != 0) put(c);
  }

  enum class Wrap : std::uint8_t { kNo, kYes };
  /// Sets whether lines are broken at kColumns from here on. To be called at the start of a line.
  void wrap(Wrap wrap) noexcept { wrap_ = wrap; }
  [[nodiscard]] Wrap wrap() const noexcept { return wrap_; }
  /// Exempts the current line, or the next one if none is begun, from being broken.
  void whole_line() noexcept { whole_ = true; }
  /// If the current line is broken, its continuation is indented by @p columns instead of kHang.
  void hang(std::size_t columns) noexcept { hang_ = columns; }

  /// Prints @p format with its placeholders filled; see the head of this file.
  template <class... Arguments>
  void print(Format<std::type_identity_t<Arguments>...> format, const Arguments&... arguments) noexcept {
    if constexpr (sizeof...(Arguments) == 0) {
      text(format.text());
    } else {
      const Argument list[] = {Argument(arguments)...};
      vprint(format.text(), list);
    }
  }
  void vprint(std::string_view format, std::span<const Argument> arguments) noexcept;

  /// Whether the output goes to a program that receives rows; see Row.
  [[nodiscard]] bool rows() const noexcept { return target_ == Target::kRows; }
  /// Sends a row after all text printed before. Does nothing unless rows().
  void send_row(std::span<const std::uint8_t> row) noexcept;

  /// Begins a line `note: ...` or `error: ...`. For kRows, @p kind becomes the kind of the row that has the line's
  /// text.
  void begin_line(std::string_view kind) noexcept {
    line_kind_ = kind;
    if (!rows()) print("{}: ", kind);
  }
  /// The kind given to begin_line() for the current line; `text` if none was given.
  [[nodiscard]] std::string_view line_kind() const noexcept { return line_kind_; }

  /// Passes @p bytes to the sink unchanged: echo and cursor movement. In one call, unless they do not fit the buffer.
  void raw(std::string_view bytes) noexcept;

  /// Passes the contents of the buffer to the sink.
  void flush() noexcept;

  [[nodiscard]] bool empty() const noexcept { return used_ == 0; }
  /// Whether the next character begins a line.
  [[nodiscard]] bool at_line_start() const noexcept { return column_ == 0; }
  [[nodiscard]] std::size_t column() const noexcept { return column_; }

 private:
  static constexpr std::string_view kText = "text";
  static constexpr std::size_t kHang = 2;
  static constexpr std::size_t kNoBreak = static_cast<std::size_t>(-1);

  void append(char c) noexcept;
  void end_line() noexcept;
  void note_break(char c) noexcept;
  void break_line() noexcept;

  std::span<char> buffer_;
  std::size_t used_ = 0;
  std::size_t column_ = 0;
  std::size_t break_ = kNoBreak;  ///< index in the buffer, behind the last space where the line may be broken
  std::size_t hang_ = kHang;
  bool any_word_ = false;  ///< this line has a word
  bool whole_ = false;
  Wrap wrap_ = Wrap::kNo;
  std::string_view line_kind_ = kText;
  Sink sink_;
  void* context_;
  RowSink row_sink_;
  Target target_;
};

}  // namespace qm::console
