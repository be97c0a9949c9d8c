// qm image: the leak scan on QEMU's copy of the demo's memory finds what the console has found.

#include "machine.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <qm/test/command.hpp>

namespace host_image_test {

namespace fs = std::filesystem;
using qm::test::Machine;
using qm::test::Outcome;

/// Sends a line to QEMU's monitor, and waits for the prompt behind its answer.
void tell_monitor(const fs::path& socket_path, const std::string& line) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path.c_str());
  ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0) << socket_path;
  std::string text = line + "\n";
  ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  int prompts = 0;
  for (char c = 0, before = 0; prompts < 2 && read(fd, &c, 1) == 1; before = c) prompts += before == '(' && c == 'q';
  close(fd);
  ASSERT_EQ(prompts, 2);
}

class Image : public ::testing::Test {
 protected:
  Image() {
    std::string pattern = (fs::temp_directory_path() / "qm image XXXXXX").string();  // GDB splits at blanks
    if (mkdtemp(pattern.data()) != nullptr) directory_ = pattern;
  }
  ~Image() override { fs::remove_all(directory_); }
  [[nodiscard]] Outcome look(const std::string& arguments) const {
    return qm::test::run_command(std::string(QM_TOOL) + " image " + arguments + " 2>&1");
  }
  [[nodiscard]] std::string file(const char* name) const { return "'" + (directory_ / name).string() + "'"; }

  fs::path directory_;
};

TEST_F(Image, shows_the_leaks_that_the_console_shows) {
  if (qm::test::run_command("gdb-multiarch --version").status != 0) GTEST_SKIP() << "there is no gdb-multiarch";
  qm::host::QemuOptions options = qm::test::demo();
  const std::string firmware = options.image.string();
  const fs::path monitor = directory_ / "monitor";
  options.ram = "64M";
  options.extra = {"-monitor", "unix:" + monitor.string() + ",server=on,wait=off"};
  {
    Machine machine(options);
    machine.request("workload run leak 300");
    const std::string shown = machine.request("findleaks").text;
    const std::size_t end = shown.find("findleaks: leaks ");
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(shown.find("findleaks: leaks 0,"), std::string::npos);
    std::ofstream(directory_ / "shown") << shown.substr(end);
    tell_monitor(monitor, "pmemsave 0x80000000 0x4000000 \"" + (directory_ / "memory").string() + "\"");
  }
  const Outcome found = look("--base 0x80000000 " + firmware + " " + file("memory"));
  EXPECT_EQ(found.status, 0) << found.text;
  std::string shown;
  std::getline(std::ifstream(directory_ / "shown"), shown);
  EXPECT_NE(found.text.find(shown), std::string::npos) << shown << "\n" << found.text;

  const Outcome others = look("--base 0x80000000 " + firmware + " " + file("memory") + " free 'whatis nosuch' free");
  EXPECT_EQ(others.status, 1) << others.text;
  EXPECT_NE(others.text.find("\nqm: whatis nosuch: "), std::string::npos) << others.text;
  const Outcome elsewhere = look("--base 0x90000000 " + firmware + " " + file("memory"));
  EXPECT_EQ(elsewhere.status, 1) << elsewhere.text;
  const Outcome core = look(firmware + " " + file("memory"));
  EXPECT_EQ(core.status, 1) << core.text;
  EXPECT_NE(core.text.find("memory\" is not a core dump"), std::string::npos) << core.text;
}

TEST_F(Image, names_what_is_missing) {
  const Outcome none = look("/nonexistent " + file("memory"));
  EXPECT_EQ(none.status, 2);
  EXPECT_EQ(none.text, "qm: /nonexistent: No such file or directory\n");
  std::ofstream(directory_ / "memory") << "memory";
  const Outcome no_gdb = qm::test::run_command("QM_GDB=/nonexistent " + std::string(QM_TOOL) + " image " +
                                               file("memory") + " " + file("memory") + " 2>&1");
  EXPECT_EQ(no_gdb.status, 2);
  EXPECT_EQ(
      no_gdb.text,
      "qm: /nonexistent cannot be started: No such file or directory (Debian: gdb-multiarch; QM_GDB names another)\n");
}

}  // namespace host_image_test
