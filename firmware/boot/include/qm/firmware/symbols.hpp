#pragma once
/// Finds functions and variables in the symbol table that the build appends to the image.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace qm::firmware {

/// A symbol's name in the table: qualified, without parameters, template arguments and anonymous namespaces.
struct SymbolName {
  std::array<char, 96> text{};  ///< cut if longer
  std::size_t length = 0;
  std::uintptr_t offset = 0;  ///< of the address in the function or variable, in bytes
  std::uintptr_t size = 0;    ///< of the function or variable in bytes
  bool is_function = false;
  [[nodiscard]] std::string_view name() const noexcept { return {text.data(), length}; }
};

/// Finds the function or static variable that contains @p address. For a return address, pass the address minus 1, so
/// that a call at the end of a function is attributed to that function.
/// @returns false if there is no table or no symbol there.
/// Complexity: O(log symbols), no allocation. Context: any, a panic included.
bool symbol(std::uintptr_t address, SymbolName& out) noexcept;

/// Finds the function or variable called @p name, as symbol() names it. If several have the name, it finds the one at
/// the lowest address.
/// @returns false if there is none. Complexity: O(symbols), no allocation. Context: any, a panic included.
bool find_symbol(std::string_view name, std::uintptr_t& start) noexcept;

/// Called for a symbol that begins at @p start. Its full name is @p qualifier followed by @p name. @returns whether to
/// continue.
using SymbolVisitor = bool (*)(void* context, std::string_view qualifier, std::string_view name,
                               std::uintptr_t start) noexcept;
/// Calls @p visit for each symbol of the table, in the order of the table: functions, then variables, each by address.
/// Complexity: O(symbols), no allocation. Context: any.
void visit_symbols(SymbolVisitor visit, void* context) noexcept;

/// Size of the table in bytes; 0 without one.
[[nodiscard]] std::size_t symbol_table_bytes() noexcept;

/// The number of functions and variables in the table.
[[nodiscard]] std::size_t symbol_count() noexcept;

}  // namespace qm::firmware
