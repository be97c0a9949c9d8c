#include "image.hpp"

#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "commands.hpp"

extern char** environ;

namespace qm::tool {

extern const char kGdbCommands[];  // host/gdb/quartermaster.py

namespace {

namespace fs = std::filesystem;

/// A directory for the files that GDB reads.
class Directory {
 public:
  Directory() {
    std::string pattern = (fs::temp_directory_path() / "qm-image-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Directory() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// @returns @p text as a string of Python.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\\' || c == '\'') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result + "'";
}

/// What GDB runs: each report, and then its own end, with status 1 if a report failed.
std::string script(const ImageOptions& options, const fs::path& directory) {
  // The file has a name without blanks here: GDB splits its commands at them.
  const std::string memory = (directory / "memory").string();
  std::string text = "set pagination off\nset confirm off\nset width 0\nset style enabled off\n";
  text += "source " + (directory / "quartermaster.py").string() + "\npython\nimport sys\n";
  text +=
      "def run(line, name, quiet=False):\n"
      "    try:\n"
      "        gdb.execute(line, False, quiet)\n"
      "    except gdb.error as error:\n"
      "        gdb.flush()\n"
      "        print('qm: ' + name + ': ' + str(error).replace(" +
      quoted(memory) +
      ", name), file=sys.stderr)\n"
      "        gdb.execute('quit 1')\n";
  text += "run(" + quoted(options.base ? "qm image " + memory + " " + *options.base : "target core " + memory) + ", " +
          quoted(options.memory) + ", True)\n";
  for (const std::string& report : options.reports)
    text += "run(" + quoted("qm " + report) + ", " + quoted(report) + ")\n";
  return text + "gdb.execute('quit 0')\nend\n";
}

int missing(const std::string& file) {
  fmt::print(stderr, "qm: {}: {}\n", file, std::strerror(errno));
  return kWrongUsage;
}

}  // namespace

int image(const ImageOptions& options) {
  for (const std::string& file : {options.firmware, options.memory}) {
    if (access(file.c_str(), R_OK) != 0) return missing(file);
  }
  const Directory directory;
  std::ofstream commands(directory.path() / "quartermaster.py"), run(directory.path() / "run.gdb");
  commands << kGdbCommands;
  run << script(options, directory.path());
  commands.close();
  run.close();
  std::error_code error;
  fs::create_symlink(fs::absolute(options.memory), directory.path() / "memory", error);
  if (directory.path().empty() || !commands || !run || error) return missing(fs::temp_directory_path().string());

  const char* const chosen = std::getenv("QM_GDB");
  const std::string gdb = chosen != nullptr ? chosen : "gdb-multiarch";
  const std::string file = (directory.path() / "run.gdb").string();
  const char* const arguments[] = {gdb.c_str(), "-q", "-nx", "-batch", "-x", file.c_str(), options.firmware.c_str(),
                                   nullptr};
  pid_t child = 0;
  const int failure = posix_spawnp(&child, gdb.c_str(), nullptr, nullptr, const_cast<char**>(arguments), environ);
  if (failure != 0) {
    fmt::print(stderr, "qm: {} cannot be started: {} (Debian: gdb-multiarch; QM_GDB names another)\n", gdb,
               std::strerror(failure));
    return kWrongUsage;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? kOk : kCommandFailed;
}

}  // namespace qm::tool
