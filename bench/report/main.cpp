/// Turns the output of benches into JSON, tables, docs/performance.md and docs/figures.md.
///
///     qm_bench_report json               standard input's rows (lines "@bench {...}") as a JSON array, one row per line
///     qm_bench_report table FILE         a JSON array as a table in Markdown, which reads well on a terminal too
///     qm_bench_report compare OLD NEW    the differences; status 1 if there are any
///     qm_bench_report document TEMPLATE FOLDER
///                                        the template with each line `{{NAME}}` replaced by the table of FOLDER/NAME.json,
///                                        `{{model}}` by the table of the paper model, and figures within lines (below)
///     qm_bench_report series FILE CASE   the rows of a case for gnuplot: for each `cost` its name, then `count mean max`
///     qm_bench_report profile ELF TRANSCRIPT
///                                        from path_plugin's output on standard input: the instructions of each
///                                        path's longest operation, by function
///
/// Within a line of the template, `{{NAME; KEY=VALUE; ...; COLUMN}}` is the figure in COLUMN of the only row of
/// FOLDER/NAME.json that has each VALUE under its KEY. With `mean of`, `lowest` or `highest` before COLUMN it is taken
/// from all rows that have the values. `{{NAME}}` without a semicolon is a figure of the paper model.
///
/// Status: 0; 1 as above; 2 wrong usage or unreadable input.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "profile.hpp"

namespace {

using Json = nlohmann::ordered_json;  // keeps the keys in the order in which the bench printed them

Json parse_rows(std::istream& in) {
  constexpr std::string_view kMark = "@bench ";
  Json rows = Json::array();
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.find(kMark);
    if (at != std::string::npos) rows.push_back(Json::parse(line.substr(at + kMark.size())));
  }
  if (rows.empty()) throw std::runtime_error("no rows in the input");
  return rows;
}

void write_rows(const Json& rows) {
  fmt::print("[\n");
  for (std::size_t i = 0; i < rows.size(); ++i) fmt::print("  {}{}\n", rows[i].dump(), i + 1 < rows.size() ? "," : "");
  fmt::print("]\n");
}

std::ifstream open(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  return in;
}

Json read_rows(const std::string& path) {
  std::ifstream in = open(path);
  return Json::parse(in);
}

/// @returns a number in the form of the document: fractions have two decimals.
std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.2f}", value.get<double>());
  return value.dump();
}

/// @returns the columns in order of their first appearance in all rows.
std::vector<std::string> columns_of(const Json& rows) {
  std::vector<std::string> columns;
  for (const Json& row : rows) {
    for (const auto& [key, value] : row.items()) {
      if (std::find(columns.begin(), columns.end(), key) == columns.end()) columns.push_back(key);
    }
  }
  return columns;
}

bool is_number_column(const Json& rows, const std::string& column) {
  return std::all_of(rows.begin(), rows.end(),
                     [&](const Json& row) { return !row.contains(column) || row[column].is_number(); });
}

std::string table(const Json& rows) {
  const std::vector<std::string> columns = columns_of(rows);
  std::vector<std::vector<std::string>> cells{columns};
  for (const Json& row : rows) {
    auto& line = cells.emplace_back();
    for (const std::string& column : columns) line.push_back(row.contains(column) ? text_of(row[column]) : "");
  }
  std::string heading, rule, body;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::size_t width = 3;
    for (const auto& line : cells) width = std::max(width, line[i].size());
    const bool right = is_number_column(rows, columns[i]);
    for (auto& line : cells) {
      line[i] = right ? fmt::format("{:>{}}", line[i], width) : fmt::format("{:<{}}", line[i], width);
    }
    rule += right ? "|" + std::string(width + 1, '-') + ":" : "|" + std::string(width + 2, '-');
  }
  for (std::size_t line = 0; line < cells.size(); ++line) {
    std::string text;
    for (const std::string& cell : cells[line]) text += "| " + cell + " ";
    (line == 0 ? heading : body) += text + "|\n";
  }
  return heading + rule + "|\n" + body;
}

