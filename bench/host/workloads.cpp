#include "workloads.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>

#include "threads.hpp"

namespace qm::bench {
namespace {

double nanoseconds(Clock::duration time, unsigned pairs) {
  return std::chrono::duration<double, std::nano>(time).count() / pairs;
}

class Random {
 public:
  std::uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(std::uint64_t{next()} * bound >> 32); }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15ULL;
};

constexpr std::size_t kLive = 1000;
struct Block {
  void* memory;
  std::size_t size;
};

/// Allocates a block and writes one word, as a user of the block does.
void* take(const Subject& subject, std::size_t size) {
  void* block = subject.allocate(size);
  *static_cast<volatile std::uint64_t*>(block) = size;
  return block;
}

Clock::duration lifo_here(const Subject& subject, unsigned pairs) {
  const auto begin = Clock::now();
  for (unsigned left = pairs; left != 0; --left) subject.free(take(subject, kFixedSize), kFixedSize);
  return Clock::now() - begin;
}

template <class Size>
Clock::duration replace_here(const Subject& subject, unsigned pairs, Size size) {
  std::array<Block, kLive> live;
  Random random;
  for (Block& block : live) {
    block.size = size(random);
    block.memory = take(subject, block.size);
  }
  const auto begin = Clock::now();
  for (unsigned left = pairs; left != 0; --left) {
    Block& block = live[random.below(kLive)];
    subject.free(block.memory, block.size);
    block.size = size(random);
    block.memory = take(subject, block.size);
  }
  const auto time = Clock::now() - begin;
  for (const Block& block : live) subject.free(block.memory, block.size);
  return time;
}

std::size_t fixed(Random&) { return kFixedSize; }
std::size_t mixed(Random& random) { return 16 + random.below(1009); }

}  // namespace

double lifo(const Subject& subject, unsigned pairs) {
  const ThreadScope scope(0);
  return nanoseconds(lifo_here(subject, pairs), pairs);
}

double replace_fixed(const Subject& subject, unsigned pairs) {
  const ThreadScope scope(0);
  return nanoseconds(replace_here(subject, pairs, fixed), pairs);
}

double replace_mixed(const Subject& subject, unsigned pairs) {
  const ThreadScope scope(0);
  return nanoseconds(replace_here(subject, pairs, mixed), pairs);
}

double lifo_two_threads(const Subject& subject, unsigned pairs) {
  return nanoseconds(on_threads(2, [&](unsigned) { return lifo_here(subject, pairs); }), pairs);
}

double replace_two_threads(const Subject& subject, unsigned pairs) {
  return nanoseconds(on_threads(2, [&](unsigned) { return replace_here(subject, pairs, fixed); }), pairs);
}

double producer_consumer(const Subject& subject, unsigned pairs) {
  constexpr std::size_t kRing = 1024;
  static std::array<std::atomic<void*>, kRing> ring;
  const auto produce = [&] {
    for (unsigned i = 0; i < pairs; ++i) {
      void* block = take(subject, kFixedSize);
      std::atomic<void*>& slot = ring[i % kRing];
      while (slot.load(std::memory_order_relaxed) != nullptr) std::this_thread::yield();
      slot.store(block, std::memory_order_release);
    }
  };
  const auto consume = [&] {
    for (unsigned i = 0; i < pairs; ++i) {
      std::atomic<void*>& slot = ring[i % kRing];
      void* block = nullptr;
      while ((block = slot.load(std::memory_order_acquire)) == nullptr) std::this_thread::yield();
      slot.store(nullptr, std::memory_order_relaxed);
      subject.free(block, kFixedSize);
    }
  };
  const auto time = on_threads(2, [&](unsigned thread) {
    const auto begin = Clock::now();
    thread == 0 ? produce() : consume();
    return Clock::now() - begin;
  });
  return nanoseconds(time, pairs);
}

}  // namespace qm::bench
