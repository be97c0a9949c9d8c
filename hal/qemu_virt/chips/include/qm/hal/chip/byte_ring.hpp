#pragma once
/// A ring of bytes between one producer (an interrupt handler) and one consumer (a task, on any hart).
///
///     bytes_  [ . . x x x x . . ]       positions count up and wrap at 2^32; index = position % size
///                  ^       ^
///                  tail_   head_        head_ - tail_ bytes wait
///
/// Invariants
/// - B1 Only the producer writes head_, the counters and the mark; only the consumer writes tail_.
/// - B2 0 <= head_ - tail_ <= size.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace qm::hal {

template <std::size_t Size>
class ByteRing {
  static_assert(Size != 0 && (Size & (Size - 1)) == 0, "positions wrap at a power of two");

 public:
  constexpr ByteRing() noexcept = default;

  /// Adds @p byte, or counts it as lost if the ring is full. If the byte equals @p mark, the ring marks it for
  /// marked(). A lost mark is remembered at the last byte that was stored.
  void push(std::uint8_t byte, std::uint8_t mark) noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    // acquire: pairs with the release in pop(): a slot is not overwritten before it has been read.
    const bool full = head - tail_.load(std::memory_order_acquire) == Size;
    if (full) {
      lost_.store(lost_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    } else {
      bytes_[head % Size] = byte;
      head_.store(head + 1, std::memory_order_release);  // pairs with the acquire in pop()
    }
    if (byte == mark) {
      mark_.store(full ? head : head + 1, std::memory_order_relaxed);  // the position after the byte
      marked_.store(1, std::memory_order_release);                     // pairs with the acquire in marked()
    }
  }

  /// Takes up to out.size() bytes. @returns the number taken.
  std::size_t pop(std::span<char> out) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    // acquire: pairs with the release in push(): the bytes are visible.
    const std::uint32_t waiting = head_.load(std::memory_order_acquire) - tail;
    const std::uint32_t count = waiting < out.size() ? waiting : static_cast<std::uint32_t>(out.size());
    for (std::uint32_t i = 0; i < count; ++i) out[i] = static_cast<char>(bytes_[(tail + i) % Size]);
    tail_.store(tail + count, std::memory_order_release);  // pairs with the acquire in push()
    return count;
  }

  /// Drops the waiting bytes up to and including the last mark; does nothing if there is no mark.
  void drop_to_mark() noexcept {
    if (!marked()) return;
    tail_.store(mark_.load(std::memory_order_relaxed), std::memory_order_release);
  }

  /// Whether a marked byte waits for the consumer.
  [[nodiscard]] bool marked() const noexcept {
    if (marked_.load(std::memory_order_acquire) == 0) return false;  // pairs with the release in push()
    const std::uint32_t ahead = mark_.load(std::memory_order_relaxed) - tail_.load(std::memory_order_relaxed);
    return ahead != 0 && ahead <= Size;
  }

  [[nodiscard]] std::size_t waiting() const noexcept {
    return head_.load(std::memory_order_acquire) - tail_.load(std::memory_order_relaxed);
  }

  /// Bytes lost since boot because the ring was full; wraps at 2^32.
  [[nodiscard]] std::uint32_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint32_t> head_{0};
  std::atomic<std::uint32_t> tail_{0};
  std::atomic<std::uint32_t> lost_{0};
  std::atomic<std::uint32_t> mark_{0};
  std::atomic<std::uint32_t> marked_{0};
  std::array<std::uint8_t, Size> bytes_{};
};

}  // namespace qm::hal
