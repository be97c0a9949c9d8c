#pragma once
/// A row of a report: one format yields a line for people and typed fields for a program.
///
///     call.row("end", "reap: {bytes} bytes from {caches} caches: {verdict}\n", bytes, caches, verdict);
///
/// A terminal shows the line. A program that has asked for rows gets a row of the kind `end` with the fields `bytes`,
/// `caches` and `verdict`. A Row prints a line in several steps:
///
///     Row row(call, "hart");
///     row.print("hart {hart} {state:<7}", hart, state);
///     if (late != 0) row.print(", late {late_ticks} ticks", late);
///     row.aside("\n");
///
/// docs/protocol.md has the rows of every command.

#include <cstdint>
#include <string_view>

#include <qm/console/command.hpp>
#include <qm/console/output.hpp>
#include <qm/wire/row.hpp>

namespace qm::console {

class Row {
 public:
  /// The largest size of a row in bytes. A field that does not fit is left out.
  static constexpr std::size_t kMaxBytes = 400;

  Row(Output& out, std::string_view kind) noexcept;
  Row(Invocation& call, std::string_view kind) noexcept : Row(call.out(), kind) {}
  /// Sends the row to a program.
  ~Row();
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;

  /// Prints text for people. For a program, the placeholders with names become fields.
  template <class... Arguments>
  Row& print(Format<std::type_identity_t<Arguments>...> format, const Arguments&... arguments) noexcept {
    if constexpr (sizeof...(Arguments) == 0) return vprint(format.text(), {});
    const Argument list[] = {Argument(arguments)..., Argument(0U)};
    return vprint(format.text(), std::span(list).first(sizeof...(Arguments)));
  }
  Row& vprint(std::string_view format, std::span<const Argument> arguments) noexcept;

  /// Add a field for a program; they print nothing for people.
  Row& number(std::string_view name, std::uint64_t value) noexcept { return field(name, Argument(value)); }
  Row& change(std::string_view name, std::int64_t value) noexcept { return field(name, Argument(value)); }
  Row& text(std::string_view name, std::string_view value) noexcept { return field(name, Argument(value)); }
  Row& address(std::string_view name, std::uintptr_t value) noexcept { return field(name, Argument(Address{value})); }

 private:
  Row& field(std::string_view name, const Argument& value) noexcept;

  Output& out_;
  std::uint8_t buffer_[kMaxBytes];
  wire::RowWriter row_;
};

template <class... Arguments>
void Invocation::row(std::string_view kind, Format<std::type_identity_t<Arguments>...> format,
                     const Arguments&... arguments) noexcept {
  const Argument list[] = {Argument(arguments)..., Argument(0U)};
  vrow(kind, format.text(), std::span(list).first(sizeof...(Arguments)));
}

}  // namespace qm::console
