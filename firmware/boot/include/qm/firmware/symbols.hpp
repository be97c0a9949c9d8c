#pragma once
/// Names of functions from the table that the build puts at the end of the image.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace qm::firmware {

/// A function's name as the table has it: qualified, without parameters, template arguments and anonymous namespaces.
struct SymbolName {
  std::array<char, 96> text{};  ///< cut if longer
  std::size_t length = 0;
  std::uintptr_t offset = 0;  ///< of the address in the function
  std::uintptr_t size = 0;    ///< of the function in bytes
  [[nodiscard]] std::string_view name() const noexcept { return {text.data(), length}; }
};

/// Finds the function that contains @p pc. For a return address pass it less one, so that a call at a function's end is
/// found.
/// @returns false if there is no table or no function there.
/// Complexity: O(log functions), no allocation. Context: any, a panic included.
bool symbol(std::uintptr_t pc, SymbolName& out) noexcept;

/// Finds the function called @p name, as symbol() names it; of several the one at the lowest address.
/// @returns false if there is none. Complexity: O(functions), no allocation. Context: any, a panic included.
bool find_function(std::string_view name, std::uintptr_t& start) noexcept;

/// Size of the table in bytes; 0 without one.
[[nodiscard]] std::size_t symbol_table_bytes() noexcept;

/// Functions in the table.
[[nodiscard]] std::size_t symbol_count() noexcept;

}  // namespace qm::firmware
