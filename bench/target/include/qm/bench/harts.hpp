#pragma once
/// Work on other harts, one after the other or at once. Who waits sleeps and so retires nothing.

#include <type_traits>

namespace qm::bench {

[[nodiscard]] unsigned harts() noexcept;

/// Runs @p function on harts @p first to @p last at once and returns when each has.
void on_harts(unsigned first, unsigned last, void (*function)(unsigned hart, void* argument), void* argument) noexcept;

/// The same with a callable `void(unsigned hart)`.
template <class Callable>
void on_harts(unsigned first, unsigned last, Callable&& callable) noexcept {
  using Plain = std::remove_reference_t<Callable>;
  on_harts(
      first, last, [](unsigned hart, void* argument) { (*static_cast<Plain*>(argument))(hart); }, &callable);
}

}  // namespace qm::bench