/// Whether a number is a condition of the row's measurement instead of a result (as in check.cmake).
bool is_condition(std::string_view key) { return key == "harts" || key == "count" || key == "object"; }

/// @returns the identity of a row in several runs: its texts and conditions.
std::string name_of(const Json& row) {
  std::string name;
  for (const auto& [key, value] : row.items()) {
    if (!value.is_string() && !is_condition(key)) continue;
    name += fmt::format("{}{}{}", name.empty() ? "" : ", ", is_condition(key) ? key + " " : "", text_of(value));
  }
  return name;
}

/// @returns the row of @p rows with @p row's name; nullptr if there is none.
const Json* find_row(const Json& rows, const Json& row) {
  const auto same =
      std::find_if(rows.begin(), rows.end(), [&](const Json& other) { return name_of(other) == name_of(row); });
  return same == rows.end() ? nullptr : &*same;
}

int compare(const Json& old_rows, const Json& new_rows) {
  int differences = 0;
  const auto differ = [&](const std::string& what) {
    fmt::print("{}\n", what);
    differences = 1;
  };
  for (const Json& row : new_rows) {
    const Json* same = find_row(old_rows, row);
    if (same == nullptr) {
      differ(name_of(row) + ": not recorded");
      continue;
    }
    for (const auto& [key, value] : row.items()) {
      const Json before = same->contains(key) ? (*same)[key] : Json("-");
      if (before != value) differ(fmt::format("{}: {} {} -> {}", name_of(row), key, text_of(before), text_of(value)));
    }
  }
  for (const Json& row : old_rows) {
    if (find_row(new_rows, row) == nullptr) differ(name_of(row) + ": recorded, but not measured");
  }
  return differences;
}

// ---- the paper model: extrapolation from the measurements on the fewest and the most harts --------------------------

/// @returns the figure of the row with these texts and conditions.
double figure(const Json& rows, const Json& wanted, const std::string& key) {
  for (const Json& row : rows) {
    const auto has = [&](const auto& item) { return row.contains(item.key()) && row[item.key()] == item.value(); };
    const auto items = wanted.items();
    if (std::all_of(items.begin(), items.end(), has)) return row.at(key).get<double>();
  }
  throw std::runtime_error("no row is " + wanted.dump());
}

/// A value that grows by the same amount with each hart.
struct Line {
  unsigned from;
  double first, slope;
  [[nodiscard]] long at(unsigned harts) const { return std::lround(first + slope * (harts - from)); }
  [[nodiscard]] std::string text() const { return fmt::format("{:.0f} + {:.0f} (H - {})", first, slope, from); }
};

/// @returns the line through a cost of the bench `scale` on @p from and on 8 harts.
Line measured_line(const Json& scale, const std::string& cost, unsigned from) {
  constexpr unsigned kMost = 8;
  const auto mean = [&](unsigned harts) {
    return figure(scale, {{"case", "harts"}, {"cost", cost}, {"count", harts}}, "mean");
  };
  return {from, mean(from), (mean(kMost) - mean(from)) / (kMost - from)};
}

constexpr unsigned kFirstRounds = 13;  ///< first capacity of magazines of small objects, as in <qm/detail/magazine.hpp>
constexpr unsigned kMostRounds = 61;

