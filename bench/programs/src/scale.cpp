#include <algorithm>

#include <qm/bench/program.hpp>

namespace qm::bench {
namespace {

using replay::Kind;
using replay::Operation;

/// A block, from its allocation to its free.
struct Life {
  std::uint32_t largest;  ///< most bytes, including reallocations
  std::uint32_t size;     ///< current bytes while the operations are visited
  std::uint32_t slot;     ///< its slot in the small program
  std::uint32_t turns;
};

constexpr std::uint32_t kNone = ~std::uint32_t{0};

class Scaling {
 public:
  /// Numbers the lives in the order of their allocations: the slot of each operation is replaced by the number of its
  /// life.
  Scaling(const Script& whole, std::uint32_t bytes, Operation* operations, Life* lives, std::uint32_t* life_of) noexcept
      : operations_(operations, whole.operations.size()), lives_(lives), bytes_(bytes) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      Operation& operation = operations_[i] = whole.operations[i];
      if (kind_of(operation) == Kind::kAllocate) {
        lives_[next] = {0, 0, kNone, 0};
        life_of[operation.slot] = next++;
      }
      const std::uint32_t life = life_of[operation.slot];
      operation.slot = life & 0xffffff;
      operation.thread = 0;
      if (kind_of(operation) != Kind::kFree) lives_[life].largest = std::max(lives_[life].largest, operation.size);
    }
  }

  /// Keeps the largest share of lives that does not exceed the bytes.
  Script run() noexcept {
    std::uint32_t fits = 1, above = kShares + 1;
    while (above - fits > 1) {
      const std::uint32_t middle = (fits + above) / 2;
      (peak_of(middle) <= bytes_ ? fits : above) = middle;
    }
    Script small;
    small.peak_bytes = peak_of(fits);
    std::size_t kept = 0;
    for (const Operation& operation : operations_) {
      Life& life = lives_[operation.slot];
      if (!keeps(operation.slot, fits)) continue;
      if (life.slot == kNone) life.slot = small.slots++;
      Operation& out = operations_[kept++];
      out = operation;
      out.slot = life.slot & 0xffffff;
      out.turn = life.turns++;
    }
    small.operations = operations_.first(kept);
    return small;
  }

 private:
  static constexpr std::uint32_t kShares = 1000;
  static constexpr std::uint64_t kSpread = 2654435761;  // 2^32 divided by the golden ratio

  static Kind kind_of(const Operation& operation) noexcept { return static_cast<Kind>(operation.kind); }

  [[nodiscard]] bool keeps(std::uint32_t life, std::uint32_t share) const noexcept {
    return life * kSpread % kShares < share && lives_[life].largest <= bytes_ / 8;
  }

  [[nodiscard]] std::uint32_t peak_of(std::uint32_t share) noexcept {
    std::uint32_t live = 0, peak = 0;
    for (const Operation& operation : operations_) {
      if (!keeps(operation.slot, share)) continue;
      const bool allocates = kind_of(operation) == Kind::kAllocate, frees = kind_of(operation) == Kind::kFree;
      Life& life = lives_[operation.slot];
      const std::uint32_t before = allocates ? 0 : life.size;
      life.size = frees ? 0 : operation.size;
      live += life.size - before;
      peak = std::max(peak, live);
    }
    return peak;
  }

  std::span<Operation> operations_;
  Life* lives_;
  std::uint32_t bytes_;
};

std::size_t count_lives(const Script& whole) noexcept {
  return static_cast<std::size_t>(
      std::count_if(whole.operations.begin(), whole.operations.end(),
                    [](const Operation& operation) { return static_cast<Kind>(operation.kind) == Kind::kAllocate; }));
}

}  // namespace

std::size_t scale_bytes(const Script& whole) noexcept {
  return whole.operations.size_bytes() + count_lives(whole) * sizeof(Life) + whole.slots * sizeof(std::uint32_t);
}

Script scale(const Script& whole, std::uint32_t bytes, void* memory) noexcept {
  auto* const operations = static_cast<Operation*>(memory);
  void* const behind = operations + whole.operations.size();
  auto* const lives = static_cast<Life*>(behind);
  void* const last = lives + count_lives(whole);
  return Scaling(whole, bytes, operations, lives, static_cast<std::uint32_t*>(last)).run();
}

}  // namespace qm::bench
