#include <qm/console/row.hpp>

namespace qm::console {

Row::Row(Output& out, std::string_view kind) noexcept : out_(out), row_(buffer_, kind) {}
Row::~Row() { out_.send_row(row_.written()); }

Row& Row::field(std::string_view name, const Argument& value) noexcept {
  switch (value.kind()) {
    case Argument::Kind::kText: row_.text(name, value.text()); break;
    case Argument::Kind::kSigned: row_.change(name, static_cast<std::int64_t>(value.number())); break;
    case Argument::Kind::kAddress: row_.address(name, value.number()); break;
    default: row_.number(name, value.number());
  }
  return *this;
}

Row& Row::vprint(std::string_view format, std::span<const Argument> arguments) noexcept {
  if (!out_.rows()) {
    out_.vprint(format, arguments);
    return *this;
  }
  std::size_t next = 0;
  for (std::size_t at = find(format, '{'); at != kNowhere; at = find(format, '{', at + 1)) {
    const std::string_view inside = part(format, at + 1, find(format, '}', at) - at - 1);
    const std::string_view name = part(inside, 0, find(inside, ':'));
    const Argument& argument = arguments[next++];
    if (!name.empty()) field(name, argument);
  }
  return *this;
}

void Invocation::vrow(std::string_view kind, std::string_view format, std::span<const Argument> arguments) noexcept {
  Row(*this, kind).vprint(format, arguments);
}

}  // namespace qm::console
