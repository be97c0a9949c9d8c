// Every command in every form, on a terminal of 80 columns: no line has more than 79, except lines of formats that are
// defined elsewhere, which are listed here.

#include "machine.hpp"

#include <qm/test/pattern.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace console_columns_test {

using qm::test::MachineTest;

constexpr std::size_t kColumns = 79;

/// Lines of fixed formats, which may be longer.
const std::array kFixed = {
    // Akaros: slab_trace. Leaks and whatis print records in the same format.
    "^Obj 0x[0-9a-f]+, from hart [0-9]+ .*$",
    "^#[0-9]+ \\[<0x[0-9a-f]+>\\] in .*$",
    "^outstanding [0-9]+, recorded [0-9]+, dropped [0-9]+, truncated stacks [0-9]+, from before start [0-9]+: [a-z]+$",
    "^[A-Za-z0-9_.-]+ *: (on|off|draining|stopping) +recorded [0-9]+, dropped [0-9]+, live [0-9]+, .*$",
    "^traced [0-9]+ of [0-9]+ caches, records [0-9]+ of [0-9]+ bytes, stacks [0-9]+ of [0-9]+ bytes, dropped [0-9]+: "
    "[a-z]+$",
    // Akaros: kmemstat -v.
    "^Arena/Slab Name +:Typ: Objsize: +Total Amt: +Alloc Amt: Allocs Ever: +Idle Amt: +High Water: Failed$",
    "^-{88}$",
    "^ *[A-Za-z0-9_.-]+ *: [AS] : +[0-9]+: +[0-9]+: +[0-9]+: +([0-9]+|-): +[0-9]+: +[0-9]+: [0-9]+$",
    // Linux: page_owner_stacks, and its closing line.
    "^ [^ ]+[+]0x[0-9a-f]+/0x[0-9a-f]+$",
    "^stacks [0-9]+, hidden [0-9]+ \\(threshold [0-9]+\\), objects [0-9]+, bytes [0-9]+, dropped [0-9]+, not traced "
    "[0-9]+ caches: "
    "[a-z]+$",
    // Linux: /proc/allocinfo. Leaks and growth print sites in the same format.
    "^ *[+]?[0-9]+ +[+-]?[0-9]+ [^ ]+:[0-9]+ .*func:.*$",
    "^# sites [0-9]+ of [0-9]+, .*$",
};

/// The lines typed besides the examples of `help`; `kmemstat -v` prints Akaros's table.
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
    "allocinfo sort calls", "arena_stats", "frag", "frag 1M kheap", "frag 127400K base", "frag 16M dma",
    "pool take 1024 64 1024", "pool free 1 3", "pool list", "frag 15900 pool", "pool free 2", "slab_stats",
    "fault session every 10", "workload run churn 300", "fault", "status", "fault off", "verify", "verify packet",
    "findleaks", "workload run plant 3", "findleaks", "reap", "reap packet", "whatis 0x80200000", "whatis 0",
    "whatis 0xffffffffffffffff", "kmemstat", "kmemstat -b", "free", "kmemstat sort name", "kmemstat sort size",
    "kmemstat sort idle", "kmemstat sort total", "kmemstat sort allocs", "kmemstat sort failures",
    // Refused commands
    "slab_trace", "slab_stacks threshold many", "workload", "fault session", "kmemtrace", "leaks",
    "slab_trace print by", "expect no_mark", "whatis here",
    "a_command_of_a_name_that_is_by_far_too_long_for_a_terminal_of_eighty_columns x"};

/// Commands that end the machine; their output is short.
const std::set<std::string> kNotTyped = {"panic", "poweroff", "reboot"};

/// Expects amounts in one unit: KiB or MiB, as a header or a number says, and no amounts in bytes besides. A value with
/// a name of its own is no amount: a size in `bytes each`.
void expect_one_unit(const std::string& line, const std::string& text) {
  if (line.starts_with("help")) return;
  std::set<std::string> units;
  for (const auto& found : qm::test::find_all(text, "(^|[ \n0-9])([KMG]i?B)[ ,:\n]"))
    units.insert(std::string(found[2]));
  if (!qm::test::find(text, "[0-9] bytes").empty()) units.insert("bytes");
  EXPECT_LE(units.size(), 1U) << line << "\n" << text;
}

/// @returns the words of a usage or a form that are typed literally: `start`, `-v`, `top`; not `SLAB_NAME`.
std::set<std::string> options(std::string_view form) {
  std::set<std::string> words;
  std::string word;
  for (const char c : std::string(form) + ' ') {
    const bool part = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
    if (part) {
      word += c;
      continue;
    }
    if (qm::test::matches(word, "-?[a-z_]+")) words.insert(word);
    word.clear();
  }
  return words;
}

class Columns : public MachineTest {
 protected:
  /// Types @p line, and checks the output.
  void look(const std::string& line);
  std::map<std::string, std::set<std::string>> typed_;  // by command, the words that were typed
};

bool is_fixed(const std::string& line) {
  return std::any_of(kFixed.begin(), kFixed.end(), [&](const char* one) { return qm::test::matches(line, one); });
}

void Columns::look(const std::string& line) {
  const std::string text = machine().type_line(line);
  std::istringstream words(line);
  std::string command, word;
  for (words >> command; words >> word;) typed_[command].insert(word);
  typed_[command].insert(command);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string one = text.substr(at, end - at);
    at = end + 1;
    const bool quotes = one.starts_with("error: unknown command");
    EXPECT_TRUE(one.size() <= kColumns || quotes || is_fixed(one)) << line << ": " << one;
  }
  expect_one_unit(line, text);
}

TEST_F(Columns, are_79_at_most_in_every_line_of_every_command) {
  // Every example of the command table, with the objects that it refers to.
  const std::vector<qm::host::ReportRow> commands = machine().rows("help");
  look("slab_trace start packet");
  look("workload run leak 50 list");
  look("mark before");
  look("workload run leak 50");
  for (const qm::host::ReportRow& command : commands) {
    const std::string name(command.text("name"));
    if (kNotTyped.contains(name)) continue;
    look("help " + name);
    for (const qm::host::ReportRow& row : machine().rows("help " + name)) {
      if (row.kind == "example") look(std::string(row.text("line")));
    }
  }
  look("slab_trace stop *");
  look("slab_trace reset *");
  look("slab_stacks threshold 1");
  for (const std::string& line : kTyped) look(line);
  // Each option of each form must have been typed.
  for (const qm::host::ReportRow& command : commands) {
    const std::string name(command.text("name"));
    if (kNotTyped.contains(name)) continue;
    std::set<std::string> known = options(command.text("usage"));
    for (const qm::host::ReportRow& row : machine().rows("help " + name)) {
      const std::string form(row.text("form"));
      if (form.starts_with(name + " ")) known.merge(options(form.substr(0, form.find("  "))));
    }
    for (const std::string& option : known)
      EXPECT_TRUE(typed_[name].contains(option)) << name << ": " << option << " is not typed here";
  }
}

TEST_F(Columns, are_79_at_most_in_what_arrives_by_itself) {
  std::string text;
  for (const char* line : {"slab_trace start *", "workload run misuse", "workload run exhaust"}) {
    machine().type_line(line);
    machine().settle();
    text += machine().text();
  }
  std::erase(text, '\r');
  EXPECT_NE(text.find("\nmisuse: packet: "), std::string::npos) << text;
  EXPECT_NE(text.find("\nwarning: out of memory: "), std::string::npos) << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kColumns) << line;
}

}  // namespace console_columns_test
