#pragma once
/// Prints call sites for allocinfo, leaks and growth.

#include <span>

#include <qm/detail/call_sites.hpp>
#include <qm/console/command.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>

namespace qm::console {

/// Prints a site as a row of allocinfo does, without the line end: `net.cpp:41 [demo] func:packet_alloc`. For
/// allocations without a site it prints `<untagged>` instead of the file and of the function.
inline void print_site(Row& row, const CallSite& site) noexcept {
  const bool is_untagged = &site == &qm_untagged_site;
  if (is_untagged) {
    row.print("<untagged>:{} ", site.line);
  } else {
    row.print("{file}:{line} ", from_c(site.file), site.line);
  }
  if (site.module != nullptr) row.print("[{module}] ", site.module);
  is_untagged ? row.print("func:<untagged>") : row.print("func:{function}", from_c(site.function));
}

/// The kTop sites with the most bytes.
class TopSites {
 public:
  static constexpr unsigned kTop = 10;
  struct Figures {
    const CallSite* site = nullptr;
    std::int64_t objects = 0;
    std::uint64_t bytes = 0;
    [[nodiscard]] bool before(const Figures& other) const noexcept {
      return bytes != other.bytes ? bytes > other.bytes : objects > other.objects;
    }
  };

  void clear() noexcept { count_ = all_ = 0; }
  /// Adds a site. Each site is added at most once.
  void enter(const Figures& row) noexcept {
    ++all_;
    unsigned place = count_;
    while (place != 0 && row.before(rows_[place - 1])) --place;
    if (place == kTop) return;
    if (count_ < kTop) ++count_;
    for (unsigned i = count_ - 1; i > place; --i) rows_[i] = rows_[i - 1];
    rows_[place] = row;
  }
  [[nodiscard]] std::span<const Figures> rows() const noexcept { return {rows_, count_}; }
  /// The number of sites added.
  [[nodiscard]] unsigned all() const noexcept { return all_; }
  enum class Numbers : std::uint8_t { kHeld, kChanges };
  /// Prints the rows as allocinfo does. @param[in] numbers kChanges: numbers are printed with a sign.
  void print(Invocation& call, Numbers numbers) const noexcept {
    if (count_ != 0) call.head("#     <size>  <calls> <tag info>\n");
    for (unsigned i = 0; i < count_; ++i) {
      const Figures& of = rows_[i];
      call.out().whole_line();
      Row row(call, "site");
      if (numbers == Numbers::kChanges) {
        row.print("{bytes:+12} {calls:+8} ", of.bytes, of.objects);
      } else {
        row.print("{bytes:12} {calls:8} ", of.bytes, of.objects);
      }
      print_site(row, *of.site);
      row.print("\n");
    }
    if (all_ > count_) call.note("{} more sites\n", all_ - count_);
    if (count_ != 0) call.head("\n");
  }

 private:
  Figures rows_[kTop];
  unsigned count_ = 0;
  unsigned all_ = 0;
};

}  // namespace qm::console
