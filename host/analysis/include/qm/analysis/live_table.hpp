#pragma once
/// The live objects, by address: open addressing, one probe sequence, no tombstones.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace qm::analysis {

struct LiveObject {
  std::uint64_t address = 0;
  std::uint64_t ticks = 0;                     ///< time of its allocation
  std::uint64_t requested = 0, allocated = 0;  ///< bytes
  std::uint32_t row = 0;
  /// address space, 0: memory, else an arena's number + 1; equal addresses in two spaces are two objects
  std::uint32_t space = 0;
  std::uint16_t traceable = 0, hart = 0;
  float weight = 0;  ///< number of objects that it stands for; 0: an empty place
};

class LiveTable {
 public:
  LiveTable() : places_(kLeast) {}

  /// @returns the entry at an address; nullptr if there is none. Valid until the next change. Complexity: O(1).
  [[nodiscard]] LiveObject* find(std::uint32_t space, std::uint64_t address) noexcept {
    for (std::size_t place = home(space, address);; place = next(place)) {
      LiveObject& object = places_[place];
      if (object.weight == 0) return nullptr;
      if (object.address == address && object.space == space) return &object;
    }
  }

  /// Adds an object, whose address must not be in the table and whose weight must not be 0. Complexity: O(1),
  /// amortised.
  void insert(const LiveObject& object) {
    if ((count_ + 1) * 4 > places_.size() * 3) grow();
    place(object);
    ++count_;
  }

  /// Removes an entry that find() returned. Complexity: O(1).
  void erase(LiveObject* object) noexcept {
    std::size_t hole = static_cast<std::size_t>(object - places_.data());
    // Entries that this one had pushed behind it move up, so searches need no tombstones.
    for (std::size_t at = next(hole); places_[at].weight != 0; at = next(at)) {
      const std::size_t wanted = home(places_[at].space, places_[at].address);
      if (((at - wanted) & (places_.size() - 1)) < ((at - hole) & (places_.size() - 1))) continue;
      places_[hole] = places_[at];
      hole = at;
    }
    places_[hole] = {};
    --count_;
  }

  void clear() {
    places_.assign(kLeast, {});
    count_ = 0;
  }

  [[nodiscard]] std::size_t size() const noexcept { return count_; }

  template <class Visit>
  void for_each(Visit visit) const {
    for (const LiveObject& object : places_) {
      if (object.weight != 0) visit(object);
    }
  }

 private:
  static constexpr std::size_t kLeast = 1024;  // a power of two, like every size of the table

  [[nodiscard]] std::size_t home(std::uint32_t space, std::uint64_t address) const noexcept {
    const std::uint64_t mixed = (address ^ std::uint64_t{space} << 48) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(mixed >> 20) & (places_.size() - 1);
  }
  [[nodiscard]] std::size_t next(std::size_t place) const noexcept { return (place + 1) & (places_.size() - 1); }
  void place(const LiveObject& object) noexcept {
    std::size_t at = home(object.space, object.address);
    while (places_[at].weight != 0) at = next(at);
    places_[at] = object;
  }
  void grow() {
    std::vector<LiveObject> old(places_.size() * 2);
    old.swap(places_);
    for (const LiveObject& object : old) {
      if (object.weight != 0) place(object);
    }
  }

  std::vector<LiveObject> places_;
  std::size_t count_ = 0;
};

}  // namespace qm::analysis
