// Each export is opened by another project's program, whose figures must be those of the report.

#include "fixture.hpp"

namespace {

using ExportsTest = qm::test::FormatsTest;
using qm::test::is_there;
using qm::test::output_of;

TEST_F(ExportsTest, pprof_opens_the_profile_and_sums_it_as_the_report_does) {
  if (!is_there("go")) GTEST_SKIP() << "go is not installed";
  qm("export --format pprof -o " + path("run.pb.gz"));
  const auto top = [](const std::string& index, const std::string& unit) {
    return output_of("go tool pprof -top -nodecount=100000 -nodefraction=0 -unit=" + unit + " -sample_index=" + index +
                     " '" + path("run.pb.gz") + "' 2>&1");
  };
  const std::string live = top("inuse_space", "B");
  EXPECT_NE(live.find("of " + total("live_bytes") + "B total"), std::string::npos) << live.substr(0, 600);
  EXPECT_NE(live.find("(inline)"), std::string::npos);
  EXPECT_EQ(live.find("Local symbolization failed"), std::string::npos);
  const std::string name = json_["stacks"][0]["frames"].back()["function"];
  EXPECT_NE(live.find(name), std::string::npos) << name;
  EXPECT_NE(top("alloc_space", "B").find("of " + total("allocated") + "B total"), std::string::npos);
  EXPECT_NE(top("alloc_objects", "count").find("of " + total("allocations") + " total"), std::string::npos);
  EXPECT_NE(top("inuse_objects", "count").find("of " + total("live_objects") + " total"), std::string::npos);
}

TEST_F(ExportsTest, pprof_knows_the_cache_of_each_sample) {
  if (!is_there("go")) GTEST_SKIP() << "go is not installed";
  qm("export --format pprof -o " + path("labels.pb.gz"));
  const std::string tags =
      output_of("go tool pprof -tags -unit=B -sample_index=inuse_space '" + path("labels.pb.gz") + "' 2>&1");
  EXPECT_NE(tags.find("cache: Total " + total("live_bytes") + ".0B"), std::string::npos) << tags;
  for (const auto& cache : json_["caches"]) {
    if (!cache.value("counted", true) || cache["live_bytes"] == 0) continue;
    const std::string name = cache["name"];
    EXPECT_NE(tags.find(": " + name + "\n"), std::string::npos) << name << " is not in\n" << tags;
    const std::string top = output_of("go tool pprof -top -tagfocus='cache=^" + name +
                                      "$' -unit=B -sample_index=inuse_space '" + path("labels.pb.gz") + "' 2>&1");
    EXPECT_NE(top.find(cache["live_bytes"].dump() + "B "), std::string::npos) << top.substr(0, 300);
  }
}

/// @returns bytes in the form of heaptrack_print, in steps of 1000: `502B`, `73.28K`.
std::string heaptrack_bytes(double bytes) {
  const char* units[] = {"B", "K", "M", "G"};
  unsigned unit = 0;
  for (; bytes > 1000 && unit < 3; bytes /= 1000) ++unit;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f%s" : "%.2f%s", bytes, units[unit]);
  return text;
}

TEST_F(ExportsTest, heaptrack_print_sums_up_as_the_report_does) {
  if (!is_there("heaptrack_print")) GTEST_SKIP() << "heaptrack is not installed";
  qm("export --format heaptrack -o " + path("run.heaptrack"));
  const std::string text = output_of("heaptrack_print '" + path("run.heaptrack") + "' 2>&1");
  EXPECT_NE(text.find("calls to allocation functions: " + total("allocations") + " ("), std::string::npos) << text;
  EXPECT_NE(text.find("total memory leaked: " + heaptrack_bytes(json_["totals"]["live_bytes"]) + "\n"),
            std::string::npos)
      << text.substr(text.size() - 600);
  EXPECT_NE(text.find("peak heap memory consumption: " + heaptrack_bytes(json_["totals"]["peak_bytes"]) + "\n"),
            std::string::npos)
      << text.substr(text.size() - 600);
  // Stacks begin at the call site, with files and lines.
  const std::string leaks = output_of("heaptrack_print -l 1 -p 0 -a 0 -T 0 '" + path("run.heaptrack") + "' 2>&1");
  auto most = json_["stacks"][0];
  for (const auto& stack : json_["stacks"]) {
    if (stack["live_bytes"] > most["live_bytes"]) most = stack;
  }
  const std::string name = most["frames"].back()["function"];
  EXPECT_NE(leaks.find(name + "\n"), std::string::npos) << name << " is not in\n" << leaks.substr(0, 2000);
  EXPECT_NE(leaks.find("\n  at "), std::string::npos) << leaks.substr(0, 2000);
}

TEST_F(ExportsTest, sqlite3_reads_the_database) {
  if (!is_there("sqlite3")) GTEST_SKIP() << "sqlite3 is not installed";
  qm("export --format sqlite -o " + path("run.db"));
  const auto ask = [](const std::string& question) {
    return output_of("sqlite3 '" + path("run.db") + "' \"" + question + "\" 2>&1");
  };
  EXPECT_EQ(ask("PRAGMA integrity_check"), "ok\n");
  EXPECT_EQ(ask("SELECT count(*) FROM events"), std::to_string(kEvents) + "\n");
  EXPECT_EQ(ask("SELECT sum(requested) FROM events WHERE operation != 'free'"), total("requested") + "\n");
  EXPECT_EQ(ask("SELECT sum(allocated) FROM events WHERE operation != 'free'"), total("allocated") + "\n");
  EXPECT_EQ(ask("SELECT count(*) FROM events WHERE operation = 'realloc'"), total("reallocations") + "\n");
  EXPECT_EQ(ask("SELECT count(*) FROM events JOIN traceables ON traceables.number = traceable"),
            std::to_string(kEvents) + "\n");
  const std::string name = json_["stacks"][0]["frames"][0]["function"], id = json_["stacks"][0]["id"];
  EXPECT_EQ(ask("SELECT function FROM frames JOIN stacks ON number = stack WHERE depth = 0 AND id = '" + id + "'"),
            name + "\n");
}

TEST_F(ExportsTest, sqlite3_imports_the_csv) {
  if (!is_there("sqlite3")) GTEST_SKIP() << "sqlite3 is not installed";
  qm("export --format csv -o " + path("run.csv"));
  EXPECT_EQ(output_of("sqlite3 :memory: -cmd '.import --csv " + path("run.csv") +
                      " e' \"SELECT count(*), sum(requested) FROM e WHERE operation != 'free'\" 2>&1"),
            total("allocations") + "|" + total("requested") + "\n");
}

/// @returns the output of the validator of python3-jsonschema for a file; empty: it is valid.
std::string validity(const std::string& file, const std::string& schema) {
  return output_of("/usr/bin/python3 -W ignore -m jsonschema -i '" + file + "' '" + QM_SCHEMAS "/" + schema + "' 2>&1");
}
bool can_validate() { return std::system("/usr/bin/python3 -c 'import jsonschema' >/dev/null 2>&1") == 0; }

TEST_F(ExportsTest, speedscope_files_are_valid_by_its_published_schema) {
  if (!can_validate()) GTEST_SKIP() << "python3-jsonschema is not installed";
  qm("export --format speedscope -o " + path("run.speedscope.json"));
  EXPECT_EQ(validity(path("run.speedscope.json"), "speedscope-1.25.0.schema.json"), "");
  std::ofstream(path("bad.json"))
      << R"({"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {}})";
  EXPECT_NE(validity(path("bad.json"), "speedscope-1.25.0.schema.json"), "") << "the validator accepts anything";
  std::ifstream file(path("run.speedscope.json"));
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["profiles"][0]["endValue"], json_["totals"]["live_bytes"]);
  EXPECT_EQ(json["profiles"][1]["endValue"], json_["totals"]["allocated"]);
}

