#pragma once
/// The heap as a std::pmr::memory_resource: `std::pmr::vector<int> numbers(&qm::heap_resource());`
///
/// In the library qm_pmr, which a program links if it needs it. It needs libstdc++'s `<memory_resource>`, but none of
/// its libraries.

#include <memory_resource>

namespace qm {

/// @returns the resource. It is equal to itself only, is never destroyed, and needs qm::initialize() before its first
///          use.
/// Its allocate() ends in Port::fatal() if there is no memory, since a container cannot handle a null.
/// Context: that of qm::heap.
[[nodiscard]] std::pmr::memory_resource& heap_resource() noexcept;

}  // namespace qm
