#pragma once
/// Work on other harts, one after another or at once. A hart that waits sleeps, so it retires no instructions.

#include <type_traits>

namespace qm::bench {

[[nodiscard]] unsigned harts() noexcept;

/// Runs @p function on harts @p first to @p last at once, and returns when all have returned.
void on_harts(unsigned first, unsigned last, void (*function)(unsigned hart, void* argument), void* argument) noexcept;

/// The same with a callable `void(unsigned hart)`.
template <class Callable>
void on_harts(unsigned first, unsigned last, Callable&& callable) noexcept {
  using Plain = std::remove_reference_t<Callable>;
  on_harts(
      first, last, [](unsigned hart, void* argument) { (*static_cast<Plain*>(argument))(hart); }, &callable);
}

}  // namespace qm::bench
