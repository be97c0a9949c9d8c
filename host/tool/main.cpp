// qm: one tool with one subcommand for each task. This file has the options; commands.hpp has the subcommands.

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include <qm/host/standard_streams.hpp>

#include "cleanup.hpp"
#include "check.hpp"
#include "commands.hpp"
#include "image.hpp"
#include "sweep.hpp"
#include "top.hpp"

namespace {

using namespace qm;

void add_baud(CLI::App& app, unsigned& baud) {
  app.add_option("--baud", baud, "bits per second of a serial device")->capture_default_str();
}

void add_raw(CLI::App& app, bool& raw) {
  app.add_flag("--raw", raw,
               "frames without the armour that hides them from terminals: a fifth more events over the same line");
}

void add_board(CLI::App& app, host::QemuOptions& qemu) {
  app.add_option("--board", qemu.board, "QEMU's board: virt, spike, sifive_u")
      ->check(CLI::IsMember({"virt", "spike", "sifive_u"}))
      ->capture_default_str();
  app.add_option("--harts", qemu.harts, "1 to 8, on sifive_u 1 to 4")->check(CLI::Range(1u, 8u))->capture_default_str();
}

CLI::Validator ram_size() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        if (text.empty()) return "should be a size such as 128M";
        const std::size_t digits = text.find_first_not_of("0123456789");
        const bool unit =
            digits + 1 == text.size() && std::string_view("KMGkmg").find(text[digits]) != std::string_view::npos;
        const bool zero = text.find_first_of("123456789") == std::string::npos;
        const bool good = !zero && digits != 0 && (digits == std::string::npos || unit);
        return good ? "" : "should be a size such as 128M";
      },
      "SIZE");
}

/// CLI11's own validator prints its range with 300 digits.
CLI::Validator positive() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        char* end = nullptr;
        return std::strtod(text.c_str(), &end) > 0 && *end == 0 ? "" : "should be a number above 0";
      },
      "POSITIVE");
}

struct Options {
  tool::RunOptions run;
  std::string what;
  bool keep = false;
  double silence_seconds = 300;
  double boot_seconds = 60;
  std::vector<std::string> exec_commands;
  std::string script;
  tool::RecordOptions record;
  tool::CheckOptions check;
  tool::TopOptions top;
  tool::SweepOptions sweep;
  tool::ImageOptions image;
  double hang_seconds = 10;
};

void add_json(CLI::App& app, Options& options) {
  app.add_flag_callback(
      "--json", [&options] { options.run.answers = tool::Answers::kJson; },
      "print the rows of the commands' reports and their status as JSON, an object a line");
}

void add_run(CLI::App& app, Options& options) {
  CLI::App* run =
      app.add_subcommand("run", "boot the firmware in QEMU and attach the terminal to its console (Ctrl-A x leaves)");
  run->add_option("what", options.what, "demo: hunt a leak from start to end and check what is found")
      ->check(CLI::IsMember({"demo"}));
  run->add_option("-c,--command", options.run.commands, "run this command, then the next, and power off")
      ->take_all()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  run->add_option("-f,--file", options.script,
                  "run the commands of this file, one a line, up to the first that fails; -: of standard input, as "
                  "without an option where that is no terminal")
      ->type_name("FILE");
  add_board(*run, options.run.qemu);
  run->add_option("--ram", options.run.qemu.ram, "size of the memory")->check(ram_size())->capture_default_str();
  run->add_option("--append", options.run.qemu.append, "boot options, as 'trace=* ring=64K'");
  run->add_option("--image", options.run.qemu.image, "the firmware, an ELF file");
  run->add_flag("--icount", options.run.qemu.icount,
                "count time in instructions; commands given with -c are the board's from its start, and the same "
                "commands give the same run, addresses and times included");
  run->add_flag("--keep", options.keep, "leave the target running");
  run->add_option("--record", options.run.record.file, "record all that goes over the line into this file")
      ->type_name("FILE");
  add_raw(*run, options.run.raw);
  run->add_option("--pace", options.run.pace, "read no faster than a line of so many bits per second carries")
      ->type_name("BAUD");
  run->add_option("--serial", options.run.serial,
                  "attach to unix:PATH, tcp:HOST:PORT or a serial device instead of booting");
  add_baud(*run, options.run.baud);
  run->add_option("--timeout", options.silence_seconds, "seconds of silence after which a command counts as hung")
      ->check(positive())
      ->capture_default_str();
  run->add_option("--boot-timeout", options.boot_seconds, "seconds of silence after which a boot counts as hung")
      ->check(positive())
      ->capture_default_str();
  add_json(*run, options);
  run->footer(
      "Status: 0 no command failed, 1 one did, 2 wrong usage, 3 the target died, hung or never answered;\n"
      "after 'poweroff S', S.\n"
      "QM_QEMU names another QEMU, QM_TRANSCRIPTS another folder for the transcripts.");
}

