#pragma once
/// What lies at an address of the image or on a stack, in words.

#include <cstddef>
#include <cstdint>
#include <span>

namespace qm::firmware {

/// Writes to @p text what lies at @p address: `the stack of hart 0 task net-rx`, `the trap stack of hart
/// 1`, `a stack that no task has`, `the image`.
/// @returns how many characters; 0: nothing that the firmware knows. A longer text is cut.
/// Complexity: O(tasks + harts). Context: any, a panic included; what changes meanwhile may be told as it was.
std::size_t describe(std::uintptr_t address, std::span<char> text) noexcept;

}  // namespace qm::firmware
