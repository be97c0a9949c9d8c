#pragma once
/// What the harts of a check share: orders from hart 0, and lines about what came of them.

#include <array>
#include <atomic>
#include <cstdint>

#include <qm/cache.hpp>
#include <qm/conformance/port_check.hpp>
#include <qm/hal/hart.hpp>

namespace qm::conformance {

/// What hart 0 asks of another hart.
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

/// One hart's box. Hart 0 stores an order and waits until it is kNone again; what was found is then in the rest.
struct Desk {
  std::atomic<std::uint32_t> order{0};   // release by hart 0, acquire by the hart; back likewise
  std::atomic<std::uint32_t> claims{0};  // harts that say they have this index
  std::atomic<std::uint32_t> held{0};    // kHoldMasked: 1 masked, 2 let go
  std::atomic<std::uint32_t> churning{0};
  const void* locals = nullptr;  // the hart's hart-locals
  std::uint64_t ticks = 0;
  bool answered = false;                // kCallHart0
  std::atomic<std::uint32_t> begun{0};  // kStayInSection: how often the section was begun
  std::atomic<std::uint32_t> go{0};     // and that it may end
  std::uint32_t twice = 0;              // kChurn: objects that somebody else had as well
};

struct Board {
  std::array<Desk, hal::Port::kMaxHarts> desks;
  std::atomic<std::uint32_t> arrived{0};
  std::atomic<std::uint32_t> over{0};
  /// What hart 0 does when its timer interrupts it; nullptr: nothing.
  std::atomic<void (*)() noexcept> on_interrupt{nullptr};
  Cache* cache = nullptr;  // kChurn
};
extern Board board;

/// Text of numbers and words, in pieces: no buffer, no allocation.
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

/// Waits with interrupts enabled until @p done says so, at most @p ms. @returns whether it did.
bool wait_until(std::uint32_t ms, bool (*done)(unsigned hart), unsigned hart = 0) noexcept;

/// Gives hart @p hart an order. @returns whether it was carried out within @p ms.
bool carry_out(unsigned hart, Order order, std::uint32_t ms = 2000) noexcept;
void begin_order(unsigned hart, Order order) noexcept;
bool order_done(unsigned hart) noexcept;

/// Whether the image has a section for the next, and the table that qm_rewind() finds it by.
bool can_probe_rewind() noexcept;
void stay_in_section(Desk& desk) noexcept;

/// A cache for churn(): what nobody has is 0 in its first word, whatever was in the memory, in a checking build too.
/// @returns nullptr if there is no memory.
[[nodiscard]] Cache* create_cache(const char* name) noexcept;

/// Takes and frees objects of board.cache, in tasks and in handlers alike, and looks whether somebody else has them.
/// @returns how many somebody had.
std::uint32_t churn(unsigned rounds) noexcept;

/// A check says what it is for, and returns whether it found nothing. Only then it has printed nothing.
struct Check {
  const char* name;
  bool (*run)(const PortCheck& check, const Line& line);
  bool (*applies)(const PortCheck& check);  // null: always
  bool needed;                              // by all that follow
};
std::span<const Check> checks() noexcept;

}  // namespace qm::conformance
