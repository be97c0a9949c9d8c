#include <qm/host/qemu.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include <qm/host/elf_image.hpp>

#include "board_line.hpp"

namespace qm::host {
namespace {

/// The facts about a board that must be known before it runs; the firmware finds the others in the device tree.
struct Board {
  std::string_view name;
  unsigned most_harts = 0;
  unsigned further_harts = 0;          // harts on which no firmware runs in S-mode
  bool is_piped = false;               // its line is a BoardLine
  bool acknowledges = false;           // its input is acknowledged, see BoardLine
  std::vector<std::string> options{};  // options for QEMU
};

const Board& board_of(const QemuOptions& options) {
  static const std::array<Board, 3> kBoards{{
      {.name = "virt", .most_harts = 8},
      {.name = "spike", .most_harts = 8, .is_piped = true, .acknowledges = true},
      // On this board only semihosting can end QEMU with a status.
      {.name = "sifive_u",
       .most_harts = 4,
       .further_harts = 1,
       .is_piped = true,
       .options = {"-semihosting-config", "enable=on,target=native"}},
  }};
  std::string names;
  for (const Board& board : kBoards) {
    if (board.name == options.board) return board;
    names += (names.empty() ? "" : ", ") + std::string(board.name);
  }
  throw Error(Fault::kUsage, "no board " + options.board + ": there are " + names);
}

std::filesystem::path monitor_of(const std::filesystem::path& socket) { return socket.parent_path() / "monitor"; }

std::string program_of(const QemuOptions& options) {
  if (!options.program.empty()) return options.program;
  const char* named = std::getenv("QM_QEMU");
  return named != nullptr && *named != 0 ? named : "qemu-system-riscv64";
}

/// Refuses an image for another machine than QEMU's, because it would never print anything. A QEMU with an unusual name
/// may be for any machine.
void require_image_for(const std::string& program, const std::filesystem::path& image) {
  const std::string name = std::filesystem::path(program).filename().string();
  for (const unsigned bits : {32u, 64u}) {
    if (name.find("riscv" + std::to_string(bits)) == std::string::npos) continue;
    if (const unsigned has = bits_of(image); has != bits) {
      throw Error(Fault::kInput, image.string() + ": an image for RISC-V of " + std::to_string(has) + " bits, which " +
                                     name + " does not run");
    }
  }
}

/// @returns a new directory that only this user can enter, with a path short enough for a socket's name.
std::filesystem::path private_directory() {
  const char* temporary = std::getenv("TMPDIR");
  std::string pattern = (temporary != nullptr && *temporary != 0 ? std::string(temporary) : "/tmp") + "/qm-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    throw Error(Fault::kOpen, "cannot create a private directory " + pattern + ": " + std::strerror(errno));
  }
  if (pattern.size() + std::strlen("/line") >= sizeof sockaddr_un::sun_path) {
    rmdir(pattern.c_str());
    throw Error(Fault::kOpen, pattern + " is too long for a socket's path; set TMPDIR to a shorter one");
  }
  return pattern;
}

/// Most bytes of output that the host has not read, for a board that only sends.
constexpr int kPipeBytes = 1 << 20;

/// Separates the boot options from the commands.
constexpr std::string_view kCommandsFollow = " -- commands\n";

/// @returns the boot options, followed by the text from which the demo image takes its commands.
std::string boot_options(const QemuOptions& options) {
  std::string text = options.append;
  if (!options.commands.empty()) text += kCommandsFollow;
  for (const std::string& command : options.commands) text += command + "\n";
  return text;
}

/// Runs only in the child, between fork and exec: async-signal-safe calls alone. If it fails, it reports errno through
/// @p report.
[[noreturn]] void become(const std::vector<char*>& arguments, int log, int report, pid_t parent, Lifetime lifetime) {
  setsid();  // Ctrl-C in the terminal is for the firmware, not for QEMU
  if (lifetime == Lifetime::kOwned) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent ended before the line above
  }
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  if (write(report, &error, sizeof error) < 0) _exit(126);
  _exit(127);
}

}  // namespace

