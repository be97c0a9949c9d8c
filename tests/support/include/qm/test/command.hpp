#pragma once
/// Shell commands, run by a test. Host only.

#include <sys/wait.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <string>

namespace qm::test {

/// The result of a command.
struct Outcome {
  int status = -1;   ///< its exit status; -1: it could not be started, or was killed
  std::string text;  ///< its standard output
};

/// Runs @p command and waits for its end.
inline Outcome run_command(const std::string& command) {
  Outcome outcome;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 65536> bytes;
  for (std::size_t count; (count = std::fread(bytes.data(), 1, bytes.size(), pipe)) != 0;)
    outcome.text.append(bytes.data(), count);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

/// The same. @returns its standard output.
inline std::string output_of(const std::string& command) { return run_command(command).text; }

}  // namespace qm::test
