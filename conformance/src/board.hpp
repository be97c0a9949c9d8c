#pragma once
/// The data that the harts of a check share: orders from hart 0 and their results, and the output lines.

#include <array>
#include <atomic>
#include <cstdint>

#include <qm/cache.hpp>
#include <qm/conformance/port_check.hpp>
#include <qm/hal/hart.hpp>

namespace qm::conformance {

/// A request from hart 0 to another hart.
enum class Order : std::uint32_t {
  kNone,
  kAttach,
  kReadTicks,
  kHoldMasked,
  kCallHart0,
  kStayInSection,
  kChurn,
  kDetach
};

/// One hart's box. Hart 0 stores an order and waits until it is kNone again; the other members then have the results.
struct Desk {
  std::atomic<std::uint32_t> order{0};   // release by hart 0, acquire by the hart; likewise for the answer
  std::atomic<std::uint32_t> claims{0};  // number of harts that report this index
  std::atomic<std::uint32_t> held{0};    // kHoldMasked: 1 masked, 2 released
  std::atomic<std::uint32_t> churning{0};
  const void* locals = nullptr;  // the hart's hart-locals
  std::uint64_t ticks = 0;
  bool answered = false;                // kCallHart0
  std::atomic<std::uint32_t> begun{0};  // kStayInSection: how often the section was begun
  std::atomic<std::uint32_t> go{0};     // kStayInSection: the section may end
  std::uint32_t twice = 0;              // kChurn: objects that another task or handler had at the same time
};

struct Board {
  std::array<Desk, hal::Port::kMaxHarts> desks;
  std::atomic<std::uint32_t> arrived{0};
  std::atomic<std::uint32_t> over{0};
  /// The action of hart 0's timer interrupt; nullptr: none.
  std::atomic<void (*)() noexcept> on_interrupt{nullptr};
  Cache* cache = nullptr;  // kChurn
};
extern Board board;

/// Prints text and numbers piece by piece, without a buffer and without allocation.
class Line {
 public:
  explicit Line(void (*write)(std::string_view)) noexcept : write_(write) {}
  const Line& operator<<(std::string_view text) const noexcept {
    write_(text);
    return *this;
  }
  const Line& operator<<(std::uint64_t number) const noexcept;

 private:
  void (*write_)(std::string_view);
};

/// Waits with interrupts enabled until @p done returns true, at most @p ms milliseconds. @returns whether it did.
bool wait_until(std::uint32_t ms, bool (*done)(unsigned hart), unsigned hart = 0) noexcept;

/// Gives hart @p hart an order. @returns whether it was carried out within @p ms milliseconds.
bool carry_out(unsigned hart, Order order, std::uint32_t ms = 2000) noexcept;
void begin_order(unsigned hart, Order order) noexcept;
bool order_done(unsigned hart) noexcept;

/// Whether the image has a section for stay_in_section(), and the table in which qm_rewind() finds it.
bool can_probe_rewind() noexcept;
void stay_in_section(Desk& desk) noexcept;

/// Creates a cache for churn(). The first word of a free object is 0, whatever the memory had before, in a checking
/// build too.
/// @returns nullptr if there is no memory.
[[nodiscard]] Cache* create_cache(const char* name) noexcept;

/// Allocates and frees objects of board.cache, in tasks and in handlers, and checks whether another task or handler has
/// the same object.
/// @returns the number of objects that had another owner.
std::uint32_t churn(unsigned rounds) noexcept;

/// A check names its subject, and returns true if it found no fault. It has printed nothing only in that case.
struct Check {
  const char* name;
  bool (*run)(const PortCheck& check, const Line& line);
  bool (*applies)(const PortCheck& check);  // null: always
  bool needed;                              // by all that follow
};
std::span<const Check> checks() noexcept;

}  // namespace qm::conformance
