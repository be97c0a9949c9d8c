#pragma once
// Runs the check of the port on the test's harts and keeps its output.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <qm/config.h>
#include <qm/conformance/port_check.hpp>
#if defined(QM_TARGET)
#include <qm/firmware/interrupt.hpp>
#include <qm/hal/port.hpp>
#endif
#include <qm/test/harts.hpp>

namespace qm::test {

struct CheckedText {
  std::array<char, 2048> text{};
  std::size_t length = 0;
};
inline constinit CheckedText checked;
alignas(4096) inline std::array<std::byte, conformance::kCheckBytes> check_memory;

inline std::string_view checked_text() { return {checked.text.data(), checked.length}; }

inline void keep_text(std::string_view text) {
  const std::size_t length = std::min(text.size(), checked.text.size() - checked.length);
  std::copy_n(text.data(), length, checked.text.data() + checked.length);
  checked.length += length;
}

#if defined(QM_TARGET)
inline void (*const interrupt_in)(std::uint32_t) = [](std::uint32_t ticks) { firmware::set_tick_period(0, ticks); };
#else
inline void (*const interrupt_in)(std::uint32_t) = nullptr;
#endif

/// Hart 0 runs @p check, which returns whether the port is right, and every other hart runs @p attend.
template <class Check, class Attend>
bool run_harts(unsigned harts, Check check, Attend attend) {
  checked.length = 0;
  bool right = false;
#if defined(QM_TARGET)
  const auto tick = [](void*) { conformance::on_interrupt(); };
  firmware::set_tick_handler(tick, nullptr);
#endif
  on_each_hart(harts, [&](unsigned hart) {
    if (hart == 0) right = check();
    else attend();
  });
#if defined(QM_TARGET)
  firmware::set_tick_handler(nullptr, nullptr);
  firmware::set_tick_period(0, static_cast<std::uint32_t>(hal::Port::tick_rate() / firmware::kTickHz));
#endif
  return right;
}

/// @param[in] missing  harts that are awaited and do not come.
/// @param[in] interrupt how hart 0 is interrupted; not possible on a host.
inline bool run_check(unsigned harts, unsigned missing = 0, void (*interrupt)(std::uint32_t) = interrupt_in) {
  const auto check = [&] {
    return conformance::check_port({&keep_text, check_memory, harts + missing, missing != 0 ? 100U : 5000U, interrupt});
  };
  return run_harts(harts, check, conformance::attend_port_check);
}

}  // namespace qm::test
