// Outputs for event streams with intact frames and wrong contents, and for dumps of the console: the summary with its
// timeline, every report, every export, the comparison. Each must end, and report as complete only what is complete.
//
//     input   frames, each: u8 type (16 to 20 by its low bits), u16 bytes, payload; the last byte selects the output

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>

#include <qm/analysis/diff.hpp>
#include <qm/analysis/export.hpp>
#include <qm/analysis/report.hpp>
#include <qm/host/error.hpp>
#include <qm/host/stream_reader.hpp>
#include <qm/test/folder.hpp>

#include "mutation.hpp"

namespace {

using namespace qm;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// Reads the input as frames of a stream.
void deliver(const std::uint8_t* data, std::size_t size, host::EventHandler& to) {
  host::StreamReader reader(to);
  while (size >= 3) {
    const std::size_t bytes = std::min<std::size_t>((data[1] | data[2] << 8) % (wire::kMaxPayloadBytes + 1), size - 3);
    (void)reader.take({static_cast<wire::FrameType>(16 + data[0] % 5), 0, 0, {data + 3, bytes}});
    data += 3 + bytes;
    size -= 3 + bytes;
  }
  reader.finish({});
}

void check_summary(const analysis::Summary& summary) {
  const analysis::Timeline& timeline = summary.timeline();
  if (timeline.bucket_ticks() == 0) fail("buckets of no time");
  const std::size_t buckets = timeline.values(analysis::Summary::kTotalSeries).size();
  if (buckets == 0 || buckets > analysis::Timeline::kBuckets) fail("too many buckets, or none");
  for (const auto& row : summary.traceables()) {
    if (timeline.values(row.series).size() != buckets) fail("series of several lengths");
  }
  if (summary.complete() && !summary.end().whole(summary.stream())) fail("complete, and not whole");
}

void check_text(const std::string& text, const analysis::Report& report) {
  const bool says_complete = text.ends_with(": complete\n");
  if (!says_complete && !text.ends_with(": incomplete\n")) fail("a report that does not say whether it is complete");
  if (says_complete && !report.summary->complete()) fail("complete, and the summary is not");
}

/// Outputs that take milliseconds are made for one input in 16.
bool is_left_out(unsigned what, const std::uint8_t* data, std::size_t size) {
  constexpr unsigned kCostly = 4;
  return what < kCostly && std::accumulate(data, data + size, 0U) % 16 != 0;
}

/// Writes the events of the input, which is read for the second time.
void write_events(analysis::EventExport& to, const std::uint8_t* data, std::size_t size) {
  deliver(data, size, to);
  to.finish();
}

/// @returns the database of all runs: SQLite needs a file with a name.
std::filesystem::path database() {
  static const qm::test::TemporaryFolder folder;
  return folder / "database";
}

void compare_dumps(std::string_view text) {
  try {
    const analysis::Holdings dump = analysis::holdings_of(analysis::rows_of_json(text), nullptr, "dump");
    analysis::Holdings none = dump;
    none.stacks.clear();
    const analysis::Difference made = difference(none, dump);
    if (difference_text(made, 0).empty() || difference_json(made).empty()) fail("nothing is said of a difference");
  } catch (const host::Error& error) {
    if (error.fault() != host::Fault::kInput) fail(error.what());
  }
}

void make(unsigned what, const analysis::Report& report, const std::uint8_t* data, std::size_t size) {
  static std::FILE* const nowhere = std::fopen("/dev/null", "wb");
  switch (what) {
    case 0: write_events(*analysis::export_sqlite(report, database()), data, size); return;
    case 1: write_events(*analysis::export_perfetto(report, nowhere), data, size); return;
    case 2: (void)report_html(report); return;
    case 3: (void)report_json(report, 20); return;
    case 4: (void)export_pprof(report); return;
    case 5: (void)export_speedscope(report); return;
    case 6: (void)export_folded(report, analysis::Value::kAllocatedBytes); return;
    case 7: (void)export_folded(report, analysis::Value::kLiveBytes); return;
    case 8:
    case 9: write_events(*analysis::export_csv(report, nowhere), data, size); return;
    case 10: {
      analysis::Holdings none;
      const analysis::Difference made = difference(none, holdings_of(report));
      if (difference_text(made, 20).empty() || difference_json(made).empty()) fail("nothing is said of a difference");
      return;
    }
    default: check_text(report_text(report, {what, true, true, true, true}), report); return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const unsigned choice = data[size - 1];
  if (choice % 32 == 31) {
    compare_dumps({reinterpret_cast<const char*>(data), size - 1});
    return 0;
  }
  static const analysis::SummaryOptions kOptions[] = {
      {0, "", 0}, {0, "*a*", 0}, {1e-3, "", 0}, {1e300, "?*", 1}, {0, "", 2}};
  analysis::Summary summary(kOptions[choice / 32 % std::size(kOptions)]);
  deliver(data, size, summary);
  const auto key = static_cast<analysis::SortKey>(choice % 7);
  const analysis::Report report = make_report(summary, nullptr, key, "input");
  if (summary.stream() == 0) {
    if (report.problems.empty()) fail("no stream, and no problem");
    return 0;
  }
  check_summary(summary);
  if (!is_left_out(choice % 32, data, size)) make(choice % 32, report, data, size);
  return 0;
}

#ifndef QM_LIBFUZZER
int main(int count, char** arguments) {
  return qm::test::fuzz(count, arguments, {QM_CORPUS "/stream", QM_CORPUS "/dump"}, 20'000, LLVMFuzzerTestOneInput);
}
#endif