void add_exec(CLI::App& app, Options& options) {
  CLI::App* exec = app.add_subcommand("exec", "run commands on a target that runs already");
  exec->add_option("--serial", options.run.serial, "unix:PATH, tcp:HOST:PORT or a serial device; default: $QM_SERIAL")
      ->envname("QM_SERIAL");
  add_baud(*exec, options.run.baud);
  add_json(*exec, options);
  exec->add_option("command", options.exec_commands, "commands, one argument each")->required();
  exec->add_option("--timeout", options.silence_seconds, "seconds of silence after which a command counts as hung")
      ->check(positive())
      ->capture_default_str();
  exec->footer("Status: 0 no command failed, 1 one did, 2 wrong usage, 3 no answer or another protocol version.");
}

/// The line of the target: an argument, or QM_SERIAL in the environment.
void add_place(CLI::App& app, std::string& serial, unsigned& baud) {
  app.add_option("serial", serial, "unix:PATH, tcp:HOST:PORT or a serial device; default: $QM_SERIAL")
      ->envname("QM_SERIAL");
  add_baud(app, baud);
}

void add_console(CLI::App& app, Options& options) {
  CLI::App* console =
      app.add_subcommand("console", "attach the terminal to a target that runs already (Ctrl-A x leaves)");
  add_place(*console, options.run.serial, options.run.baud);
  console->add_option("--record", options.run.record.file, "record all that goes over the line into this file")
      ->type_name("FILE");
  console->footer(
      "Text is shown as it comes, frames are not; what has scrolled by is in the terminal's own scroll-back.");
}

void add_record(CLI::App& app, Options& options) {
  CLI::App* record = app.add_subcommand("record", "record a target's line into a capture, until Ctrl-C");
  add_place(*record, options.record.serial, options.record.baud);
  options.record.to.file = "capture.qm";
  record->add_option("-o,--output", options.record.to.file, "the capture")->type_name("FILE")->capture_default_str();
  record->add_option("--for", options.record.seconds, "end after this time: 90, 90s, 5m, 1h")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, double>{{"s", 1}, {"m", 60}, {"h", 3600}},
                                        CLI::AsNumberWithUnit::CASE_INSENSITIVE, "TIME"))
      ->check(positive());
  record->add_option("--image", options.record.to.image, "the target's ELF file, to be put into the capture")
      ->type_name("FILE");
  record->add_option("--start", options.record.start, "the command that starts the event stream; '' starts none")
      ->capture_default_str();
  add_raw(*record, options.record.raw);
  record->add_flag("--force", options.record.force, "record although the target runs another build than the image");
  record->footer(
      "A stream that record has started it stops at the end. What was recorded is in the file at once: a killed "
      "recorder\n"
      "leaves a capture that can be read. Next: qm check FILE, qm report FILE.");
}

void add_top(CLI::App& app, Options& options) {
  CLI::App* top =
      app.add_subcommand("top", "what the caches of a running target hold, and how fast they are used (q ends)");
  add_place(*top, options.top.serial, options.top.baud);
  top->add_option("--every", options.top.every_seconds, "seconds between two looks")
      ->check(positive())
      ->capture_default_str();
  top->add_option("--for", options.top.seconds, "end after so many seconds")->check(positive());
  top->add_option("--sort", options.top.sort, "what stands first: bytes, growth, objects, allocs, frees, name")
      ->check(CLI::IsMember({"bytes", "growth", "objects", "allocs", "frees", "name"}))
      ->capture_default_str();
  top->add_option("--filter", options.top.filter, "show what has this in its name, or a pattern with * and ?")
      ->type_name("PATTERN");
  top->add_option("--start", options.top.start, "the command that starts the event stream; '' starts none")
      ->capture_default_str();
  top->footer(
      "Keys: b g o a f n sort, r reverses, / filters, p pauses, h has them all. Growth counts from the start of the "
      "stream.\nOn no terminal: a table each time.");
}

void add_check(CLI::App& app, Options& options) {
  CLI::App* check = app.add_subcommand("check", "is a capture complete, and equal to what the target has counted?");
  check->add_option("file", options.check.file, "the capture")->required();
  check->add_option("--image", options.check.image, "the ELF file that it is to be of")->type_name("FILE");
  check->add_flag("--force", options.check.force, "go on although the build differs");
  check->footer("Status: 0 complete and equal, 1 not, or no capture, 2 wrong usage.");
}