/// @returns the rows of {{model}}.
Json model(const std::string& folder) {
  const Json scale = read_rows(folder + "/scale.json"), layout = read_rows(folder + "/layout.json");
  const auto bytes = [&](const char* structure) {
    return figure(layout, {{"structure", structure}, {"build", "rv64"}}, "bytes");
  };
  constexpr double kWord = 8;
  const double magazine = bytes("magazine header") + kFirstRounds * kWord, hart_cache = bytes("hart cache");
  Json rows = Json::array();
  const auto add = [&](const std::string& what, const std::string& growth, const Line& line) {
    rows.push_back({{"what", what}, {"grows as, with H harts", growth}});
    for (const unsigned harts : {8, 64, 1024}) rows.back()[fmt::format("{} harts", harts)] = line.at(harts);
  };
  const auto add_measured = [&](const std::string& what, const std::string& cost, unsigned from, const char* remark) {
    const Line line = measured_line(scale, cost, from);
    add(what, line.text() + remark, line);
  };
  add("hot pair", "no shared word, no lock", measured_line(scale, "pair, hot", 1));
  add("hart caches of a cache, bytes", fmt::format("{} H", hart_cache), {0, 0, hart_cache});
  add("its magazines at first, bytes", fmt::format("2 H of {}", magazine), {0, 0, 2 * magazine});
  add("idle objects in them, at most", fmt::format("2 H of {} rounds", kFirstRounds), {0, 0, 2.0 * kFirstRounds});
  add_measured("create a cache, instructions", "create a cache", 1, ": closes each hart's cache");
  add_measured("a broadcast, instructions of all", "a broadcast", 2, ", the firmware's part of an IPI included");
  add_measured("destroy, all have used it", "destroy, all have used it", 1, "");
  return rows;
}

/// @returns the text for {{NAME}} inside a line: the number of harts from which on they wait for the depot if all use
///          it at all times.
std::string model_figure(const std::string& folder, const std::string& name) {
  const Json worst = read_rows(folder + "/worst.json"), single = read_rows(folder + "/single.json");
  const double allocate = figure(worst, {{"case", "allocate: magazine from the depot"}}, "mean");
  const double free = figure(worst, {{"case", "free: magazine from the depot"}}, "mean");
  const double pair = figure(single, {{"case", "pair, hot"}, {"allocator", "cache"}}, "pair mean");
  constexpr double kWork = 1000;
  const std::pair<const char*, double> figures[] = {
      {"depot allocate", allocate},
      {"depot free", free},
      {"depot both", allocate + free},
      {"pair", pair},
      {"working pair", pair + kWork},
      {"harts passing", kMostRounds * pair / (allocate + free)},
      {"harts working", kMostRounds * (pair + kWork) / (allocate + free)},
  };
  for (const auto& [known, value] : figures) {
    if (name == known) return fmt::format("{:.0f}", value);
  }
  throw std::runtime_error("the template asks for " + name);
}

// ---- figures within lines -------------------------------------------------------------------------------------------

/// @returns the parts of @p text between semicolons, without the blanks around them.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ';');) {
    const std::size_t first = part.find_first_not_of(' '), last = part.find_last_not_of(' ');
    parts.push_back(first == std::string::npos ? "" : part.substr(first, last + 1 - first));
  }
  return parts;
}

