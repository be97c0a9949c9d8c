/// Three threads allocate messages and three free them, on whatever hart each runs at the moment. One thread leaks
/// notes, and the trace shows which.

#include <array>
#include <atomic>
#include <charconv>
#include <string_view>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/heap.hpp>
#include <qm/registry.hpp>
#include <qm/system.hpp>
#include <qm/trace/trace.h>

#include "kernel.hpp"

extern "C" char __heap_start[], __heap_end[];

namespace {

using kernel::Semaphore;
using kernel::Thread;
using qm::hal::Port;

constexpr unsigned kSenders = 3, kReceivers = 3, kMessages = 1000, kForgetful = 2, kForgottenEvery = 100;
constexpr qm::hal::HartMask kAllHarts = (1u << Port::kMaxHarts) - 1;

void print(std::string_view text) {
  std::array<char, 128> line{};
  line[text.copy(line.data(), line.size() - 1)] = 0;
  kernel::print(line.data());
}
void print(std::uint64_t number, int base = 10) {
  std::array<char, 20> digits;
  print({digits.data(),
         static_cast<std::size_t>(std::to_chars(digits.begin(), digits.end(), number, base).ptr - digits.begin())});
}
[[noreturn]] void fail(const char* what) { Port::fatal(what); }

/// @returns the hart that the thread runs on at the moment; it may change at any time.
unsigned hart_just_now() { return Port::hart_index(); }

struct Message {
  std::atomic<unsigned> holders;  // 0 while no thread has it
  unsigned hart;
  unsigned bytes;
  unsigned char* payload;
  void* note;
};
qm::Cache* messages;
qm::Cache* notes;  // traced

constinit std::array<Message*, 16> box{};
constinit unsigned box_first = 0, box_last = 0;
constinit Semaphore room{16}, filled, box_turn{1};

std::array<Thread*, kSenders + kReceivers> threads;
constinit std::atomic<bool> all_started{false};
constinit std::atomic<unsigned> sent{0}, received{0}, from_elsewhere{0};

bool have_been_everywhere() {
  if (!all_started.load(std::memory_order_acquire)) return false;
  for (const Thread* thread : threads) {
    if (thread->harts.load(std::memory_order_relaxed) != kAllHarts) return false;
  }
  return true;
}

/// Allocates a message, and checks that no other thread has the same one, which a section without a restart could
/// cause.
Message* draw() {
  auto* const message = static_cast<Message*>(messages->allocate());
  if (message == nullptr) fail("no message");
  if (message->holders.fetch_add(1) != 0) fail("a message was handed out twice");
  message->hart = hart_just_now();
  return message;
}

void give_back(Message* message) {
  if (message->hart != hart_just_now()) from_elsewhere.fetch_add(1, std::memory_order_relaxed);
  if (message->holders.fetch_sub(1) != 1) fail("a message was given back twice");
  messages->free(message);
}

void put(Message* message) {
  room.wait();
  box_turn.wait();
  box[box_last++ % box.size()] = message;
  box_turn.signal();
  filled.signal();
}

Message* take() {
  filled.wait();
  box_turn.wait();
  Message* const message = box[box_first++ % box.size()];
  box_turn.signal();
  room.signal();
  return message;
}

[[gnu::noinline]] void* write_note() { return notes->allocate(); }

/// The body of the sending threads. The thread "radio" leaks some notes.
void send_messages(void* forgets) {
  for (unsigned number = 1; number <= kMessages || !have_been_everywhere(); ++number) {
    for (unsigned i = 0; i < 16; ++i) give_back(draw());
    Message* const message = draw();
    message->bytes = 16 + number % 200;
    message->payload = static_cast<unsigned char*>(qm::heap::allocate(message->bytes));
    message->note = write_note();
    if (message->payload == nullptr || message->note == nullptr) fail("no memory");
    for (unsigned i = 0; i < message->bytes; ++i) message->payload[i] = static_cast<unsigned char>(number + i);
    if (forgets != nullptr && number <= kMessages && number % kForgottenEvery == 0)
      message->note = nullptr;  // and the note?
    sent.fetch_add(1, std::memory_order_relaxed);
    put(message);
  }
}

void receive_messages(void*) {
  while (Message* const message = take()) {
    for (unsigned i = 1; i < message->bytes; ++i) {
      if (message->payload[i] != static_cast<unsigned char>(message->payload[0] + i)) fail("a payload has changed");
    }
    qm::heap::free(message->payload);
    notes->free(message->note);
    received.fetch_add(1, std::memory_order_relaxed);
    give_back(message);
  }
}

bool print_note(const qm_trace_record* record, void* harts) {
  *static_cast<qm::hal::HartMask*>(harts) |= 1u << record->hart;
  print("  note of hart "), print(record->hart), print(", "), print(record->context), print(", allocated at 0x");
  print(record->depth != 0 ? record->stack[0] - 1 : 0, 16);
  print("\n");
  return true;
}

bool heap_is_sound() {
  bool sound = true;
  qm::RegistryCursor<qm::Cache> caches;
  while (qm::Cache* cache = caches.next())
    sound = sound && cache->verify_hart_caches() == qm::Status::kOk && cache->validate();
  qm::RegistryCursor<qm::Arena> arenas;
  while (qm::Arena* arena = arenas.next()) sound = sound && arena->validate();
  return sound;
}

void report() {
  const kernel::Counts counts = kernel::counts();
  print("every thread has run on each of "), print(Port::kMaxHarts), print(" harts\n");
  print(counts.rewinds != 0 ? "sections were interrupted, and began again\n" : "no section was interrupted\n");
  print(from_elsewhere != 0 ? "messages were freed on other harts than they were allocated on\n"
                            : "no thread has moved\n");
  print("notes that are out:\n");
  qm_trace_summary summary;
  qm::hal::HartMask harts = 0;
  qm_trace_foreach("note", print_note, &harts, &summary);
  print(summary.complete ? "the trace is complete, " : "the trace is not complete, ");
  print(heap_is_sound() && messages->stats().in_use == 0 ? "the heap is sound\n" : "the heap is not sound\n");
  print("("), print(counts.switches), print(" switches, "), print(counts.moves), print(" moves, "),
      print(counts.rewinds);
  print(" sections begun again, "), print(sent), print(" messages, "), print(from_elsewhere),
      print(" given back elsewhere)\n");
}

void run_all(void*) {
  if (qm_trace_start("note") != QM_OK) fail("no trace");
  constexpr const char* kLabels[] = {"thread sensor", "thread motor", "thread radio",
                                     "thread log",    "thread store", "thread uplink"};
  static constinit bool forgets = true;
  for (unsigned i = 0; i < threads.size(); ++i) {
    threads[i] = kernel::start(kLabels[i], i < kSenders ? send_messages : receive_messages,
                               i == kForgetful ? &forgets : nullptr);
    if (threads[i] == nullptr) fail("no thread");
  }
  all_started.store(true, std::memory_order_release);
  for (unsigned i = 0; i < kSenders; ++i) threads[i]->ended.wait();
  for (unsigned i = 0; i < kReceivers; ++i) put(nullptr);
  for (unsigned i = kSenders; i < threads.size(); ++i) threads[i]->ended.wait();
  if (sent != received || sent < kSenders * kMessages || !have_been_everywhere()) fail("messages are missing");
  for (Thread* thread : threads) kernel::release(thread);
  report();
  kernel::finish(0);
}

constinit std::atomic<bool> allocator_is_up{false};

/// @returns the word behind the heap, into which QEMU's -device loader writes a seed.
std::uint32_t seed() { return *reinterpret_cast<volatile std::uint32_t*>(__heap_end); }

void start_allocator() {
  const qm::MemoryRange memory[] = {
      {reinterpret_cast<std::uintptr_t>(__heap_start), static_cast<std::size_t>(__heap_end - __heap_start)}};
  const auto open_trace = []() noexcept { qm_trace_init(nullptr); };
  if (qm::initialize(memory, Port::kMaxHarts, open_trace) != qm::Status::kOk) fail("no allocator");
  qm::attach_hart(0);
  const auto unheld = [](void* object, void*) noexcept {
    static_cast<Message*>(object)->holders = 0;
    return true;
  };
  messages = qm::Cache::create({.name = "message", .object_size = sizeof(Message), .constructor = unheld});
  notes = qm::Cache::create({.name = "note", .object_size = 48});
  if (messages == nullptr || notes == nullptr || kernel::start("thread main", run_all, nullptr) == nullptr)
    fail("no memory");
}

}  // namespace

/// The entry of each hart, on its boot stack.
extern "C" [[noreturn]] void hart_start(unsigned hart) {
  kernel::open_hart(seed());
  if (hart == 0) {
    start_allocator();
    allocator_is_up.store(true, std::memory_order_release);
    for (unsigned other = 1; other < Port::kMaxHarts; ++other) Port::send_ipi(other);
  } else {
    while (!allocator_is_up.load(std::memory_order_acquire)) Port::wait_for_interrupt();
    qm::attach_hart(hart);
  }
  kernel::run_threads();
}
