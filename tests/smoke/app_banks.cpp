/// The allocator as start_allocator() starts it, on a board with several banks of memory and harts: how much of each bank
/// is taken, and whether each hart has its fast path, as lines for app-banks.sh.

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

/// The first operation of a hart misses, because its magazine is empty. A hart that is not attached uses the magazine of hart 0.
void try_hart(unsigned hart, void*) {
  const std::size_t before = packets->stats().misses;
  for (int i = 0; i < 100; ++i) packets->free(packets->allocate());
  misses[hart] = packets->stats().misses - before;
}

/// Takes blocks until there is none, and counts whose they are. A block lies in one bank.
void take_all(const firmware::BootInfo& info) {
  while (void* const block = heap::allocate(kBlockBytes)) {
    const auto address = reinterpret_cast<std::uintptr_t>(block);
    for (std::size_t bank = 0; bank < info.memory.size(); ++bank) {
      if (address >= info.memory[bank].low && address < info.memory[bank].high) ++blocks[bank];
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
  print("\n");  // the SBI firmware's banner may not end its line
  for (std::size_t bank = 0; bank < info.memory.size(); ++bank) {
    print("bank "), print(info.memory[bank].bytes() >> 20), print(" MiB, taken ");
    print((blocks[bank] * kBlockBytes) >> 20), print(" MiB\n");
  }
  for (unsigned hart = 0; hart < info.hart_count; ++hart) {
    print("hart "), print(hart), print(", operations 200, misses "), print(misses[hart]), print("\n");
  }
}