TEST_F(ExportsTest, traces_for_perfetto_are_valid_trace_events) {
  if (!can_validate()) GTEST_SKIP() << "python3-jsonschema is not installed";
  qm("export --format perfetto -o " + path("run.trace.json"));
  EXPECT_EQ(validity(path("run.trace.json"), "trace-event.schema.json"), "");
  std::ifstream file(path("run.trace.json"));
  const auto json = nlohmann::json::parse(file);
  std::uint64_t events = 0;
  nlohmann::json last;
  for (const auto& event : json["traceEvents"]) {
    events += event["ph"] == "i";
    if (event["name"] == "live bytes") last = event["args"]["bytes"];
  }
  EXPECT_EQ(events, kEvents);
  EXPECT_EQ(last, json_["totals"]["live_bytes"]);
}

TEST_F(ExportsTest, folded_stacks_sum_up_to_the_live_bytes) {
  const std::string text = qm("export --format folded");
  std::istringstream lines(text);
  std::uint64_t sum = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blank = line.rfind(' ');
    ASSERT_NE(blank, std::string::npos) << line;
    EXPECT_EQ(line.substr(0, blank).find_first_of("\t\r"), std::string::npos);
    EXPECT_NE(line.substr(0, blank).find(':', line.rfind('(')), std::string::npos) << line << ": its site";
    sum += std::stoull(line.substr(blank + 1));
  }
  EXPECT_EQ(std::to_string(sum), total("live_bytes"));
}

}  // namespace
