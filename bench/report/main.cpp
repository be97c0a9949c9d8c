/// Turns what benches print into JSON, tables and the document.
///
///     qm_bench_report json               standard input's rows (lines "@bench {...}") as a JSON array, a row a line
///     qm_bench_report table FILE         a JSON array as a table in Markdown, which reads well on a terminal too
///     qm_bench_report compare OLD NEW    what differs; status 1 if something does
///     qm_bench_report document TEMPLATE FOLDER
///                                        the template with each line `{{NAME}}` replaced by the table of FOLDER/NAME.json
///     qm_bench_report series FILE CASE   the rows of a case for gnuplot: for each `cost` a block of `count mean max`, its name first
///     qm_bench_report profile ELF TRANSCRIPT
///                                        from what path_plugin wrote, on standard input: where the instructions of each
///                                        path's longest operation went, by function
///
/// Status: 0; 1 as said; 2 wrong usage or unreadable input.

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "profile.hpp"

namespace {

using Json = nlohmann::ordered_json;  // keys stay in the order in which the bench printed them

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

/// A number as the document has it: fractions keep two decimals.
std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.2f}", value.get<double>());
  return value.dump();
}

/// Columns in order of first appearance over all rows.
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

/// Numbers that say under what a row was measured, rather than what (as in check.cmake).
bool is_condition(std::string_view key) { return key == "harts" || key == "count" || key == "object"; }

/// What makes a row the same row in two runs: its texts and conditions.
std::string name_of(const Json& row) {
  std::string name;
  for (const auto& [key, value] : row.items()) {
    if (!value.is_string() && !is_condition(key)) continue;
    name += fmt::format("{}{}{}", name.empty() ? "" : ", ", is_condition(key) ? key + " " : "", text_of(value));
  }
  return name;
}

/// The row of @p rows that has @p row's name; nullptr if there is none.
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

void document(const std::string& path, const std::string& folder) {
  std::ifstream in = open(path);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("{{") && line.ends_with("}}")) {
      fmt::print("{}", table(read_rows(folder + "/" + line.substr(2, line.size() - 4) + ".json")));
    } else {
      fmt::print("{}\n", line);
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
    fmt::print("{}\"{}\"\n", cost == costs.front() ? "" : "\n\n", cost);  // two empty lines between blocks
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
