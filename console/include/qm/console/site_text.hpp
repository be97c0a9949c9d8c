#pragma once
/// Call sites as text: what allocinfo, leaks and growth share.

#include <span>

#include <qm/call_sites.hpp>
#include <qm/console/command.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>

namespace qm::console {

/// Prints a site as a row of allocinfo names it, without the end of the line: `net.cpp:41 [demo] func:packet_alloc`.
/// `<untagged>` stands in the place of a file and of a function for what has no site.
inline void print_site(Invocation& call, const CallSite& site) noexcept {
  const bool is_untagged = &site == &qm_untagged_site;
  const std::string_view none = "<untagged>";
  call.print("{}:{} ", is_untagged ? none : from_c(site.file), site.line);
  if (site.module != nullptr) call.print("[{}] ", site.module);
  call.print("func:{}", is_untagged ? none : from_c(site.function));
}

/// Sends a site as a row, with what it has, or how much more it has.
inline void send_site(Invocation& call, const CallSite& site, std::uint64_t bytes, std::int64_t calls) noexcept {
  const bool is_untagged = &site == &qm_untagged_site;
  ReportRow row(call, "site");
  row.number("bytes", bytes).change("calls", calls);
  if (is_untagged) return;
  row.text("file", from_c(site.file)).number("line", site.line).text("function", from_c(site.function));
  if (site.module != nullptr) row.text("module", from_c(site.module));
}

/// The sites that have most of what a report is about.
class TopSites {
 public:
  static constexpr unsigned kTop = 10;
  struct Row {
    const CallSite* site = nullptr;
    std::int64_t objects = 0;
    std::uint64_t bytes = 0;
    [[nodiscard]] bool before(const Row& other) const noexcept {
      return bytes != other.bytes ? bytes > other.bytes : objects > other.objects;
    }
  };

  void clear() noexcept { count_ = all_ = 0; }
  /// Enters a site; each once.
  void enter(const Row& row) noexcept {
    ++all_;
    unsigned place = count_;
    while (place != 0 && row.before(rows_[place - 1])) --place;
    if (place == kTop) return;
    if (count_ < kTop) ++count_;
    for (unsigned i = count_ - 1; i > place; --i) rows_[i] = rows_[i - 1];
    rows_[place] = row;
  }
  [[nodiscard]] std::span<const Row> rows() const noexcept { return {rows_, count_}; }
  /// How many were entered.
  [[nodiscard]] unsigned all() const noexcept { return all_; }
  enum class Numbers : std::uint8_t { kHeld, kChanges };
  /// Prints the rows as allocinfo does; @p numbers that are changes have a sign.
  void print(Invocation& call, Numbers numbers) const noexcept {
    if (count_ != 0 && !ReportRow::wanted(call)) call.print("#     <size>  <calls> <tag info>\n");
    for (unsigned i = 0; i < count_; ++i) {
      const Row& row = rows_[i];
      if (ReportRow::wanted(call)) {
        send_site(call, *row.site, row.bytes, row.objects);
        continue;
      }
      call.out().whole_line();
      if (numbers == Numbers::kChanges) {
        call.print("{:+12} {:+8} ", row.bytes, row.objects);
      } else {
        call.print("{:12} {:8} ", row.bytes, row.objects);
      }
      print_site(call, *row.site);
      call.print("\n");
    }
    if (all_ > count_) call.print("note: {} more sites\n", all_ - count_);
    if (count_ != 0) call.print("\n");
  }

 private:
  Row rows_[kTop];
  unsigned count_ = 0;
  unsigned all_ = 0;
};

}  // namespace qm::console
