#pragma once
/// A capture in the formats of others' programs. Which program was seen to open which is in docs/qm.md.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <qm/analysis/report.hpp>

namespace qm::analysis {

/// What a stack weighs, where a format has one value for it.
enum class Value { kLiveBytes, kAllocatedBytes };

/// @returns a profile.proto, compressed, of four values a stack: alloc_objects, alloc_space, inuse_objects,
///          inuse_space, and of two labels: `cache`, the cache or arena, and `site`, the tagged call site if there is one.
/// @throws host::Error kOpen if it cannot be compressed.
[[nodiscard]] std::string export_pprof(const Report& report);

/// @returns a line a stack, `outermost;...;innermost (FILE:LINE) VALUE`, as flamegraph.pl reads it: the innermost frame is the
///          call site.
[[nodiscard]] std::string export_folded(const Report& report, Value value);

/// @returns a file of speedscope with two profiles, of live bytes and of allocated ones.
[[nodiscard]] std::string export_speedscope(const Report& report);

/// The rest is written event by event, when the capture is read for the second time; then the stream and its
/// definitions are those of @p report. What cannot be written is told by an exception, host::Error kOpen, from within a
/// call or from finish().
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
  /// Ends the file.
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

/// A line an event, below a line of column names. @p file stays open.
[[nodiscard]] std::unique_ptr<EventExport> export_csv(const Report& report, std::FILE* file);

/// Chrome's trace event format, which Perfetto opens: an instant event for each event on its hart's track, and live
/// bytes by cache and hart as counters.
[[nodiscard]] std::unique_ptr<EventExport> export_perfetto(const Report& report, std::FILE* file);

/// The data of heaptrack (file version 3), which heaptrack_print and heaptrack_gui open: each allocation and free with its
/// stack, and the time. An object of a sample stands there as often as the sample says. @p file stays open.
[[nodiscard]] std::unique_ptr<EventExport> export_heaptrack(const Report& report, std::FILE* file);

/// A database of SQLite, written anew: events, gaps, and a table for each kind of definition.
[[nodiscard]] std::unique_ptr<EventExport> export_sqlite(const Report& report, const std::filesystem::path& path);

}  // namespace qm::analysis
