#pragma once
/// The heap as a std::pmr::memory_resource: `std::pmr::vector<int> numbers(&qm::heap_resource());`
///
/// In the library qm_pmr, for whoever asks for it; libstdc++'s `<memory_resource>` is enough, its libraries are not
/// needed.

#include <memory_resource>

namespace qm {

/// @returns the resource. It is equal to itself only, outlives everything, and needs qm::initialize() before its first
///          use.
/// Its allocate() does not return without memory: nobody could tell a container. It ends in Port::fatal().
/// Context: that of qm::heap.
[[nodiscard]] std::pmr::memory_resource& heap_resource() noexcept;

}  // namespace qm
