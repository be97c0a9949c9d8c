#pragma once
/// Waits for output of another program. Host only.

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include <qm/test/read_file.hpp>

namespace qm::test {

/// Waits until a file in @p folder contains @p needle, at most 10 s. @returns whether one does.
inline bool await_text(const std::filesystem::path& folder, const std::string& needle) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < deadline) {
    std::error_code ignored;  // the folder may be created later
    for (const auto& each : std::filesystem::directory_iterator(folder, ignored)) {
      if (read_file(each.path()).find(needle) != std::string::npos) return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

}  // namespace qm::test
