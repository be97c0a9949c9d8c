#pragma once
/// Functions that are declared weak: their callers are linked without them.

namespace qm {

/// Whether the function is in the program. A function of its own: where declaration and definition are in one source, a
/// compiler says of the plain comparison that it is always true.
template <class Function>
constexpr bool is_linked(Function* function) noexcept {
  return function != nullptr;
}

}  // namespace qm
