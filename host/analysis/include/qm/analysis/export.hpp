#pragma once
/// Writes a capture in the formats of other programs. docs/qm.md says which programs open which format.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <qm/analysis/report.hpp>

namespace qm::analysis {

/// The value of a stack in a format that has one value for each.
enum class Value { kLiveBytes, kAllocatedBytes };

/// @returns a compressed profile.proto with four values for each stack (alloc_objects, alloc_space, inuse_objects,
///          inuse_space) and two labels: `cache`, the cache or arena, and `site`, the tagged call site if there is one.
/// @throws host::Error kOpen if compressing fails.
[[nodiscard]] std::string export_pprof(const Report& report);

/// @returns one line for each stack, `outermost;...;innermost (FILE:LINE) VALUE`, as flamegraph.pl reads it; the
///          innermost frame is the call site.
[[nodiscard]] std::string export_folded(const Report& report, Value value);

/// @returns a speedscope file with two profiles: live bytes and allocated bytes.
[[nodiscard]] std::string export_speedscope(const Report& report);

/// The other formats are written event by event, while the capture is read for the second time; its stream and
/// definitions are then those of @p report. If writing fails, a call or finish() throws host::Error kOpen.
class EventExport : public host::EventHandler {
 public:
  explicit EventExport(const Report& report) : report_(report), wanted_(report.summary->stream()) {}
  void on_header(const host::Definitions& definitions) override {
    in_stream_ = (void(definitions), ++streams_ == wanted_);
  }
  void on_event(const host::Event& event) final {
    if (in_stream_) write(event);
  }
  void on_gap(const host::Gap& gap) final {
    if (in_stream_) write(gap);
  }
  /// Completes the file.
  virtual void finish() = 0;

 protected:
  virtual void write(const host::Event& event) = 0;
  virtual void write(const host::Gap& gap) { (void)gap; }
  [[nodiscard]] const Report& report() const noexcept { return report_; }
  [[nodiscard]] const host::Definitions& definitions() const noexcept { return report_.summary->definitions(); }
  [[nodiscard]] const std::string& name_of(std::uint32_t traceable) const;

 private:
  const Report& report_;
  std::uint32_t wanted_, streams_ = 0;
  bool in_stream_ = false;
};

/// Writes a line of column names and then one line for each event. @p file stays open.
[[nodiscard]] std::unique_ptr<EventExport> export_csv(const Report& report, std::FILE* file);

/// Writes Chrome's trace event format, which Perfetto opens: an instant event for each event, on the track of its hart,
/// and counters of live bytes by cache and hart.
[[nodiscard]] std::unique_ptr<EventExport> export_perfetto(const Report& report, std::FILE* file);

/// Writes the data of heaptrack (file version 3), which heaptrack_print and heaptrack_gui open: each allocation and
/// free with its stack, and the time. A sampled object is written as many times as its weight says. @p file stays open.
[[nodiscard]] std::unique_ptr<EventExport> export_heaptrack(const Report& report, std::FILE* file);

/// Writes a new SQLite database: events, gaps, and a table for each kind of definition.
[[nodiscard]] std::unique_ptr<EventExport> export_sqlite(const Report& report, const std::filesystem::path& path);

}  // namespace qm::analysis
