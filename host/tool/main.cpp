// qm: one tool, one subcommand for each thing it does. Here are the options; the rest is in commands.hpp.

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

#include "cleanup.hpp"
#include "commands.hpp"

namespace {

using namespace qm;

void add_line(CLI::App& app, std::string& serial, unsigned& baud) {
  app.add_option("--serial", serial, "attach to unix:PATH, tcp:HOST:PORT or a serial device instead of booting");
  app.add_option("--baud", baud, "bits per second of a serial device")->capture_default_str();
}

CLI::Validator ram_size() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        const std::size_t digits = text.find_first_not_of("0123456789");
        const bool unit = digits + 1 == text.size() && std::string_view("KMGkmg").find(text[digits]) != std::string_view::npos;
        const bool good = !text.empty() && digits != 0 && (digits == std::string::npos || unit);
        return good ? "" : "should be a size such as 128M";
      },
      "SIZE");
}

struct Options {
  tool::RunOptions run;
  std::string what;
  bool keep = false;
  double silence_seconds = 300;
  double boot_seconds = 60;
  std::vector<std::string> exec_commands;
};

void add_run(CLI::App& app, Options& options) {
  CLI::App* run =
      app.add_subcommand("run", "boot the firmware in QEMU and attach the terminal to its console (Ctrl-A x leaves)");
  run->add_option("what", options.what, "demo: hunt a leak from start to end and check what is found")
      ->check(CLI::IsMember({"demo"}));
  run->add_option("-c,--command", options.run.commands, "run this command, then the next, and power off")
      ->take_all()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  run->add_option("--harts", options.run.qemu.harts, "1 to 8")->check(CLI::Range(1u, 8u))->capture_default_str();
  run->add_option("--ram", options.run.qemu.ram, "size of the memory")->check(ram_size())->capture_default_str();
  run->add_option("--append", options.run.qemu.append, "boot options, as 'trace=* ring=64K'");
  run->add_option("--image", options.run.qemu.image, "the firmware, an ELF file");
  run->add_flag("--icount", options.run.qemu.icount, "count time in instructions: exact and repeatable");
  run->add_flag("--keep", options.keep, "leave the target running");
  add_line(*run, options.run.serial, options.run.baud);
  run->add_option("--timeout", options.silence_seconds, "seconds of silence after which a command counts as hung")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  run->add_option("--boot-timeout", options.boot_seconds, "seconds of silence after which a boot counts as hung")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  run->footer(
      "Status: 0 no command failed, 1 one did, 2 wrong usage, 3 the target died, hung or never answered;\n"
      "after 'poweroff S', S.\n"
      "QM_QEMU names another QEMU, QM_TRANSCRIPTS another folder for the transcripts.");
}

void add_exec(CLI::App& app, Options& options) {
  CLI::App* exec = app.add_subcommand("exec", "run commands on a target that runs already");
  add_line(*exec, options.run.serial, options.run.baud);
  exec->get_option("--serial")->required();
  exec->add_option("command", options.exec_commands, "commands, one argument each")->required();
  exec->add_option("--timeout", options.silence_seconds, "seconds of silence after which a command counts as hung")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

/// The subcommands of the program qm-analysis, which lies beside this one: booting and recording need neither its libraries nor
/// the time it takes to build.
constexpr std::array<std::pair<const char*, const char*>, 2> kAnalysis = {{
    {"report", "explain a capture: totals, hot call sites, caches, lifetimes, leaks; text, JSON, HTML"},
    {"symbolize", "explain addresses in any text: function, file, line, inlined calls"},
}};

/// Becomes qm-analysis with the same arguments. @returns only if that cannot be.
int analyse(char** argv) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe").replace_filename("qm-analysis");
  execv(program.c_str(), argv);
  fmt::print(stderr,
             "qm: `qm {}` needs {}, which is not built: install what `sh cmake/install-packages.sh analysis` says, and\n"
             "    cmake -B BUILD && cmake --build BUILD --target qm-analysis\n",
             argv[1], program.string());
  return tool::kTargetFailed;
}

/// @returns what is wrong with the combination of run's options; empty: nothing.
std::string contradiction(const CLI::App& run, const Options& options) {
  if (!options.what.empty() && !options.run.commands.empty()) return "demo runs commands of its own: no -c with it";
  if (options.run.serial.empty()) return options.run.qemu.image.empty() ? "--image or --serial is required" : "";
  for (const char* name : {"--harts", "--ram", "--append", "--icount", "--keep"}) {
    if (run.count(name) != 0) return std::string(name) + " is for a target that is booted, and --serial names one that runs";
  }
  return "";
}

host::Milliseconds milliseconds(double seconds) {
  return host::Milliseconds(static_cast<long long>(std::min(seconds, 1e6) * 1000));
}

/// Reads the options and does what they say.
/// @returns the program's exit status.
int start(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (std::any_of(kAnalysis.begin(), kAnalysis.end(), [&](const auto& each) { return each.first == first; })) return analyse(argv);
  CLI::App app("Quartermaster's host tool", "qm");
  Options options;
  add_run(app, options);
  add_exec(app, options);
  for (const auto& [name, help] : kAnalysis) app.add_subcommand(name, help);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? tool::kOk : tool::kWrongUsage;
  }
  tool::install_signal_handlers();
  options.run.timeouts.command = milliseconds(options.silence_seconds);
  options.run.timeouts.hello = std::min(options.run.timeouts.hello, options.run.timeouts.command);
  options.run.timeouts.boot = milliseconds(options.boot_seconds);
  if (app.got_subcommand("exec")) {
    return tool::execute(options.run.serial, options.run.baud, options.exec_commands, options.run.timeouts);
  }
  const CLI::App& run = *app.get_subcommand("run");
  if (const std::string wrong = contradiction(run, options); !wrong.empty()) {
    fmt::print(stderr, "qm: {}\n", wrong);
    return tool::kWrongUsage;
  }
  options.run.demo = !options.what.empty();
  if (options.keep) options.run.qemu.lifetime = host::Lifetime::kKept;
  return tool::run(options.run);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return start(argc, argv);
  } catch (const std::exception& error) {
    std::fputs("qm: ", stderr);
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
    return tool::kTargetFailed;
  }
}