void add_sweep(CLI::App& app, Options& options) {
  CLI::App* sweep = app.add_subcommand(
      "sweep", "run commands again and again, with another allocation failing each time: who leaks, crashes, hangs?");
  sweep->add_option("command", options.sweep.commands, "commands, one argument each")->required();
  sweep->add_option("--image", options.sweep.qemu.image, "the firmware to boot in QEMU, an ELF file");
  sweep->add_option("--serial", options.sweep.serial,
                    "unix:PATH, tcp:HOST:PORT or a serial device of a target that runs already");
  add_baud(*sweep, options.sweep.baud);
  add_board(*sweep, options.sweep.qemu);
  sweep->add_option("--append", options.sweep.qemu.append, "boot options");
  sweep
      ->add_option("--caches", options.sweep.caches,
                   "fail allocations of these, a pattern with * and ?; default: of all that "
                   "the commands allocate from")
      ->type_name("PATTERN");
  sweep->add_option("--arenas", options.sweep.arenas, "fail segments and blocks of these arenas")->type_name("PATTERN");
  sweep->add_flag("--internal", options.sweep.internal, "fail all that the allocator takes on slow paths");
  sweep->add_option("--most", options.sweep.most, "allocations of a source to fail, one in each run")
      ->check(CLI::Range(1u, 1000000u))
      ->capture_default_str();
  sweep->add_option("--timeout", options.hang_seconds, "seconds of silence after which a run hangs")
      ->check(positive())
      ->capture_default_str();
  sweep->add_flag_callback(
      "--json", [&options] { options.sweep.answers = tool::Answers::kJson; },
      "print each run as JSON, an object a line");
  sweep->footer(
      "Status: 0 each run ended well, with an error that a command reported, or unknown, 1 one leaked, damaged the "
      "heap, hung or "
      "crashed,\n"
      "2 wrong usage, 3 the commands fail or leak without an injected failure, or the target never answered.");
}

void add_image(CLI::App& app, Options& options) {
  CLI::App* image = app.add_subcommand("image", "the console's reports from a core or raw memory, by GDB");
  image->add_option("firmware", options.image.firmware, "the ELF file that ran, with debug information")->required();
  image->add_option("memory", options.image.memory, "a core, or raw memory with --base")->required();
  image->add_option("report", options.image.reports, "'traces packet', 'whatis 0x80123450', ..., one argument each")
      ->capture_default_str();
  image->add_option("--base", options.image.base, "the address at which raw memory begins")->type_name("ADDRESS");
  image->footer("Status: 0 all reports were made, 1 one was not, 2 wrong usage, a missing file or no GDB.");
}

/// A subcommand of another program in the same folder: booting and recording need neither its libraries nor its build
/// time.
struct Elsewhere {
  std::string_view name;
  const char* program;
  const char* help;
};
constexpr std::array<Elsewhere, 5> kElsewhere = {{
    {"diff", "qm-analysis", "compare what two captures, or two dumps of the console, have out, stack by stack"},
    {"export", "qm-analysis", "turn a capture into a file for pprof, Perfetto, flame graphs, speedscope, csv, SQLite"},
    {"replay", "qm-replay", "what other magazines, slabs and quantum caches would have cost what was recorded"},
    {"report", "qm-analysis", "explain a capture: totals, hot call sites, caches, lifetimes, leaks; text, JSON, HTML"},
    {"symbolize", "qm-analysis", "explain addresses in any text: function, file, line, inlined calls"},
}};

/// Replaces this program by the other one, with the same arguments. @returns only if that fails.
int start_other(const Elsewhere& other, char** argv) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe").replace_filename(other.program);
  execv(program.c_str(), argv);
  fmt::print(stderr,
             "qm: `qm {}` needs {}, which is not built: `./qm {}` builds it, or by hand\n"
             "    sh cmake/install-packages.sh analysis; cmake -B BUILD && cmake --build BUILD --target {}\n",
             other.name, program.string(), other.name, other.program);
  return tool::kTargetFailed;
}

/// @returns what is wrong with the combination of run's options; empty: nothing.
std::string contradiction(const CLI::App& run, const Options& options) {
  if (!options.what.empty() && !options.run.commands.empty()) return "demo runs commands of its own: no -c with it";
  if (run.count("--json") != 0 && options.run.commands.empty()) return "--json is for commands: -c";
  if (options.run.serial.empty()) {
    if (options.run.qemu.image.empty()) return "--image or --serial is required";
    if (!options.run.qemu.icount || options.run.commands.empty()) return "";
    for (const char* name : {"--keep", "--pace", "--raw", "--json", "--file"}) {
      if (run.count(name) != 0) return std::string(name) + " does not go with --icount and -c, whose runs repeat";
    }
    return tool::unrepeatable(options.run.commands);
  }
  for (const char* name : {"--harts", "--ram", "--append", "--icount", "--keep"}) {
    if (run.count(name) != 0)
      return std::string(name) + " is for a target that is booted, and --serial names one that runs";
  }
  return "";
}

