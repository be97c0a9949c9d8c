#pragma once
/// Harts for tests: real ones on the target, threads on the host.

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace qm::test {

/// @returns the number of harts of a test: on the host QM_HARTS in the environment (default 4, at most
///          Port::kMaxHarts), on the target the harts that started.
[[nodiscard]] unsigned harts() noexcept;

/// Runs @p function at the same time on the first @p count harts, and returns when every call has returned. Each call
/// runs with interrupts enabled and its hart online. The calling hart is hart 0 and takes part. Calls must not be
/// nested. EXPECT_ and ADD_FAILURE may be used in @p function; ASSERT_ leaves only the call it is in.
void on_each_hart(unsigned count, void (*function)(unsigned hart, void* argument), void* argument);

/// The same with a callable `void(unsigned hart)`.
template <class Callable>
void on_each_hart(unsigned count, Callable&& callable) {
  using Plain = std::remove_reference_t<Callable>;
  on_each_hart(
      count, [](unsigned hart, void* argument) { (*static_cast<Plain*>(argument))(hart); }, &callable);
}

/// A barrier for the harts of one on_each_hart(): arrive() returns once @p count harts have arrived. It serves
/// interrupts while it waits.
class Barrier {
 public:
  explicit Barrier(unsigned count) noexcept : count_(count) {}
  void arrive() noexcept;

 private:
  unsigned count_;
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint32_t> phase_{0};
};

}  // namespace qm::test
