#pragma once
/// A capture made once, the tool run on it, and other programs run on the tool's output.

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>
#include <qm/host/capture.hpp>
#include <qm/test/command.hpp>
#include <qm/test/folder.hpp>

#include "capture_encoder.hpp"
#include "synthetic.hpp"

namespace qm::test {

/// Whether @p program can be started; tests that need it are skipped otherwise.
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
    Outcome outcome =
        run_command(std::string(QM_TOOL) + " " + words + " --elf " + QM_DEMO_IMAGE + " --force " + path("run.qm"));
    EXPECT_EQ(outcome.status, 0) << words;
    return std::move(outcome.text);
  }
  static std::string path(const std::string& name) { return (*folder_ / name).string(); }
  static std::string total(const char* key) { return json_["totals"][key].dump(); }

  static inline std::optional<TemporaryFolder> folder_;
  static inline nlohmann::json json_;  // the report
};

}  // namespace qm::test
