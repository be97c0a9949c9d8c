#include "profile.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

namespace qm::bench {
namespace {

using Address = std::uint64_t;
using Trace = std::vector<Address>;

/// @returns the longest operation of each path.
std::map<unsigned, Trace> read_log(std::istream& log) {
  std::map<unsigned, Trace> longest;
  Trace* path = nullptr;
  for (std::string line; std::getline(log, line);) {
    if (line.starts_with("path ")) {
      path = &longest[static_cast<unsigned>(std::strtoul(line.c_str() + 5, nullptr, 10))];
    } else if (path != nullptr) {
      path->push_back(std::strtoull(line.c_str(), nullptr, 16));
    }
  }
  return longest;
}

/// The outermost function at an address, and the innermost one, which may be inlined into it.
struct Place {
  std::string function, inlined;
};

/// Asks addr2line for all addresses in one call.
std::unordered_map<Address, Place> resolve(const std::map<unsigned, Trace>& traces, const std::string& elf) {
  Trace all;
  for (const auto& [path, trace] : traces) all.insert(all.end(), trace.begin(), trace.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  const std::string list = elf + ".addresses";
  {
    std::ofstream out(list);
    for (const Address pc : all) out << fmt::format("{:x}\n", pc);
  }
  const char* prefix = std::getenv("QM_CROSS_PREFIX");
  const std::string command = fmt::format("{}addr2line -a -f -i -s -C -e '{}' < '{}'",
                                          prefix != nullptr ? prefix : "riscv64-linux-gnu-", elf, list);
  const auto close = [](std::FILE* file) { pclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(popen(command.c_str(), "r"), close);
  if (pipe == nullptr) throw std::runtime_error("cannot run addr2line");
  std::unordered_map<Address, Place> places;
  char buffer[4096];
  Place* place = nullptr;
  bool is_name = true;  // names and positions alternate
  while (std::fgets(buffer, sizeof buffer, pipe.get()) != nullptr) {
    std::string line(buffer);
    line.erase(line.find_last_not_of("\r\n") + 1);
    if (line.starts_with("0x")) {
      place = &places[std::strtoull(line.c_str(), nullptr, 16)];
      is_name = true;
      continue;
    }
    if (is_name && place != nullptr) {
      constexpr std::string_view kUnnamed = "(anonymous namespace)::";
      for (std::size_t at; (at = line.find(kUnnamed)) != std::string::npos;) line.erase(at, kUnnamed.size());
      line.erase(std::min(line.find('('), line.size()));  // removes the parameters
      if (place->inlined.empty()) place->inlined = line;
      place->function = line;
    }
    is_name = !is_name;
  }
  return places;
}

std::map<unsigned, std::string> read_names(std::istream& transcript) {
  std::map<unsigned, std::string> names;
  for (std::string line; std::getline(transcript, line);) {
    if (!line.starts_with("@path ")) continue;
    char* end = nullptr;
    const auto id = static_cast<unsigned>(std::strtoul(line.c_str() + 6, &end, 10));
    names[id] = std::string(end + 1);
    names[id].erase(names[id].find_last_not_of("\r\n") + 1);
  }
  return names;
}

using Counts = std::map<std::string, unsigned>;

std::vector<std::pair<std::string, unsigned>> by_count(const Counts& counts) {
  std::vector<std::pair<std::string, unsigned>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

void print_path(const std::string& name, const Trace& trace, const std::unordered_map<Address, Place>& places) {
  Counts functions;
  std::map<std::string, Counts> inlined;
  unsigned sum = 0;
  for (const Address pc : trace) {
    const Place& place = places.at(pc);
    if (place.function.find("qm::bench::") != std::string::npos) continue;  // a function of the bench itself
    ++sum;
    ++functions[place.function];
    ++inlined[place.function][place.inlined];
  }
  fmt::print("\n{}: {}\n", name, sum);
  for (const auto& [function, count] : by_count(functions)) {
    fmt::print("{:>7}  {}\n", count, function);
    if (inlined[function].size() == 1) continue;
    for (const auto& [inner, inner_count] : by_count(inlined[function])) {
      if (inner_count * 20 >= sum) fmt::print("{:>13}  {}\n", inner_count, inner == function ? "itself" : inner);
    }
  }
}

}  // namespace

void print_profile(std::istream& log, const std::string& elf, std::istream& transcript) {
  const std::map<unsigned, Trace> traces = read_log(log);
  const std::map<unsigned, std::string> names = read_names(transcript);
  const std::unordered_map<Address, Place> places = resolve(traces, elf);
  if (traces.empty()) throw std::runtime_error("no path in the log: the bench has none");
  for (const auto& [path, trace] : traces) {
    const auto name = names.find(path);
    print_path(name != names.end() ? name->second : fmt::format("path {}", path), trace, places);
  }
}

}  // namespace qm::bench
