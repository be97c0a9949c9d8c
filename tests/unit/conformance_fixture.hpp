#pragma once
// Runs the port's check on the test's harts and keeps what it prints.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <qm/conformance/port_check.hpp>
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

/// @param[in] missing harts that are awaited and do not come.
inline bool run_check(unsigned harts, unsigned missing = 0) {
  checked.length = 0;
  bool right = false;
  on_each_hart(harts, [&](unsigned hart) {
    if (hart == 0)
      right = conformance::check_port({&keep_text, check_memory, harts + missing, missing != 0 ? 100U : 5000U});
    else conformance::attend_port_check();
  });
  return right;
}

}  // namespace qm::test
