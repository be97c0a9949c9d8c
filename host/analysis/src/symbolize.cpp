#include <qm/analysis/symbolize.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <istream>
#include <ostream>

namespace qm::analysis {
namespace {

constexpr std::string_view kHex = "0123456789abcdefABCDEF";

/// @returns the number after the `0x` at @p at in @p text; sets @p end to the position after it.
std::optional<std::uint64_t> number_at(std::string_view text, std::size_t at, std::size_t& end) {
  if (!text.substr(at).starts_with("0x")) return std::nullopt;
  std::uint64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data() + at + 2, text.data() + text.size(), value, 16);
  end = static_cast<std::size_t>(rest - text.data());
  if (error != std::errc{}) return std::nullopt;
  return value;
}

bool part_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("_:~$.").find(c) != std::string_view::npos;
}

std::string frames_text(std::span<const Frame> frames, std::string_view where) {
  std::string text;
  for (std::size_t index = 0; index < frames.size(); ++index) {
    text += index == 0 ? "    " + std::string(where) + " " : "        inlined by ";
    text += describe(frames[index]) + "\n";
  }
  return text;
}

/// @returns the first word of @p line that can be a build id: hexadecimal digits, as many as @p own has; empty if there
///          is none, or if
/// @p own is so short that a number could be taken for a build id.
std::string_view build_id_in(std::string_view line, std::string_view own) {
  constexpr std::size_t kShortest = 32;  // twice the digits of an address
  if (own.size() < kShortest) return {};
  for (std::size_t end = 0;;) {
    const std::size_t begin = line.find_first_of(kHex, end);
    if (begin == std::string_view::npos) return {};
    end = std::min(line.find_first_not_of(kHex, begin), line.size());
    const bool is_word =
        (begin == 0 || !part_of_name(line[begin - 1])) && (end == line.size() || !part_of_name(line[end]));
    if (is_word && end - begin == own.size()) return line.substr(begin, own.size());
  }
}

}  // namespace

std::string describe(const Frame& frame) {
  std::string text = frame.function.empty() ? "(unknown)" : frame.function;
  if (!frame.file.empty()) text += " (" + frame.file + ":" + std::to_string(frame.line) + ")";
  return text;
}

std::string TextSymbolizer::explain(std::string_view line) const {
  if (match_ == Match::kRequired) require_same_image(symbols_, build_id_in(line, symbols_.build_id()));
  std::string text;
  for (std::size_t at = 0; (at = line.find("0x", at)) != std::string_view::npos;) {
    std::size_t end = at + 2;
    const auto value = number_at(line, at, end);
    const std::size_t begin = at;
    at = end;
    if (!value) continue;
    if (begin > 1 && line[begin - 1] == '+') {
      // NAME+0xOFFSET/0xSIZE: the plain console prints a return address in this form.
      std::size_t size_end = end;
      if (end >= line.size() || line[end] != '/') continue;
      const auto size = number_at(line, end + 1, size_end);
      std::size_t name = begin - 1;
      while (name > 0 && part_of_name(line[name - 1])) --name;
      const auto start = size ? symbols_.find(line.substr(name, begin - 1 - name), *size) : std::nullopt;
      if (!start) continue;
      at = size_end;
      text += frames_text(symbols_.look_up(*start + *value, Address::kAny), line.substr(name, size_end - name));
    } else if (end - begin >= 6 && (begin == 0 || !part_of_name(line[begin - 1])) && symbols_.is_code(*value - 1)) {
      text += frames_text(symbols_.look_up(*value, Address::kAny), line.substr(begin, end - begin));
    }
  }
  return text;
}

void TextSymbolizer::filter(std::istream& in, std::ostream& out) const {
  for (std::string line; std::getline(in, line);) {
    const bool ended = !in.eof();
    const std::string more = explain(line.ends_with('\r') ? std::string_view(line).substr(0, line.size() - 1) : line);
    out << line;
    if (ended || !more.empty()) out << '\n';
    out << more << std::flush;
  }
}

}  // namespace qm::analysis
