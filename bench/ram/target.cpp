/// The bench `ram` on a board without an operating system: the scaled programs, in memory of one hart. The allocators
/// start anew in each pool, which always lies at the same address.

#include <algorithm>
#include <array>

#include <qm/bench/bench.hpp>
#include <qm/bench/peers.hpp>
#include <qm/bench/run_in_pool.hpp>
#include <qm/bench/smallest_pool.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/firmware/text.hpp>
#include <qm/heap.hpp>
#include <qm/system.hpp>

namespace qm::bench {
namespace {

struct Ours {
  static constexpr std::string_view kName = "ours";
  static bool start(void* memory, std::size_t bytes) noexcept {
    if (is_up_) shutdown();
    const MemoryRange range{reinterpret_cast<std::uintptr_t>(memory), bytes};
    is_up_ = initialize({&range, 1}, 1) == Status::kOk;
    if (is_up_) attach_hart(0);
    return is_up_;
  }
  static void* allocate(std::size_t size) noexcept { return heap::allocate(size); }
  static void* reallocate(void* block, std::size_t size) noexcept { return heap::reallocate(block, size); }
  static void free(void* block) noexcept { heap::free(block); }

 private:
  static inline bool is_up_ = false;
};

/// The largest memory range: first the data made from recordings, then the pool.
class Memory {
 public:
  Memory() noexcept {
    for (const hal::MemoryRange& range : firmware::boot_info().memory) {
      if (range.bytes() <= end_ - next_) continue;
      next_ = range.low;
      end_ = range.low + range.bytes();
    }
    end_ -= kPoolBytes;
    end_ -= end_ % kPoolBytes;
  }
  void* take(std::size_t bytes) noexcept {
    constexpr std::size_t kAlignment = 32;
    const std::uintptr_t taken = (next_ + kAlignment - 1) / kAlignment * kAlignment;
    if (taken > end_ || bytes > end_ - taken) firmware::panic("bench: too little memory");
    next_ = taken + bytes;
    return reinterpret_cast<void*>(taken);
  }
  [[nodiscard]] void* pool() const noexcept { return reinterpret_cast<void*>(end_); }

  static constexpr std::size_t kPoolBytes = std::size_t{16} << 20;

 private:
  std::uintptr_t next_ = 0, end_ = 0;
};

/// @returns the smallest pool in bytes.
template <class Allocator>
std::size_t measure(const Script& script, Memory memory) {
  void* const slots = memory.take(script.slots * sizeof(replay::Slot));
  return smallest_pool(script.peak_bytes, [&](std::size_t bytes) {
    if (bytes > Memory::kPoolBytes) firmware::panic("bench: the pool is too small");
    const Ending ending = run_in_pool<Allocator>(script, slots, memory.pool(), bytes);
    if (ending == Ending::kDamaged) firmware::panic("bench: a block is damaged");
    return ending == Ending::kThrough;
  });
}

void print_row(std::string_view name, Use use, const Script& script, const Memory& memory) {
  Row row(name);
  row.text("use", use_name(use)).text("build", sizeof(void*) == 4 ? "rv32" : "rv64");
  row.number("peak live", script.peak_bytes);
  std::size_t ours = 0, tlsf = 0;
  const auto column = [&]<class Allocator>() {
    const std::size_t bytes = measure<Allocator>(script, memory);
    if (Allocator::kName == Ours::kName) ours = bytes;
    if (Allocator::kName == Tlsf::kName) tlsf = bytes;
    row.mean(Allocator::kName, bytes, script.peak_bytes);
  };
  column.template operator()<Ours>();
  for_each_peer(column);
  if (tlsf != 0) row.mean("ours / TLSF", ours, tlsf);
}

void measure_program(const Program& program, Memory memory) {
  replay::Header header;
  if (!replay::read_header(program.recording.file, header)) firmware::panic("bench: not a recording");
  void* const unpacked = memory.take(replay::unpack_bytes(header));
  const Script whole{replay::unpack(program.recording.file, unpacked), header.slots, header.peak_bytes};
  if (whole.operations.empty()) firmware::panic("bench: a damaged recording");
  void* const scaled = memory.take(scale_bytes(whole));
  for (const Size& size : kSizes) {
    if (whole.peak_bytes <= size.bytes) continue;
    std::array<char, 64> buffer{};
    firmware::Text name(buffer);
    name << program.recording.name << ", " << size.name;
    print_row(name.view(), program.use, scale(whole, size.bytes, scaled), memory);
  }
}

}  // namespace
}  // namespace qm::bench

void qm::firmware::main(const BootInfo&) {
  const bench::Memory memory;
  for (const bench::Program& program : bench::programs()) bench::measure_program(program, memory);
}
