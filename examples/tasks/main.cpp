/// Two tasks on two harts exchange packets. One packet in a hundred is leaked, and the trace shows its allocation.

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <memory_resource>
#include <string_view>
#include <vector>

#include <qm/firmware/app.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/symbols.hpp>
#include <qm/firmware/task.hpp>
#include <qm/memory_resource.hpp>
#include <qm/object_cache.hpp>
#include <qm/trace/trace.h>

namespace {

using namespace qm;

class Packet {
 public:
  explicit Packet(unsigned length) : length_(length) {}
  [[nodiscard]] unsigned length() const { return length_; }

 private:
  unsigned length_;
  std::array<std::byte, 200> payload_{};
};

constexpr unsigned kPackets = 1000;
ObjectCache<Packet> packets;
constinit std::atomic<Packet*> slot{nullptr};  // the packet being passed
constinit firmware::Event changed;
constinit std::atomic<bool> counted{false};

void print(std::string_view text) { firmware::console_write(text); }
void print(std::uint64_t number) {
  std::array<char, 20> digits;
  print({digits.data(),
         static_cast<std::size_t>(std::to_chars(digits.begin(), digits.end(), number).ptr - digits.begin())});
}

template <class Condition>
void wait_for(Condition condition) {
  for (;;) {
    const std::uint32_t seen = changed.sequence();
    if (condition()) return;
    firmware::wait_event(changed, seen);
  }
}

[[gnu::noinline]] Packet* receive(unsigned number) { return packets.make(64 + number % 100); }

void receiver(void*) {
  for (unsigned i = 0; i < kPackets; ++i) {
    Packet* const packet = receive(i);
    wait_for([] { return slot.load(std::memory_order_acquire) == nullptr; });
    slot.store(packet, std::memory_order_release);
    changed.signal();
  }
}

void counter(void*) {
  std::pmr::vector<unsigned> lengths(&heap_resource());
  for (unsigned i = 0; i < kPackets; ++i) {
    wait_for([] { return slot.load(std::memory_order_acquire) != nullptr; });
    Packet* const packet = slot.exchange(nullptr, std::memory_order_acq_rel);
    changed.signal();
    lengths.push_back(packet->length());
    if (i % 100 != 99) packets.destroy(packet);  // the leak
  }
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  unsigned all = 0;
  for (const unsigned length : lengths) all += length;
  print(lengths.size()), print(" packets, lengths of "), print(*least), print(" to "), print(*most), print(" bytes, "),
      print(all);
  print(" in all\n");
  counted.store(true, std::memory_order_release);
  changed.signal();
}

bool print_record(const qm_trace_record* record, void*) {
  firmware::SymbolName name;
  print("  packet of hart "), print(record->hart), print(" "), print(record->context), print(", allocated in ");
  print(record->depth != 0 && firmware::symbol(record->stack[0] - 1, name) ? name.name() : "?");
  print("\n");
  return true;
}

}  // namespace

namespace qm::firmware {

void early_main(const BootInfo& info) {
  start_allocator(info, []() noexcept { qm_trace_init(nullptr); });
}

void main(const BootInfo& info) {
  packets = ObjectCache<Packet>::create("packet");
  if (!packets || qm_trace_start("packet") != QM_OK) panic("no cache, or no trace");
  spawn(info.hart_count - 1, "counter", counter, nullptr);
  spawn(0, "receiver", receiver, nullptr);
  wait_for([] { return counted.load(std::memory_order_acquire); });
  qm_trace_summary summary;
  print(packets.cache().stats().in_use), print(" packets are out:\n");
  qm_trace_foreach("packet", print_record, nullptr, &summary);
  print(summary.complete && summary.shown == 10 ? "the trace is complete\n" : "the trace is not complete\n");
}

}  // namespace qm::firmware
