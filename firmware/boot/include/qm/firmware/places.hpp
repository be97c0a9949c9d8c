#pragma once
/// Describes an address of the image or of a stack in words.

#include <cstddef>
#include <cstdint>
#include <span>

namespace qm::firmware {

/// Writes to @p text a description of @p address: `the stack of hart 0 task net-rx`, `the trap stack of hart 1`, `a
/// stack that no task has`, `the image`. A longer description is cut.
/// @returns the number of characters; 0 if the firmware does not know the address.
/// Complexity: O(tasks + harts). Context: any, a panic included. If tasks change during the call, the description may
///          be outdated.
std::size_t describe(std::uintptr_t address, std::span<char> text) noexcept;

}  // namespace qm::firmware
