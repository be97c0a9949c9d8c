#pragma once
/// A ring from one hart to another, for objects that are freed on another hart than they were allocated on. It has one
/// writer and one reader.

#include <array>
#include <atomic>
#include <cstdint>

namespace qm::demo {

class Mailbox {
 public:
  bool put(void* object) noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    // acquire: pairs with the release in take(), so that the slot has been read.
    if (head - tail_.load(std::memory_order_acquire) == slots_.size()) return false;
    slots_[head % slots_.size()] = object;
    head_.store(head + 1, std::memory_order_release);
    return true;
  }
  void* take() noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
    // acquire: pairs with the release in put(), so that the slot and the object are visible.
    if (tail == head_.load(std::memory_order_acquire)) return nullptr;
    void* object = slots_[tail % slots_.size()];
    tail_.store(tail + 1, std::memory_order_release);
    return object;
  }

 private:
  std::array<void*, 64> slots_{};
  std::atomic<std::uint32_t> head_{0};
  std::atomic<std::uint32_t> tail_{0};
};

}  // namespace qm::demo
