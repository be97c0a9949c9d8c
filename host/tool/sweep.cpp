#include "sweep.hpp"

#include <fmt/core.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include <qm/host/counted.hpp>
#include <qm/host/report_row.hpp>

#include "cleanup.hpp"
#include "progress.hpp"

namespace qm::tool {
namespace {

constexpr std::string_view kMark = "sweep";

/// The outcome of a run, from good to bad.
enum class Verdict { kOk, kError, kUnknown, kLeak, kDamage, kHang, kCrash };
constexpr std::array<std::string_view, 7> kVerdicts = {"ok", "error", "unknown", "leak", "damage", "hang", "crash"};

std::string_view name_of(Verdict verdict) { return kVerdicts[static_cast<std::size_t>(verdict)]; }

/// One run: whether the injected failure occurred, and the outcome.
struct Run {
  bool struck = false;
  Verdict verdict = Verdict::kOk;
  std::string told;  ///< the evidence: the command's error, the leak's stack, how the target ended
};

class Sweep {
 public:
  explicit Sweep(const SweepOptions& options) : options_(options) {}

  int run();

 private:
  using Counts = std::array<unsigned, kVerdicts.size()>;
  struct Answer {
    bool ok = false;
    std::vector<host::ReportRow> rows;
    std::string error;  ///< why the command failed
  };

  void boot();
  void end_target() noexcept;
  Answer ask(const std::string& command);
  /// @throws Error kInput if the command fails.
  Answer must(const std::string& command);
  void run_commands(Run& run);
  /// Looks for leaks and damage after the commands.
  void look_for_damage(Run& run);
  /// Runs the commands after the command @p fault; empty: without an injected failure.
  Run run_once(const std::string& fault);
  /// @returns the names of what shall fail: caches that the commands allocate from, arenas, `internal`. @throws Error
  ///          kInput if the commands fail without an injected failure.
  std::vector<std::string> baseline();
  std::map<std::string, std::uint64_t> allocations();
  /// @returns the counts of verdicts on the runs since @p before: `, 3 ok, 3 leak`.
  [[nodiscard]] std::string since(const Counts& before) const;
  void sweep_source(const std::string& source, std::string_view mode);
  void tell(const std::string& fault, const Run& run);
  [[nodiscard]] std::string reproduction(const std::string& fault) const;

