// The rows of a report have the contents of its text: for every command in every form, each value of a row occurs in
// the text, and each number of the text in a row.

#include "machine.hpp"

#include <qm/test/pattern.hpp>
#include <qm/test/read_file.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

namespace console_rows_test {

using qm::host::ReportRow;
using qm::test::Machine;
using qm::test::MachineTest;
using qm::wire::FieldType;

class Rows : public MachineTest {};

/// The demo's own caches, tasks and clocks continue between the two reports; the objects requested here do not change.
const std::vector<std::string> kAsked = {"help",
                                         "help slab_trace",
                                         "help free",
                                         "version",
                                         "workload list",
                                         "workload run neutral 20",
                                         "mark then",
                                         "slab_trace start packet",
                                         "slab_trace start stacks",
                                         "workload run leak 50 seed 2",
                                         "workload start stacks 70",
                                         "kmemstat -b packet",
                                         "kmemstat -b packet sort name top 1",
                                         "slab_stats packet",
                                         "arena_stats dma",
                                         "frag",
                                         "frag 16M dma",
                                         "frag 4096 dma",
                                         "pool take 64 1K 64",
                                         "pool free 2",
                                         "pool list",
                                         "frag 15900 pool",
                                         "slab_trace status packet",
                                         "slab_trace status stacks",
                                         "slab_trace print packet",
                                         "slab_trace print packet top 2",
                                         "slab_trace print packet by site",
                                         "slab_trace print packet by stack",
                                         "slab_stacks",
                                         "slab_stacks packet top 1",
                                         "slab_stacks threshold",
                                         "kmausers -b by stack top 2",
                                         "kmausers -b by task",
                                         "marks drop then",
                                         "mark now",
                                         "workload run leak 50 seed 3",
                                         "leaks now packet by stack",
                                         "leaks now packet by site",
                                         "expect now packet",
                                         "expect now -packet",
                                         "fault session every 10",
                                         "fault session nth 3",
                                         "fault",
                                         "status",
                                         "fault off",
                                         "quarantine packet 64K",
                                         "quarantine",
                                         "fault",
                                         "quarantine off",
                                         "guard kmalloc every 500",
                                         "guard",
                                         "status",
                                         "guard kmalloc each 10",
                                         "guard off",
                                         "slab_trace stop packet",
                                         "slab_trace reset packet",
                                         "kmemtrace status",
                                         "kmemtrace ring 65536",
                                         "verify packet",
                                         "whatis 0x80200000",
                                         "whatis 0",
                                         "whatis packet_alloc+2",
                                         "workload stop",
                                         "kmausers by",
                                         "whatis",
                                         "nosuch",
                                         "slab_trace start nosuch",
                                         "reap packet",
                                         "free -b",
                                         "free -v"};

/// Fields that by design occur only in the rows: `kind.field`.
const std::set<std::string> kOnlyInRows = {
    // Ids and details for which the line of a form has no room.
    "command.name", "object.size_bytes", "object.age_ms",        "object.sequence", "object.stack", "object.truncated",
    "frame.offset", "frame.address",     "frame.function_bytes", "stack.truncated", "stack.stack",  "end.name",
    "end.answer",   "end.age_ms",        "mark.age_ms",          "trace.state"};

std::string collapsed(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n' || c == '\t';
    if (!blank) out += c;
    else if (!out.empty() && out.back() != ' ') out += ' ';
  }
  return out + ' ';
}

/// @returns the forms in which a text may show a value.
std::vector<std::string> forms(const ReportRow::Field& field) {
  char hex[24], digits[24], seconds[32];
  std::snprintf(hex, sizeof hex, "%llx", static_cast<unsigned long long>(field.number));
  std::snprintf(digits, sizeof digits, "%lld", static_cast<long long>(field.number));
  std::snprintf(seconds, sizeof seconds, "%llu.%03llu", static_cast<unsigned long long>(field.number / 1000),
                static_cast<unsigned long long>(field.number % 1000));
  switch (field.type) {
    case FieldType::kText: return {collapsed(field.text).substr(0, collapsed(field.text).size() - 1)};
    case FieldType::kAddress: return {hex};
    default: return {digits, hex, seconds};
  }
}

