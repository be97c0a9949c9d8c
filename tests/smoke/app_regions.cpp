/// The allocator as start_allocator() starts it, on a board with several memory regions and harts. It prints the number
/// of bytes that come from each region, and whether each hart has its fast path, as lines for app-regions.sh.

#include <array>
#include <charconv>
#include <string_view>

#include <qm/cache.hpp>
#include <qm/firmware/app.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/task.hpp>
#include <qm/heap.hpp>

namespace {

using namespace qm;

constexpr std::size_t kBlockBytes = 256 * 1024;
constinit std::array<unsigned, hal::MemoryMap::kMaxRanges> blocks{};
Cache* packets;
constinit std::array<std::size_t, hal::Port::kMaxHarts> misses{};

void print(std::string_view text) { firmware::console_write(text); }
void print(std::uint64_t number) {
  std::array<char, 20> digits;
  const auto [end, error] = std::to_chars(digits.begin(), digits.end(), number);
  print({digits.data(), static_cast<std::size_t>(end - digits.begin())});
}

/// The first operation of a hart misses: its magazine is empty. A hart that is not attached uses hart 0's magazine.
void try_hart(unsigned hart, void*) {
  const std::size_t before = packets->stats().misses;
  for (int i = 0; i < 100; ++i) packets->free(packets->allocate());
  misses[hart] = packets->stats().misses - before;
}

/// Allocates blocks until an allocation fails, and counts the blocks of each region. A block lies in one region.
void take_all(const firmware::BootInfo& info) {
  while (void* const block = heap::allocate(kBlockBytes)) {
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    for (std::size_t region = 0; region < info.memory.size(); ++region) {
      if (address >= info.memory[region].low && address < info.memory[region].high) ++blocks[region];
    }
  }
}

}  // namespace

void qm::firmware::early_main(const BootInfo& info) {
  start_allocator(info);
  packets = Cache::create({.name = "packet", .object_size = 256});
}

void qm::firmware::main(const BootInfo& info) {
  for (unsigned hart = 0; hart < info.hart_count; ++hart) on_harts(hart, hart, "try", try_hart, nullptr);
  take_all(info);
  print("\n");  // the SBI firmware's banner may not end with a line end
  for (std::size_t region = 0; region < info.memory.size(); ++region) {
    print("region "), print(info.memory[region].bytes() >> 20), print(" MiB, taken ");
    print((blocks[region] * kBlockBytes) >> 20), print(" MiB\n");
  }
  for (unsigned hart = 0; hart < info.hart_count; ++hart) {
    print("hart "), print(hart), print(", operations 200, misses "), print(misses[hart]), print("\n");
  }
}