  const SweepOptions& options_;
  std::optional<host::Target> target_;
  std::optional<Progress> progress_;
  Counts total_{};
};

void Sweep::boot() {
  if (!options_.serial.empty()) {
    target_.emplace(host::Target::attach(options_.serial, options_.baud, options_.timeouts));
  } else {
    target_.emplace(power_on(options_.qemu, options_.timeouts));
    target_->greet();
  }
  must("fault off");
  must("slab_trace start *");
}

void Sweep::end_target() noexcept {
  remember_qemu(nullptr);
  target_.reset();
}

Sweep::Answer Sweep::ask(const std::string& command) {
  Answer answer;
  const host::CommandResult result = target_->execute_for_rows(command, [&](const host::ReportRow& row) {
    if (row.kind == "error") answer.error = row.text("line");
    answer.rows.push_back(row);
  });
  answer.ok = result.ok();
  if (!answer.ok && answer.error.empty()) answer.error = name(result.status);
  return answer;
}

Sweep::Answer Sweep::must(const std::string& command) {
  Answer answer = ask(command);
  if (!answer.ok) throw host::Error(host::Fault::kInput, fmt::format("{}: {}", command, answer.error));
  return answer;
}

void Sweep::run_commands(Run& run) {
  for (const std::string& command : options_.commands) {
    const Answer answer = ask(command);
    if (answer.ok) continue;
    run.verdict = Verdict::kError;
    run.told = fmt::format("{}: {}", command, answer.error);
    return;  // as in a script: the next command may need the result of this one
  }
}

void Sweep::look_for_damage(Run& run) {
  if (const Answer kept = ask(fmt::format("expect {}", kMark)); !kept.ok) {
    // If the trace itself got no memory, nobody knows what is left.
    const bool is_known = kept.error.find("cannot tell") == std::string::npos;
    run.verdict = is_known ? Verdict::kLeak : Verdict::kUnknown;
    run.told = kept.error;
    for (const host::ReportRow& row : kept.rows) {
      if (row.kind != "frame" || row.text("function").empty()) continue;
      run.told += fmt::format(", from {}", row.text("function"));
      break;
    }
  }
  if (const Answer verified = ask("verify"); !verified.ok) {
    run.verdict = Verdict::kDamage;
    run.told = verified.error;
  }
}

Run Sweep::run_once(const std::string& fault) {
  if (!target_) boot();
  Run run;
  run.struck = true;  // assumed for a run that does not complete
  try {
    target_->console().clear_text();  // so that a crash report shows only the output of this run
    must(fmt::format("mark {}", kMark));
    if (!fault.empty()) must(fault);
    run_commands(run);
    // A fault that fails once is gone afterwards, so it has no row; a permanent fault reports how many allocations it
    // failed.
    for (const host::ReportRow& row : ask("fault").rows) {
      if (row.kind == "fault") run.struck = row.number("failed") != 0;
    }
    must("fault off");
    look_for_damage(run);
  } catch (const host::Error& error) {
    if (error.fault() != host::Fault::kDied && error.fault() != host::Fault::kTimedOut) throw;
    run.verdict = error.fault() == host::Fault::kDied ? Verdict::kCrash : Verdict::kHang;
    run.told = error.what();
    end_target();
  }
  return run;
}

std::map<std::string, std::uint64_t> Sweep::allocations() {
  std::map<std::string, std::uint64_t> all;
  for (const host::ReportRow& row : must("kmemstat").rows) {
    const std::string name(row.text("name"));
    const bool is_wanted = options_.caches.empty() || fnmatch(options_.caches.c_str(), name.c_str(), 0) == 0;
    if (row.kind == "cache" && is_wanted && !name.starts_with("kmem_")) all[name] = row.number("allocations");
  }
  return all;
}

std::vector<std::string> Sweep::baseline() {
  boot();
  const std::map<std::string, std::uint64_t> before = allocations();
  const Run run = run_once("");
  if (run.verdict != Verdict::kOk)
    throw host::Error(host::Fault::kInput, fmt::format("without any failure: {}: {}", name_of(run.verdict), run.told));
  std::vector<std::string> sources;
  if (!options_.caches.empty() || (options_.arenas.empty() && !options_.internal)) {
    for (const auto& [name, count] : allocations()) {
      const auto then = before.find(name);
      if (count > (then != before.end() ? then->second : 0)) sources.push_back(name);
    }
    if (sources.empty()) throw host::Error(host::Fault::kInput, "the commands allocate from no cache that can fail");
  }
  if (!options_.arenas.empty()) {
    const std::size_t caches = sources.size();
    for (const host::ReportRow& row : must("arena_stats").rows) {
      const std::string name(row.text("name"));
      if (row.kind == "arena" && fnmatch(options_.arenas.c_str(), name.c_str(), 0) == 0) sources.push_back(name);
    }
    if (sources.size() == caches) throw host::Error(host::Fault::kInput, "no arena is called " + options_.arenas);
  }
  if (options_.internal) sources.push_back("internal");
  return sources;
}

std::string Sweep::reproduction(const std::string& fault) const {
  const bool boots = options_.serial.empty();
  const host::QemuOptions& qemu = options_.qemu;
  std::string line = "qm exec --serial " + options_.serial;
  if (boots) {
    line = fmt::format("qm run --image {} --harts {}", qemu.image.string(), qemu.harts);
    if (qemu.board != "virt") line += " --board " + qemu.board;
    if (!qemu.append.empty()) line += " --append " + shell_word(qemu.append);
  }
  std::vector<std::string> commands = {"slab_trace start *", fmt::format("mark {}", kMark), fault};
  commands.insert(commands.end(), options_.commands.begin(), options_.commands.end());
  commands.insert(commands.end(), {"fault off", fmt::format("expect {}", kMark), "verify"});
  for (const std::string& command : commands) line += (boots ? " -c " : " ") + shell_word(command);
  return line;
}

void Sweep::tell(const std::string& fault, const Run& run) {
  ++total_[static_cast<std::size_t>(run.verdict)];
  if (options_.answers == Answers::kJson) {
    using Type = wire::FieldType;
    host::JsonRows json;
    std::string lines = json.add({"run",
                                  {{"fault", Type::kText, 0, fault},
                                   {"verdict", Type::kText, 0, std::string(name_of(run.verdict))},
                                   {"told", Type::kText, 0, run.told},
                                   {"reproduce", Type::kText, 0, reproduction(fault)}}});
    fmt::print("{}{}", lines, json.finish());
  } else if (run.verdict > Verdict::kUnknown) {
    fmt::print("{}: {}: {}\n  {}\n", fault, name_of(run.verdict), run.told, reproduction(fault));
  }
  std::fflush(stdout);
}

std::string Sweep::since(const Counts& before) const {
  std::string text;
  for (std::size_t verdict = 0; verdict < kVerdicts.size(); ++verdict) {
    if (total_[verdict] != before[verdict])
      text += fmt::format(", {} {}", total_[verdict] - before[verdict], kVerdicts[verdict]);
  }
  return text;
}

void Sweep::sweep_source(const std::string& source, std::string_view mode) {
  const Counts before = total_;
  unsigned number = 1;
  for (; number <= options_.most; ++number) {
    progress_->show(number, 0);
    const std::string fault = fmt::format("fault {} {} {}", source, mode, number);
    const Run run = run_once(fault);
    if (!run.struck) break;
    tell(fault, run);
  }
  if (options_.answers == Answers::kJson) return;
  std::string line = fmt::format("{} {}: {}", source, mode, host::counted(number - 1, "run")) + since(before);
  if (number > options_.most) line += "; there are more (--most)";
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

int Sweep::run() {
  const std::vector<std::string> sources = baseline();
  progress_.emplace();
  for (const std::string_view mode : {"nth", "from"}) {
    for (const std::string& source : sources) sweep_source(source, mode);
  }
  progress_.reset();
  if (options_.answers == Answers::kText)
    fmt::print("sweep: {}{}\n", host::counted(sources.size(), "source"), since({}));
  end_target();  // not every firmware can power off
  return std::any_of(total_.begin() + static_cast<int>(Verdict::kLeak), total_.end(),
                     [](unsigned count) { return count != 0; })
             ? kCommandFailed
             : kOk;
}

}  // namespace

int sweep(const SweepOptions& options) {
  try {
    const Interruptible interruptible;
    return Sweep(options).run();
  } catch (const host::Error& error) {
    remember_qemu(nullptr);
    const int status = report(error);
    return error.fault() == host::Fault::kInput ? kTargetFailed : status;
  }
}

}  // namespace qm::tool