bool is_there(const std::string& text, const std::vector<std::string>& forms) {
  return std::any_of(forms.begin(), forms.end(),
                     [&](const std::string& form) { return text.find(form) != std::string::npos; });
}

/// @returns the values that only the text or only the rows of a command have; empty if they agree.
std::string difference(const std::string& text, const std::vector<ReportRow>& rows) {
  const std::string words = collapsed(text);
  std::string values = " ";
  std::string found;
  for (const ReportRow& row : rows) {
    if (row.kind == "text") found += "no kind: " + std::string(row.text("line")) + "\n";
    for (const ReportRow::Field& field : row.fields) {
      for (const std::string& form : forms(field)) values += form + ' ';
      if (kOnlyInRows.contains(row.kind + "." + field.name) || is_there(words, forms(field))) continue;
      found += row.kind + "." + field.name + " " + forms(field).front() + " is not in the text\n";
    }
  }
  for (const auto& number : qm::test::find_all(words, "[ (:+]([0-9]+)[ ,:)/]")) {
    if (values.find(number[1]) == std::string::npos) found += std::string(number[1]) + " is in no row\n";
  }
  return found.empty() ? found : found + text;
}

TEST_F(Rows, equal_the_text_of_every_command) {
  std::set<std::string> asked, kinds;
  for (const std::string& line : kAsked) {
    // A command that changes something runs again for its rows if that does no harm; else only its rows are checked.
    std::string text = machine().request(line).text;
    const bool changes = line.starts_with("workload run") || line.starts_with("workload st") || line == "fault off" ||
                         line == "quarantine off" || line.starts_with("guard ") || line.starts_with("mark") ||
                         line.starts_with("pool take") || line.starts_with("pool free") ||
                         line.starts_with("slab_trace reset") || line.starts_with("slab_trace start") ||
                         line.starts_with("reap") || line == "expect now -packet";
    std::vector<ReportRow> rows = machine().rows(line);
    asked.insert(line.substr(0, line.find(' ')));
    for (const ReportRow& row : rows) kinds.insert(row.kind);
    if (changes) {
      for (const ReportRow& row : rows) EXPECT_NE(row.kind, "text") << line << ": " << row.text("line");
    } else {
      // The background may allocate or free memory between the two: then both are requested again.
      for (int again = 0; again < 5 && !difference(text, rows).empty(); ++again) {
        text = machine().request(line).text;
        rows = machine().rows(line);
      }
      EXPECT_EQ(difference(text, rows), "") << line;
    }
  }
  // These report values that always change.
  for (const char* line : {"harts",
                           "kmemstat",
                           "kmemstat -v",
                           "allocinfo",
                           "allocinfo top 2 sort calls",
                           "slab_stats",
                           "arena_stats",
                           "growth",
                           "growth now",
                           "marks",
                           "kmausers",
                           "slab_stacks -v",
                           "leaks now",
                           "leaks now packet",
                           "slab_trace print -v packet*",
                           "slab_trace status",
                           "kmemtrace start",
                           "kmemtrace stop",
                           "verify",
                           "findleaks",
                           "whatis 0x80000000",
                           "reap",
                           "allocinfo off",
                           "allocinfo on"}) {
    std::vector<ReportRow> rows = machine().rows(line);
    asked.insert(std::string(line).substr(0, std::string(line).find(' ')));
    for (const ReportRow& row : rows) {
      kinds.insert(row.kind);
      EXPECT_NE(row.kind, "text") << line << ": " << row.text("line");
    }
  }
  for (const ReportRow& row : machine().rows("help")) {
    const std::string name(row.text("name"));
    if (name != "panic" && name != "poweroff" && name != "reboot") EXPECT_TRUE(asked.contains(name)) << name;
  }
  // docs/protocol.md must list each kind.
  const std::string document = qm::test::read_file(QM_SOURCE_DIR "/docs/protocol.md");
  for (const std::string& kind : kinds)
    EXPECT_FALSE(qm::test::find(document, "\n[|] (`[a-z_]+`, )*`" + kind + "`(, `[a-z_]+`)* [|]").empty())
        << kind << " is not in docs/protocol.md";
}

}  // namespace console_rows_test