bool takes_commands(const std::filesystem::path& image) {
  std::ifstream file(image, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  if (!file || bytes.bad()) throw Error(Fault::kInput, image.string() + " cannot be read: " + std::strerror(errno));
  return bytes.view().find(kCommandsFollow) != std::string_view::npos;
}

std::string describe(ExitStatus status) {
  if (!status.by_signal) return "ended with status " + std::to_string(status.number);
  return "was killed by signal " + std::to_string(status.number) + " (" + strsignal(status.number) + ")";
}

std::vector<std::string> Qemu::arguments(const QemuOptions& options, const std::filesystem::path& socket) {
  const Board& board = board_of(options);
  std::string line = "socket,id=line,path=" + socket.string() + ",server=on,wait=on";
  if (board.is_piped) line = "pipe,id=line,path=" + socket.string();
  if (!options.commands.empty()) line = "file,id=line,path=" + socket.string();
  std::vector<std::string> list{program_of(options),
                                "-machine",
                                options.board,
                                "-bios",
                                "default",
                                "-m",
                                options.ram,
                                "-smp",
                                std::to_string(options.harts + board.further_harts),
                                "-display",
                                "none",
                                "-monitor",
                                "none",
                                "-chardev",
                                line,
                                "-serial",
                                "chardev:line",
                                "-kernel",
                                options.image.string()};
  if (const std::string append = boot_options(options); !append.empty()) list.insert(list.end(), {"-append", append});
  if (options.icount) list.insert(list.end(), {"-icount", "shift=0,sleep=off"});
  if (options.single_step) list.emplace_back("-singlestep");
  list.insert(list.end(), board.options.begin(), board.options.end());
  if (board.acknowledges)
    list.insert(list.end(), {"-qmp", "unix:" + monitor_of(socket).string() + ",server=on,wait=off"});
  list.insert(list.end(), options.extra.begin(), options.extra.end());
  return list;
}

Qemu::Qemu(const QemuOptions& options)
    : program_(program_of(options)), lifetime_(options.lifetime), only_sends_(!options.commands.empty()) {
  const Board& board = board_of(options);
  if (options.harts < 1 || options.harts > board.most_harts)
    throw Error(Fault::kUsage, "harts: 1 to " + std::to_string(board.most_harts) + " on the board " + options.board +
                                   ", not " + std::to_string(options.harts));
  if (board.is_piped && lifetime_ == Lifetime::kKept)
    throw Error(Fault::kUsage, "the board " + options.board + " cannot be left running: its line is this program's");
  if (options.ram.empty() || options.ram.find(',') != std::string::npos)
    throw Error(Fault::kUsage, "ram: a size such as 128M");
  if (access(options.image.c_str(), R_OK) != 0) {
    throw Error(Fault::kOpen, "no firmware image " + options.image.string() + ": " + std::strerror(errno));
  }
  require_image_for(program_, options.image);
  directory_ = private_directory();
  try {
    if (only_sends_ && mkfifo(socket().c_str(), 0600) != 0)
      throw Error(Fault::kOpen, "cannot make the pipe " + socket().string() + ": " + std::strerror(errno));
    else if (board.is_piped)
      line_ = std::make_unique<BoardLine>(socket(), board.acknowledges ? monitor_of(socket()) : "");
    start(arguments(options, socket()));
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
    throw;
  }
}

void Qemu::start(const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  const int log = open((directory_ / "qemu.log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  int report[2];
  if (log < 0 || pipe2(report, O_CLOEXEC) != 0) {
    throw Error(Fault::kOpen, std::string("cannot start QEMU: ") + std::strerror(errno));
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become(pointers, log, report[1], parent, lifetime_);
  close(log);
  close(report[1]);
  int error = pid_ < 0 ? errno : 0;
  // The pipe closes when exec has succeeded.
  if (pid_ > 0 && read(report[0], &error, sizeof error) != static_cast<ssize_t>(sizeof error)) error = 0;
  close(report[0]);
  if (error == 0) return;
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  pid_ = -1;
  throw Error(Fault::kOpen, "cannot start QEMU (" + program_ + "): " + std::strerror(error));
}

Qemu::~Qemu() {
  if (lifetime_ == Lifetime::kKept && !exit_status().has_value()) return;
  kill();
  line_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

/// A pipe seems closed until QEMU has opened it. The board's first byte shows that QEMU has.
Transport Qemu::open_pipe(Clock::time_point deadline) {
  const int pipe = open(socket().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (pipe < 0) throw Error(Fault::kOpen, socket().string() + ": " + std::strerror(errno));
  Transport line(pipe, "pipe:" + socket().string());
  fcntl(pipe, F_SETPIPE_SZ, kPipeBytes);  // if this fails, the pipe keeps its size
  pollfd watched{pipe, POLLIN, 0};
  while (poll(&watched, 1, 5) <= 0) {
    if (const auto status = exit_status())
      throw Error(Fault::kDied, "QEMU (" + program_ + ") " + describe(*status) + " before the board sent anything");
    if (Clock::now() >= deadline)
      throw Error(Fault::kTimedOut,
                  "QEMU (" + program_ + ", process " + std::to_string(pid_) + ") hangs: its board sends nothing");
  }
  return line;
}

Transport Qemu::connect(Clock::time_point deadline) {
  if (only_sends_) return open_pipe(deadline);
  if (line_ != nullptr) return line_->connect();
  const std::string place = "unix:" + socket().string();
  for (;;) {
    if (const auto status = exit_status()) {
      throw Error(Fault::kDied, "QEMU (" + program_ + ") " + describe(*status) + " before it opened its serial line");
    }
    try {
      return Transport::open(place);
    } catch (const Error&) {
      if (Clock::now() >= deadline) {
        throw Error(Fault::kTimedOut, "QEMU (" + program_ + ", process " + std::to_string(pid_) +
                                          ") hangs: it has not opened its serial line");
      }
    }
    std::this_thread::sleep_for(Milliseconds(5));  // the socket does not exist yet, so there is nothing to wait on
  }
}

std::optional<ExitStatus> Qemu::exit_status() {
  if (exit_status_ || pid_ < 0) return exit_status_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_status_ = WIFSIGNALED(status) ? ExitStatus{true, WTERMSIG(status)} : ExitStatus{false, WEXITSTATUS(status)};
  }
  return exit_status_;
}

std::optional<ExitStatus> Qemu::wait(Clock::time_point deadline) {
  while (!exit_status() && Clock::now() < deadline) std::this_thread::sleep_for(Milliseconds(2));
  return exit_status();
}

void Qemu::kill() {
  if (pid_ < 0 || exit_status()) return;
  ::kill(pid_, SIGKILL);
  (void)wait(Clock::now() + std::chrono::seconds(10));
}

std::string Qemu::messages() const {
  std::ifstream log(directory_ / "qemu.log");
  std::string text;
  for (std::string line; std::getline(log, line);) {
    // QEMU prints this line at every start; it explains nothing.
    if (line.find("info: QEMU waiting for connection on") == std::string::npos) text += line + "\n";
  }
  if (text.size() > 2000) text.erase(0, text.size() - 2000);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace qm::host