/// @returns a number in the form of a sentence: whole from 100 on, with commas between thousands; with one decimal from
///          10 on unless it is whole; with two decimals below. An integer stays as it is.
std::string rounded(const Json& value) {
  const double number = value.get<double>() + 1e-9;  // a half in decimals rounds up
  if (!value.is_number_integer() && number < 10) return fmt::format("{:.2f}", number);
  const bool is_whole = number >= 100 || number - std::floor(number) < 1e-6;
  std::string text = fmt::format("{:.{}f}", number, is_whole ? 0 : 1);
  if (!is_whole) return text;
  for (std::size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

/// @returns the text for `{{NAME; KEY=VALUE; ...; COLUMN}}`.
std::string recorded_figure(const std::string& folder, const std::string& wanted) {
  const std::vector<std::string> parts = parts_of(wanted);
  if (parts.size() < 2) throw std::runtime_error("no column in " + wanted);
  const auto is_wanted = [&](const Json& row) {
    return std::all_of(parts.begin() + 1, parts.end() - 1, [&](const std::string& part) {
      const std::size_t equals = part.find('=');
      if (equals == std::string::npos) throw std::runtime_error("no = in " + part);
      const std::string key = part.substr(0, equals);
      return row.contains(key) && text_of(row[key]) == part.substr(equals + 1);
    });
  };
  std::string column = parts.back();
  const auto begins_with = [&](std::string_view word) {
    if (!column.starts_with(word)) return false;
    column.erase(0, word.size());
    return true;
  };
  const bool is_mean = begins_with("mean of ");
  const bool is_lowest = begins_with("lowest ");
  const bool is_highest = begins_with("highest ");
  std::vector<Json> values;
  for (const Json& row : read_rows(folder + "/" + parts.front() + ".json")) {
    if (is_wanted(row) && row.contains(column)) values.push_back(row[column]);
  }
  if (values.empty()) throw std::runtime_error("not recorded: " + wanted);
  if (is_mean) {
    double sum = 0;
    for (const Json& value : values) sum += value.get<double>();
    return rounded(sum / static_cast<double>(values.size()));
  }
  if (is_lowest) return rounded(*std::min_element(values.begin(), values.end()));
  if (is_highest) return rounded(*std::max_element(values.begin(), values.end()));
  if (values.size() > 1) throw std::runtime_error("several rows have " + wanted);
  return rounded(values.front());
}

/// @returns @p line with each figure in double braces filled in.
std::string filled_in(std::string line, const std::string& folder) {
  for (std::size_t open = 0; (open = line.find("{{", open)) != std::string::npos;) {
    const std::size_t close = line.find("}}", open);
    if (close == std::string::npos) throw std::runtime_error("braces are left open: " + line);
    const std::string wanted = line.substr(open + 2, close - open - 2);
    const bool is_recorded = wanted.find(';') != std::string::npos;
    line.replace(open, close + 2 - open, is_recorded ? recorded_figure(folder, wanted) : model_figure(folder, wanted));
  }
  return line;
}

/// @returns whether @p line is `{{NAME}}` alone.
bool is_table(const std::string& line) {
  return line.starts_with("{{") && line.find("}}") == line.size() - 2 && line.find(';') == std::string::npos;
}

void document(const std::string& path, const std::string& folder) {
  std::ifstream in = open(path);
  for (std::string line; std::getline(in, line);) {
    if (line == "{{model}}") {
      fmt::print("{}", table(model(folder)));
    } else if (is_table(line)) {
      fmt::print("{}", table(read_rows(folder + "/" + line.substr(2, line.size() - 4) + ".json")));
    } else {
      fmt::print("{}\n", filled_in(line, folder));
    }
  }
}

void series(const Json& rows, const std::string& wanted) {
  std::vector<std::string> costs;
  for (const Json& row : rows) {
    if (row.at("case") != wanted) continue;
    const auto cost = row.at("cost").get<std::string>();
    if (std::find(costs.begin(), costs.end(), cost) == costs.end()) costs.push_back(cost);
  }
  if (costs.empty()) throw std::runtime_error("no case is called " + wanted);
  for (const std::string& cost : costs) {
    fmt::print("{}\"{}\"\n", cost == costs.front() ? "" : "\n\n", cost);  // two empty lines separate blocks
    for (const Json& row : rows) {
      if (row.at("case") != wanted || row.at("cost") != cost) continue;
      fmt::print("{} {} {}\n", row.at("count").dump(), row.at("mean").dump(), row.at("max").dump());
    }
  }
}

}  // namespace

int main(int count, char** arguments) try {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() == 1 && words[0] == "json") {
    write_rows(parse_rows(std::cin));
  } else if (words.size() == 2 && words[0] == "table") {
    fmt::print("{}", table(read_rows(words[1])));
  } else if (words.size() == 3 && words[0] == "compare") {
    return compare(read_rows(words[1]), read_rows(words[2]));
  } else if (words.size() == 3 && words[0] == "document") {
    document(words[1], words[2]);
  } else if (words.size() == 3 && words[0] == "series") {
    series(read_rows(words[1]), words[2]);
  } else if (words.size() == 3 && words[0] == "profile") {
    std::ifstream transcript = open(words[2]);
    qm::bench::print_profile(std::cin, words[1], transcript);
  } else {
    fmt::print(stderr,
               "usage: qm_bench_report json | table FILE | compare OLD NEW | document TEMPLATE FOLDER | "
               "series FILE CASE | profile ELF TRANSCRIPT\n");
    return 2;
  }
  return 0;
} catch (const std::exception& error) {
  fmt::print(stderr, "qm_bench_report: {}\n", error.what());
  return 2;
}
