#pragma once
/// A capture made once, the tool run on it, and others' programs run on what it writes.

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>
#include <qm/host/capture.hpp>
#include <qm/test/folder.hpp>

#include "capture_encoder.hpp"
#include "synthetic.hpp"

namespace qm::test {

/// Runs @p command. @returns what it wrote to standard output; @p status is its exit status.
inline std::string output_of(const std::string& command, int* status = nullptr) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string text;
  std::array<char, 65536> bytes;
  for (std::size_t count = 0; pipe != nullptr && (count = std::fread(bytes.data(), 1, bytes.size(), pipe)) > 0;) {
    text.append(bytes.data(), count);
  }
  const int ended = pclose(pipe);
  if (status != nullptr) *status = WEXITSTATUS(ended);
  return text;
}

/// Whether @p program can be started; the tests that need it are skipped if not.
inline bool is_there(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

/// A capture whose stacks lie in the demo's code, so that they have names, lines and inlined calls.
class FormatsTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kEvents = 5000;

  static void SetUpTestSuite() {
    folder_.emplace();
    SyntheticOptions options;
    options.events = kEvents;
    options.stacks = 60;
    options.depth = 8;
    options.live = 200;
    options.base_pc = 0x80204000;
    host::CaptureWriter writer(*folder_ / "run.qm", {{"recorder", "test"}}, 1);
    CaptureEncoder encoder(writer);
    Synthetic(options).deliver(encoder);
    writer.end("made");
    json_ = nlohmann::json::parse(qm("report --json"));
  }
  static void TearDownTestSuite() { folder_.reset(); }

  /// Runs the tool on the capture: @p words are a subcommand and its options.
  static std::string qm(const std::string& words) {
    int status = -1;
    std::string text = output_of(std::string(QM_TOOL) + " " + words + " --elf " + QM_DEMO_IMAGE + " --force " + path("run.qm"), &status);
    EXPECT_EQ(status, 0) << words;
    return text;
  }
  static std::string path(const std::string& name) { return (*folder_ / name).string(); }
  static std::string total(const char* key) { return json_["totals"][key].dump(); }

  static inline std::optional<TemporaryFolder> folder_;
  static inline nlohmann::json json_;  // the report
};

}  // namespace qm::test
