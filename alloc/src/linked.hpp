#pragma once
/// A test for functions that are declared weak: a program may be linked without them.

namespace qm {

/// Whether the function is in the program. A separate function: a compiler that sees declaration and definition in one
/// source warns that the plain comparison is always true.
template <class Function>
constexpr bool is_linked(Function* function) noexcept {
  return function != nullptr;
}

}  // namespace qm
