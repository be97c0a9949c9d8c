#include <qm/test/allocinfo.hpp>

#include <qm/test/pattern.hpp>

#include <sstream>

namespace qm::test {

bool AllocinfoRow::is_accurate() const {
  const auto found = others.find("accurate");
  return found == others.end() || found->second != "no";
}

std::int64_t Allocinfo::size_but_of(std::string_view module) const {
  std::int64_t sum = 0;
  for (const AllocinfoRow& row : rows) sum += row.module == module ? 0 : row.size;
  return sum;
}

const AllocinfoRow* Allocinfo::of(std::string_view function) const {
  for (const AllocinfoRow& row : rows) {
    if (row.function == function) return &row;
  }
  return nullptr;
}

Allocinfo parse_allocinfo(const std::string& text) {
  Allocinfo info;
  std::istringstream lines(text);
  std::string line;
  const auto next = [&] {
    if (!std::getline(lines, line)) return false;
    if (line.ends_with('\r')) line.pop_back();
    return true;
  };
  if (!next() || line != "allocinfo - version: 2.0") info.wrong = line.empty() ? "(nothing)" : line;
  while (info.wrong.empty() && next()) {
    if (line.empty() || line[0] == '#') continue;
    // The columns are %12lld and %8llu.
    const Match match = find(
        line,
        R"(^(?=.{12} .{8} | *\d{13,} | *\d+ \d{9,} ) *(-?\d+) +(\d+) (\S+):(\d+) (?:\[(\S+)\] )?func:(\S+)((?: \w+:\w+)*)$)");
    if (match.empty()) {
      info.wrong = line;
      break;
    }
    AllocinfoRow row{std::stoll(match[1]),
                     std::stoull(match[2]),
                     match[3],
                     static_cast<unsigned>(std::stoul(match[4])),
                     match[5],
                     match[6],
                     {}};
    for (const Match& pair : find_all(match[7], R"((\w+):(\w+))")) row.others[pair[1]] = pair[2];
    info.rows.push_back(std::move(row));
  }
  return info;
}

}  // namespace qm::test
