#pragma once
#pragma GCC system_header  // #include_next
// The port of this build, whose hardware may hold an object of the test.

#define Port PortWithoutRoots
#include_next <qm/hal/selected_port.hpp>
#undef Port

#define QM_HARDWARE_ROOT  // for the test: there is one

namespace qm::hal {

inline constinit std::uintptr_t hardware_root = 0;

struct Port : PortWithoutRoots {
  static std::size_t hardware_roots(std::span<std::uintptr_t> words) noexcept {
    words[0] = hardware_root;
    return 1;
  }
};

}  // namespace qm::hal