int missing_place() {
  fmt::print(stderr, "qm: where is the target? Give unix:PATH, tcp:HOST:PORT or a serial device, or set QM_SERIAL\n");
  return tool::kWrongUsage;
}

std::string command_line(int argc, char** argv) {
  std::string line = "qm";
  for (int index = 1; index < argc; ++index) {
    const std::string word = argv[index];
    const bool plain = word.find_first_of(" '\"\\$*?;&|<>()") == std::string::npos && !word.empty();
    line += " " + (plain ? word : tool::shell_word(word));
  }
  return line;
}

host::Milliseconds milliseconds(double seconds) {
  return host::Milliseconds(static_cast<long long>(std::min(seconds, 1e6) * 1000));
}

/// Reads the options and executes them.
/// @returns the program's exit status.
int start(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  const auto other =
      std::find_if(kElsewhere.begin(), kElsewhere.end(), [&](const auto& each) { return each.name == first; });
  if (other != kElsewhere.end()) return start_other(*other, argv);
  CLI::App app("Quartermaster's host tool", "qm");
  Options options;
  add_run(app, options);
  add_exec(app, options);
  add_console(app, options);
  add_record(app, options);
  add_check(app, options);
  add_top(app, options);
  add_sweep(app, options);
  add_image(app, options);
  for (const Elsewhere& each : kElsewhere) app.add_subcommand(std::string(each.name), each.help);
  app.require_subcommand(1);
  app.set_version_flag("--version", "qm " QM_VERSION);
  const auto is_first = [&](const CLI::App* each) { return each->get_name() == first; };
  if (!first.empty() && first.front() != '-' && app.get_subcommands(is_first).empty()) {
    fmt::print(stderr, "qm: no subcommand {}: qm --help lists them\n", first);
    return tool::kWrongUsage;
  }
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
    if (options.run.serial.empty()) return missing_place();
    return tool::execute(options.run.serial, options.run.baud, options.exec_commands, options.run.answers,
                         options.run.timeouts);
  }
  if (app.got_subcommand("check")) return tool::check(options.check);
  if (app.got_subcommand("image")) return tool::image(options.image);
  if (app.got_subcommand("sweep")) {
    if (options.sweep.qemu.image.empty() == options.sweep.serial.empty()) {
      fmt::print(stderr, "qm: sweep needs --image or --serial, one of them\n");
      return tool::kWrongUsage;
    }
    // A panic waits for a key before it ends, and nobody presses one during a sweep.
    std::string& append = options.sweep.qemu.append;
    if (append.find("panic=") == std::string::npos) append += append.empty() ? "panic=1" : " panic=1";
    options.sweep.timeouts.command = milliseconds(options.hang_seconds);
    return tool::sweep(options.sweep);
  }
  const std::string command = command_line(argc, argv);
  if (app.got_subcommand("record")) {
    if (options.record.serial.empty()) return missing_place();
    options.record.timeouts = options.run.timeouts;
    options.record.to.command = command;
    options.record.to.line = options.record.serial;
    options.record.to.baud = options.record.serial.starts_with('/') ? options.record.baud : 0;
    return tool::record(options.record);
  }
  if (app.got_subcommand("top")) {
    if (options.top.serial.empty()) return missing_place();
    options.top.timeouts = options.run.timeouts;
    return tool::top(options.top);
  }
  options.run.record.command = command;
  options.run.record.line = options.run.serial.empty() ? "qemu" : options.run.serial;
  options.run.record.baud = options.run.serial.starts_with('/') ? options.run.baud : 0;
  if (app.got_subcommand("console")) {
    if (options.run.serial.empty()) return missing_place();
    return tool::run(options.run);
  }
  options.run.record.image = options.run.qemu.image;
  const CLI::App& run = *app.get_subcommand("run");
  // ./run < script
  if (options.what.empty() && options.run.commands.empty() && options.script.empty() && isatty(STDIN_FILENO) == 0)
    options.script = "-";
  if (!options.script.empty()) {
    std::string wrong = "demo, -c and -f: one of them";
    if (options.what.empty() && options.run.commands.empty())
      wrong = tool::read_script(options.script, options.run.commands, options.run.script);
    if (!wrong.empty()) {
      fmt::print(stderr, "qm: {}\n", wrong);
      return tool::kWrongUsage;
    }
  }
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
  host::open_standard_streams();
  try {
    const int status = start(argc, argv);
    host::flush_standard_output();
    return status;
  } catch (const host::Error& error) {
    std::fflush(stdout);
    fmt::print(stderr, "qm: {}\n", error.what());
    return tool::status_of(error);
  } catch (const std::exception& error) {
    std::fputs("qm: ", stderr);
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
    return tool::kTargetFailed;
  }
}
