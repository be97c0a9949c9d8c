#pragma once
/// Host only.

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace qm::test {

/// @returns the file's bytes; none if it cannot be read.
inline std::string read_file(const std::filesystem::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(bytes).str();
}

}  // namespace qm::test
