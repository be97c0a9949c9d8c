#pragma once
/// How full the memory of objects is over time, page by page, and which objects keep nearly empty pages.
///
/// Time is counted in operations on objects: host::holds_objects() says which events these are, and host::lives_long()
/// which objects are long-lived. A page is *pinned* while all objects in it are long-lived.

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <qm/host/events.hpp>

namespace qm::analysis {

struct Report;

/// The objects of a call site in pages that they pin, at the worst moment. A page of several sites is that of the site
/// with most bytes in it.
struct Pin {
  std::string site;  ///< as the report names it
  std::uint64_t objects = 0, pages = 0;
  std::uint64_t bytes = 0;         ///< unused bytes of these pages
  std::uint64_t median_ticks = 0;  ///< age of the objects
  /// All objects that ever began in these pages, by the operations that they lived for: at most 1 % of all, at most
  /// 10 %, more.
  std::array<std::uint64_t, 3> lifetimes{};
};

/// A strip of the address space.
struct Strip {
  std::uint64_t address = 0, pages = 0;
  std::uint64_t left_out = 0;  ///< pages before it, up to the strip before, that no object ever used
  /// For each column of time, at its end: bytes in use in percent, rounded up; negative: the objects in it are all
  /// long-lived.
  std::vector<int> cells;
};

struct Fragmentation {
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::size_t kColumns = 128, kStrips = 96, kPins = 10;

  std::uint64_t operations = 0;
  std::uint64_t peak_in_use = 0;   ///< bytes of live objects
  std::uint64_t peak_spanned = 0;  ///< bytes of the pages with a live object
  /// The worst moment, the first with most unused bytes in pages with a live object.
  std::uint64_t worst_operation = 0, worst_ticks = 0, worst_in_use = 0, worst_spanned = 0;
  std::vector<Pin> pins;                    ///< those with most unused bytes, at most kPins
  std::vector<std::uint64_t> column_ticks;  ///< the end of each column; at most kColumns
  std::vector<Strip> strips;                ///< by address, equally many pages each but for the ends of runs
};

/// Collects the objects of a capture's last stream. Memory: 40 bytes for each object and 16 for each operation.
class Occupancy final : public host::EventHandler {
 public:
  void on_header(const host::Definitions& definitions) override;
  void on_event(const host::Event& event) override;

  /// Call after the capture was read. @param[in] report of the same stream; names the call sites.
  /// @throws host::Error kInput if no object lies in memory, or objects are too large or too far apart for memory.
  /// Complexity: O(pages of all objects + columns * strips).
  [[nodiscard]] Fragmentation fragmentation(const Report& report) const;

 private:
  friend class FragmentationMaker;
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Object {
    std::uint64_t address = 0, bytes = 0;
    std::uint64_t ticks = 0;               // of its allocation
    std::uint32_t born = 0, died = kNone;  // operations
    std::uint32_t stack = 0, call_site = 0;
  };
  struct Step {
    std::uint64_t ticks = 0;
    std::uint32_t freed = kNone, taken = kNone;  // objects
  };
  void end(std::uint64_t address, Step& step);

  const host::Definitions* definitions_ = nullptr;
  std::vector<Object> objects_;
  std::vector<Step> steps_;
  std::unordered_map<std::uint64_t, std::uint32_t> live_;  // address -> object
};

}  // namespace qm::analysis
