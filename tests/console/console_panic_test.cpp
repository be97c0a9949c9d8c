// After a panic: the report, and a console that shows the remaining state without waiting for any hart or lock.

#include "machine.hpp"

#include <qm/test/pattern.hpp>

#include <string>

namespace console_panic_test {

using qm::test::Machine;
using qm::wire::CommandStatus;

constexpr const char* kPrompt = "\r\npanic> ";

qm::host::QemuOptions with(const std::string& append) {
  auto options = qm::test::demo();
  options.append = append;
  return options;
}

/// Types a line that causes a panic, and waits for the shell's prompt.
void panic(Machine& machine, const std::string& line) {
  machine.clear();
  machine.send(line + "\r");
  ASSERT_TRUE(machine.wait_for_text(kPrompt)) << machine.transcript();
}

/// Types a line to the shell. @returns its output.
std::string look(Machine& machine, const std::string& line) {
  machine.clear();
  machine.send(line + "\r");
  EXPECT_TRUE(machine.wait_for_text(kPrompt)) << line << "\n" << machine.text();
  const std::string& text = machine.text();
  const std::size_t start = text.find('\n') + 1;
  return text.substr(start, text.rfind("panic> ") - start);
}

bool has(const std::string& text, const std::string& pattern) { return !qm::test::find(text, pattern).empty(); }

TEST(Panic, beside_a_held_lock_everything_can_be_looked_at_and_nothing_changed) {
  Machine machine(with("panic=0"));
  machine.request("slab_trace start packet");
  machine.request("mark before");
  EXPECT_NE(machine.request("workload run leak 100 seed 3").text.find("leak: forgot "), std::string::npos);
  panic(machine, "panic lock");
  EXPECT_TRUE(has(machine.text(), "\\*\\*\\* panic: asked for, [^\r]* on hart [01] ")) << machine.text();
  EXPECT_TRUE(has(machine.text(), "backtrace:\r\n#01 [^\r]* in (panic_beside_lock|keep_lock)\r\n")) << machine.text();
  EXPECT_TRUE(has(look(machine, "findleaks"), "^error: hart [01] may be inside the allocator\r\n$"));
  // In the order of the help; each report is complete.
  EXPECT_TRUE(has(look(machine, "arena_stats base"), "arenas 1: complete\r\n$"));
  EXPECT_TRUE(
      has(look(machine, "free -v"), "^Total Memory : +[0-9]+\r\n[^$]*caches [0-9]+, arenas [0-9]+: complete\r\n$"));
  EXPECT_TRUE(has(look(machine, "growth before"), "growth before: [^\r]*\r\n[^\r]*complete\r\n$"));
  EXPECT_TRUE(has(look(machine, "harts"), "harts [14] of [14] online: complete\r\n$"));
  EXPECT_TRUE(
      has(look(machine, "kmemstat -v"), "    packet +: S :[^\r]*\r\n[^$]*caches [0-9]+, arenas [0-9]+: complete\r\n$"));
  EXPECT_TRUE(has(look(machine, "leaks before by stack"),
                  "rx_checksum_error[^$]*leaks before: objects [0-9]+, [^\r]*\r\n[^\r]*complete\r\n$"));
  EXPECT_TRUE(has(look(machine, "marks"), "^before +: objects [^$]*marks 1 of 8: complete\r\n$"));
  EXPECT_TRUE(has(look(machine, "slab_stacks packet"), "stack_id: 0x[0-9a-f]{8}\r\n[^$]*complete\r\n$"));
  EXPECT_TRUE(has(look(machine, "slab_stats packet"), "Nr in use: [1-9][0-9]*\r\n[^$]*caches 1: complete\r\n$"));
  EXPECT_TRUE(has(look(machine, "slab_trace status"), "packet +: on [^$]*dropped 0: complete\r\n$"));
  EXPECT_TRUE(has(look(machine, "version"), "^Quartermaster "));
  const std::string records = look(machine, "slab_trace print packet");
  const qm::test::Match object = qm::test::find(
      records, "Obj (0x[0-9a-f]{16}), from hart [0-9] task net-rx:\r\n----\r\n#01 [^\r]* in packet_alloc\r\n");
  ASSERT_FALSE(object.empty()) << records;
  EXPECT_TRUE(has(records, "dropped 0, truncated stacks 0, from before start 0: complete\r\n$")) << records;
  EXPECT_TRUE(
      has(look(machine, "whatis " + object[1]), "^cache packet: object [^$]*\r\nObj [^\r]*task net-rx: size 512"))
      << object[1];
  const std::string help = look(machine, "help");
  for (const char* line : {"reap", "verify", "workload stop", "mark later", "fault off", "slab_trace start packet",
                           "slab_trace stop packet", "slab_trace reset packet", "marks drop before", "panic lock"}) {
    EXPECT_EQ(look(machine, line), "error: not in panic\r\n") << line;
  }
  EXPECT_FALSE(has(help, "\nreap |\nworkload |^fault "));
  EXPECT_TRUE(has(help, "\nkmemstat "));
  // The shell also answers requests of a program.
  const Machine::Answer answer = machine.request("kmemstat -v");
  EXPECT_EQ(answer.status, CommandStatus::kOk);
  EXPECT_NE(answer.text.find("complete\n"), std::string::npos);
  EXPECT_EQ(machine.request("reap").status, CommandStatus::kFailed);
  machine.send("poweroff 7\r");
  EXPECT_EQ(machine.wait_for_end(), 7);
}

TEST(Panic, in_an_interrupt_is_shown_down_to_what_was_interrupted_and_ends_unattended) {
  Machine machine(with("panic=1"));
  machine.clear();
  machine.send("panic interrupt\r");
  EXPECT_TRUE(machine.wait_for_text("panic> \r\n*** system halted\r\n")) << machine.text();
  EXPECT_EQ(machine.wait_for_end(), 101);
  EXPECT_TRUE(has(machine.text(),
                  "\\*\\*\\* exception: load access fault \\(cause 5\\) on hart 0 [^\r]*, exception 5 from irq 159 "
                  "from task main\r\n"))
      << machine.text();
  EXPECT_TRUE(has(machine.text(),
                  "#01 [^\r]* in read_nothing\r\n(#[^\r]*\r\n)*--- interrupt 1 taken here\r\n(#[^\r]*\r\n)*"
                  "#[^\r]* in qm::demo::run_panic\r\n(#[^\r]*\r\n)*#[^\r]* in qm::firmware::main\r\n"))
      << machine.text();
  EXPECT_TRUE(has(machine.text(), "without a key within 1 s the system ends\r\npanic> ")) << machine.text();
}

TEST(Panic, in_the_shell_is_reported_and_the_shell_goes_on) {
  Machine machine(with("panic=0"));
  panic(machine, "panic fault");
  EXPECT_TRUE(has(machine.text(), "in read_nothing\r\n[^$]*in qm::firmware::main\r\n")) << machine.text();
  for (int i = 0; i < 3; ++i) {
    const std::string text = look(machine, "panic fault");
    EXPECT_TRUE(has(text, "\\*\\*\\* exception: load access fault [^$]*in read_nothing\r\n[^$]*in qm_panic_shell\r\n"))
        << text;
  }
  EXPECT_TRUE(has(look(machine, "free -v"), "^Total Memory : [^$]*complete\r\n$"));
  machine.send("poweroff 3\r");
  EXPECT_EQ(machine.wait_for_end(), 3);
}

}  // namespace console_panic_test
