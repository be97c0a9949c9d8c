#include <qm/hal/port.hpp>
#include <qm/hal/broadcast.hpp>

#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace qm::hal {
namespace {

std::array<std::mutex, Port::kMaxHarts> hart_mutex;
thread_local unsigned hart = 0;
thread_local bool masked = false;
thread_local bool owns_hart = false;
thread_local bool is_counted = false;  // counted among the threads that share a hart
std::array<std::atomic<bool>, Port::kMaxHarts> taken{};
std::atomic<std::uint32_t> sharing{0};
std::atomic<HartMask> pending{0};  // harts with an undelivered IPI
FatalHandler fatal_handler = nullptr;

/// The thread that loads the library is hart 0.
[[gnu::constructor]] void begin() noexcept {
  taken[0].store(true, std::memory_order_relaxed);
  owns_hart = true;
}

/// Serves the box of every hart that has an IPI pending and does not mask interrupts. A thread that masks a hart calls
/// this after it has unmasked it, which makes up for an attempt that fails here. The caller masks nothing.
void deliver_ipis() noexcept {
  // seq_cst: the sender publishes an IPI before it tries the mutex; the mutex is released before this read.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (unsigned target = 0; pending.load(std::memory_order_seq_cst) != 0 && target < Port::kMaxHarts; ++target) {
    const HartMask bit = HartMask{1} << target;
    while ((pending.load(std::memory_order_seq_cst) & bit) != 0) {
      const std::unique_lock hold(hart_mutex[target], std::try_to_lock);
      if (!hold) break;
      if ((pending.fetch_and(~bit, std::memory_order_seq_cst) & bit) == 0) continue;
      // While this thread holds the target's mutex it stands for that hart, so locks taken below mask nothing further.
      const unsigned self = hart;
      hart = target;
      masked = true;
      shut_sections(target);
      on_ipi(target);
      open_sections(target);
      masked = false;
      hart = self;
    }
  }
}

}  // namespace

unsigned Port::hart_index() noexcept { return hart; }

Port::InterruptState Port::mask_interrupts() noexcept {
  if (masked) return InterruptState::kMasked;
  if (!owns_hart && !is_counted) [[unlikely]] {
    is_counted = true;
    sharing.fetch_add(1, std::memory_order_relaxed);
  }
  hart_mutex[hart].lock();
  masked = true;
  if (!has_claimed(hart)) shut_sections(hart);
  return InterruptState::kEnabled;
}

void Port::restore_interrupts(InterruptState state) noexcept {
  if (state == InterruptState::kMasked) return;
  masked = false;
  if (!has_claimed(hart)) open_sections(hart);
  hart_mutex[hart].unlock();
  deliver_ipis();
}

std::uint64_t Port::ticks() noexcept {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

void Port::send_ipi(unsigned target) noexcept {
  pending.fetch_or(HartMask{1} << target, std::memory_order_seq_cst);
  if (!masked) deliver_ipis();
}

void Port::hold_harts(std::uint32_t harts) noexcept {
  for (unsigned target = 0; target < kMaxHarts; ++target) {
    if ((harts >> target & 1) == 0) continue;
    hart_mutex[target].lock();
    shut_sections(target);
  }
}

void Port::let_go_harts(std::uint32_t harts) noexcept {
  for (unsigned target = 0; target < kMaxHarts; ++target) {
    if ((harts >> target & 1) == 0) continue;
    open_sections(target);
    hart_mutex[target].unlock();
  }
  deliver_ipis();
}

void Port::fatal(const char* reason) noexcept {
  if (fatal_handler != nullptr) fatal_handler(reason);
  std::fprintf(stderr, "fatal: %s\n", reason);
  std::abort();
}

namespace {

StackBounds thread_stack() noexcept {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* low = nullptr;
  std::size_t bytes = 0;
  pthread_attr_getstack(&attributes, &low, &bytes);
  pthread_attr_destroy(&attributes);
  return {reinterpret_cast<std::uintptr_t>(low), reinterpret_cast<std::uintptr_t>(low) + bytes};
}

}  // namespace

StackBounds Port::stack_bounds(std::uintptr_t frame) noexcept {
  static thread_local const StackBounds bounds = thread_stack();  // reading the first thread's bounds opens a file
  return frame >= bounds.low && frame < bounds.high ? bounds : StackBounds{};
}

std::size_t Port::context_label(std::span<char> label) noexcept {
  static constexpr char kText[] = "thread";
  const std::size_t length = label.size() < sizeof kText - 1 ? label.size() : sizeof kText - 1;
  std::memcpy(label.data(), kText, length);
  return length;
}

std::uint32_t Port::context_key() noexcept {
  static std::atomic<std::uint32_t> threads{0};
  static thread_local const std::uint32_t key = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return key;
}

void Port::wait_for_interrupt() noexcept { sched_yield(); }

void Port::relax() noexcept { sched_yield(); }

/// @returns @p index, if a hart has it.
static unsigned checked(unsigned index) noexcept {
  if (index >= Port::kMaxHarts) Port::fatal("HostHart: a hart has a number below QM_MAX_HARTS");
  return index;
}

HostHart::HostHart(unsigned index) noexcept
    : previous_(hart),
      was_online_((online_harts() >> checked(index) & 1) != 0),
      took_(!taken[index].exchange(true, std::memory_order_acq_rel)),
      own_(took_ || (owns_hart && hart == index)),
      previous_own_(owns_hart),
      claim_(index) {
  hart = index;
  owns_hart = own_;
  hart_online(index);
}

HostHart::~HostHart() {
  if (!was_online_) hart_offline(hart);
  if (took_) taken[hart].store(false, std::memory_order_release);
  hart = previous_;
  owns_hart = previous_own_;
}

std::uint32_t threads_without_hart() noexcept { return sharing.load(std::memory_order_relaxed); }

void set_fatal_handler(FatalHandler handler) noexcept { fatal_handler = handler; }

}  // namespace qm::hal
