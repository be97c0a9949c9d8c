// Every command in every form, on a terminal of 80 columns: no line has more than 79, but for those whose format is fixed
// elsewhere, which stand here.

#include "machine.hpp"

#include <qm/test/pattern.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

namespace {

using qm::test::MachineTest;

constexpr std::size_t kColumns = 79;

/// Lines of fixed formats, which may be longer.
const std::array kFixed = {
    // Akaros: slab_trace. Leaks and whatis print records likewise.
    "^Obj 0x[0-9a-f]+, from hart [0-9]+ .*$",
    "^#[0-9]+ \\[<0x[0-9a-f]+>\\] in .*$",
    "^outstanding [0-9]+, recorded [0-9]+, dropped [0-9]+, truncated stacks [0-9]+, from before start [0-9]+: [a-z]+$",
    "^[A-Za-z0-9_.-]+ *: (on|off|draining|stopping) +recorded [0-9]+, dropped [0-9]+, live [0-9]+, .*$",
    "^traced [0-9]+ of [0-9]+ caches, records [0-9]+ of [0-9]+ bytes, stacks [0-9]+ of [0-9]+ bytes, dropped [0-9]+: "
    "[a-z]+$",
    // Linux: page_owner_stacks, and its closing line.
    "^ [^ ]+[+]0x[0-9a-f]+/0x[0-9a-f]+$",
    "^stacks [0-9]+, hidden [0-9]+ \\(threshold [0-9]+\\), objects [0-9]+, bytes [0-9]+, dropped [0-9]+, not traced "
    "[0-9]+ caches: "
    "[a-z]+$",
    // Linux: /proc/allocinfo. Leaks and growth print sites likewise.
    "^ *[+]?[0-9]+ +[+-]?[0-9]+ [^ ]+:[0-9]+ .*func:.*$",
    "^# sites [0-9]+ of [0-9]+, .*$",
    // The banner.
    "^Quartermaster .*, formats [0-9]+$",
};

/// What a command is typed as; `kmemstat -v` is Akaros's table.
const std::vector<std::string> kTyped = {
    "help", "help slab_trace", "help kmemstat", "help leaks", "help workload", "version", "kmemstat", "kmemstat -b",
    "kmemstat kmem_* sort used top 3", "free", "free -v", "free -b", "workload list", "workload run leak 50 list",
    "harts", "slab_trace start *", "mark a_mark_of_thirty_one_characters", "workload run leak 50 list",
    "workload run neutral 20", "workload run stacks 200", "slab_trace status", "slab_trace status packet",
    "slab_trace print packet", "slab_trace print -v packet", "slab_trace print packet*", "slab_stacks",
    "slab_stacks -v top 3", "kmausers", "kmausers -b by stack", "slab_stacks threshold", "marks",
    "leaks a_mark_of_thirty_one_characters", "leaks a_mark_of_thirty_one_characters by stack",
    "leaks a_mark_of_thirty_one_characters by site", "leaks a_mark_of_thirty_one_characters packet",
    "expect a_mark_of_thirty_one_characters", "expect a_mark_of_thirty_one_characters packet", "growth",
    "growth a_mark_of_thirty_one_characters", "marks drop a_mark_of_thirty_one_characters", "slab_trace stop *",
    "slab_trace reset *", "slab_trace start stacks counts", "workload stop", "slab_trace start packet every 3",
    "slab_trace status", "slab_trace print stacks", "slab_trace print packet top 2",
    "slab_trace print older 1ms by site", "slab_trace print by stack",
    "leaks a_mark_of_thirty_one_characters packet* -packet older 1ms", "expect a_mark_of_thirty_one_characters -packet",
    "slab_stacks", "kmemtrace start", "kmemtrace status", "kmemtrace stop", "kmemtrace ring 65536", "allocinfo",
    "allocinfo top 3 sort calls", "allocinfo off", "allocinfo on", "arena_stats", "frag", "frag 1M kheap",
    "frag 127400K base", "frag 16M dma", "slab_stats", "fault session every 10", "workload run churn 300", "fault",
    "status", "fault off", "verify", "verify packet", "reap", "reap packet", "whatis 0x80200000", "whatis 0",
    "whatis 0xffffffffffffffff", "kmemstat", "kmemstat -b", "free",
    // Refused
    "slab_trace", "slab_stacks threshold many", "workload", "fault session", "kmemtrace", "leaks",
    "slab_trace print by", "expect no_mark", "whatis here",
    "a_command_of_a_name_that_is_by_far_too_long_for_a_terminal_of_eighty_columns x"};

/// What ends the machine, and is short.
const std::set<std::string> kNotTyped = {"panic", "poweroff", "reboot"};

class Columns : public MachineTest {};

bool is_fixed(const std::string& line) {
  return std::any_of(kFixed.begin(), kFixed.end(), [&](const char* one) { return qm::test::matches(line, one); });
}

TEST_F(Columns, are_79_at_most_in_every_line_of_every_command) {
  std::set<std::string> typed;
  for (const std::string& line : kTyped) {
    const std::string text = machine().type_line(line);
    typed.insert(line.substr(0, line.find(' ')));
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::string one = text.substr(at, end - at);
      at = end + 1;
      const bool quotes = one.starts_with("error: unknown command");
      EXPECT_TRUE(one.size() <= kColumns || quotes || is_fixed(one)) << line << ": " << one;
    }
  }
  const std::string help = machine().type_line("help");
  for (const auto& entry : qm::test::find_all(help, "\n([a-z_]+)")) {
    EXPECT_TRUE(typed.contains(entry[1]) || kNotTyped.contains(entry[1])) << entry[1] << " is not typed here";
  }
}

}  // namespace
