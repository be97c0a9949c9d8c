#include "kernel.hpp"

#include <cstddef>
#include <new>

#include <qm/hal/broadcast.hpp>
#include <qm/heap.hpp>
#include <qm/detail/lock.hpp>
#include <qm/rewind.hpp>

using qm::hal::Context;
using qm::hal::HartMask;
using qm::hal::Port;

extern "C" {
/// The context that runs on this hart while it handles a trap.
constinit thread_local Context trap_context;
void trap_entry();
void thread_start();
extern char __boot_stacks[];
}

static_assert(offsetof(Context, pc) == 256 && offsetof(Context, status) == 264 && offsetof(Context, stack.high) == 280);
static_assert(Port::kMaxHarts == HARTS);

namespace kernel {
namespace {

constexpr std::size_t kStackBytes = 8192;
constexpr std::uintptr_t kCallCause = 11, kSoftware = 3, kTimer = 7;
constexpr std::uintptr_t kInterrupt = ~(~std::uintptr_t{0} >> 1);
constexpr std::uintptr_t kStatusAtStart = 3 << 11 | 1 << 7;  // M-mode, interrupts enabled by the mret
constexpr std::uint32_t kLeastSlice = 5, kSlices = 64;       // ticks of 100 ns

constexpr std::uint32_t kIdleSlice = 1000;

/// Guards the queues and the semaphores; the allocator's kind of lock, which masks interrupts and sleeps in `wfi`.
constinit qm::Lock lock;

struct Hart {
  Thread idle;
  std::uint32_t random = 1;
};
constinit Hart harts[Port::kMaxHarts];
alignas(16) std::byte trap_stacks[Port::kMaxHarts][kStackBytes];
constinit Queue ready;
constinit HartMask idle_harts = 0;  // under the lock
constinit std::atomic<std::uint32_t> keys{0}, switches{0}, moves{0}, rewinds{0};

HartMask bit(unsigned hart) noexcept { return HartMask{1} << hart; }

/// Sets the next timer interrupt of this hart, in ticks from now.
void set_timer(std::uint64_t distance) noexcept {
  reinterpret_cast<volatile std::uint64_t*>(0x2004000)[Port::hart_index()] = Port::ticks() + distance;  // mtimecmp
}

void begin_slice(Hart& hart) noexcept {
  std::uint32_t random = hart.random;
  random ^= random << 13;
  random ^= random >> 17;
  random ^= random << 5;
  hart.random = random;
  set_timer(kLeastSlice + (random >> 8) % kSlices);
}

/// Puts a thread into the ready queue, from which any hart may take it.
void make_ready_locked(Thread& thread) noexcept {
  ready.push(thread);
  if (idle_harts == 0) return;
  const auto hart = static_cast<unsigned>(__builtin_ctz(idle_harts));
  idle_harts &= ~bit(hart);
  if (hart != Port::hart_index()) Port::send_ipi(hart);
}

Thread& next_locked(unsigned hart) noexcept {
  Thread* next = ready.pop();
  if (next == nullptr) {
    next = &harts[hart].idle;
    idle_harts |= bit(hart);
  } else {
    idle_harts &= ~bit(hart);
  }
  return *next;
}

/// @returns the thread that the hart runs next: the one that has been ready longest.
Thread& preempt(Thread& from, unsigned hart) noexcept {
  const qm::LockGuard hold(lock);
  if (!from.idles) ready.push(from);
  return next_locked(hart);
}

/// Serves a call of wait() or thread_end(). The thread's registers have been saved, so another hart can continue it.
Thread& serve_call(Thread& from, unsigned hart) noexcept {
  from.pc += 4;
  auto* const semaphore = reinterpret_cast<Semaphore*>(from.x[10]);
  if (semaphore == nullptr) {  // the end
    from.ended.signal();
    const qm::LockGuard hold(lock);
    return next_locked(hart);
  }
  const qm::LockGuard hold(lock);
  if (semaphore->try_wait_locked()) return from;
  semaphore->waiting_locked().push(from);
  return next_locked(hart);
}

Thread& serve_interrupt(Thread& from, std::uintptr_t cause, unsigned hart) noexcept {
  const std::uintptr_t pc = qm_rewind(from.pc, from.x.data());
  if (pc != from.pc) rewinds.fetch_add(1, std::memory_order_relaxed);
  from.pc = pc;
  if (cause == kSoftware) {
    reinterpret_cast<volatile std::uint32_t*>(0x2000000)[hart] = 0;  // clears msip before the requests are read
    asm volatile("fence o, rw" : : : "memory");
    qm::hal::on_ipi(hart);
    return from.idles ? preempt(from, hart) : from;
  }
  if (cause != kTimer) Port::fatal("an interrupt of unknown cause");
  return preempt(from, hart);
}

/// Waits for @p semaphore; nullptr: ends the thread.
void call(Semaphore* semaphore) noexcept {
  register Semaphore* a0 asm("a0") = semaphore;
  asm volatile("ecall" : : "r"(a0) : "memory");
}

}  // namespace

// The trap entry has saved the interrupted context in @p ran. It continues with the returned context.
extern "C" Context* kernel_trap(Context* ran, std::uintptr_t cause) noexcept {
  if (ran == &trap_context) Port::fatal("an exception in the kernel");
  if (ran->x[2] <= ran->stack.low) Port::fatal("stack overflow");
  const unsigned hart = Port::hart_index();
  auto& from = static_cast<Thread&>(*ran);
  ++qm::hal::hart_local().trap_depth;
  Thread* next = nullptr;
  if ((cause & kInterrupt) != 0) next = &serve_interrupt(from, cause & ~kInterrupt, hart);
  else if (cause == kCallCause) next = &serve_call(from, hart);
  else Port::fatal("an exception");
  --qm::hal::hart_local().trap_depth;
  if (next != &from) switches.fetch_add(1, std::memory_order_relaxed);
  if (next->idles) set_timer(kIdleSlice);
  else if (next != &from || cause == (kInterrupt | kTimer)) begin_slice(harts[hart]);
  if (next->last_hart != hart) moves.fetch_add(1, std::memory_order_relaxed);
  next->last_hart = hart;
  next->harts.store(next->harts.load(std::memory_order_relaxed) | bit(hart), std::memory_order_relaxed);
  return next;
}

extern "C" [[noreturn]] void thread_end() noexcept {
  call(nullptr);
  __builtin_unreachable();
}

void Queue::push(Thread& thread) noexcept {
  thread.next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = &thread;
  last_ = &thread;
}

Thread* Queue::pop() noexcept {
  Thread* thread = first_;
  if (thread != nullptr) first_ = thread->next;
  return thread;
}

void Semaphore::wait() noexcept { call(this); }

void Semaphore::signal() noexcept {
  const qm::LockGuard hold(lock);
  if (Thread* thread = waiting_.pop(); thread != nullptr) make_ready_locked(*thread);
  else ++count_;
}

Thread* start(const char* label, void (*entry)(void*), void* argument) noexcept {
  void* const place = qm::heap::allocate(sizeof(Thread));
  auto* const stack = static_cast<std::byte*>(qm::heap::allocate_aligned(16, kStackBytes));
  if (place == nullptr || stack == nullptr) return nullptr;
  auto* const thread = new (place) Thread;
  thread->stack = {reinterpret_cast<std::uintptr_t>(stack), reinterpret_cast<std::uintptr_t>(stack) + kStackBytes};
  thread->label = label;
  thread->key = keys.fetch_add(1, std::memory_order_relaxed) + 1;
  thread->pc = reinterpret_cast<std::uintptr_t>(&thread_start);
  thread->status = kStatusAtStart;
  thread->x[2] = thread->stack.high;
  thread->x[9] = reinterpret_cast<std::uintptr_t>(entry);
  thread->x[10] = reinterpret_cast<std::uintptr_t>(argument);
  const qm::LockGuard hold(lock);
  make_ready_locked(*thread);
  return thread;
}

void release(Thread* thread) noexcept {
  qm::heap::free(reinterpret_cast<void*>(thread->stack.low));
  qm::heap::free(thread);
}

Counts counts() noexcept { return {switches.load(), moves.load(), rewinds.load()}; }

void open_hart(std::uint32_t seed) noexcept {
  const unsigned index = Port::hart_index();
  Hart& hart = harts[index];
  hart.random = (seed * 64 + index + 1) * 0x9e3779b9U | 1;  // never 0, as the generator would stay 0
  hart.idle.idles = true;
  hart.idle.label = "idle";
  hart.idle.key = keys.fetch_add(1, std::memory_order_relaxed) + 1;
  const auto boot_stack = reinterpret_cast<std::uintptr_t>(__boot_stacks) + index * BOOT_STACK_BYTES;
  hart.idle.stack = {boot_stack, boot_stack + BOOT_STACK_BYTES};
  const auto trap_stack = reinterpret_cast<std::uintptr_t>(trap_stacks[index]);
  trap_context.label = "trap";
  trap_context.stack = {trap_stack, trap_stack + kStackBytes};
  asm volatile("csrw mscratch, %0" : : "r"(static_cast<Context*>(&hart.idle)));
  asm volatile("csrw mtvec, %0" : : "r"(&trap_entry));
  asm volatile("csrw mie, %0" : : "r"(1 << kSoftware | 1 << kTimer));
}

void run_threads() noexcept {
  begin_slice(harts[Port::hart_index()]);  // the timer interrupt then takes a thread from the queue
  asm volatile("csrsi mstatus, 8");
  for (;;) Port::wait_for_interrupt();
}

void print(const char* text) noexcept {
  volatile auto* const uart = reinterpret_cast<volatile unsigned char*>(0x10000000);
  for (; *text != 0; ++text) {
    while ((uart[5] & 0x20) == 0) {
    }
    uart[0] = static_cast<unsigned char>(*text);
  }
}

void finish(unsigned status) noexcept {
  *reinterpret_cast<volatile std::uint32_t*>(0x100000) = status == 0 ? 0x5555 : status << 16 | 0x3333;
  for (;;) Port::wait_for_interrupt();
}

}  // namespace kernel

void qm::hal::kernel_fatal(const char* reason) noexcept {
  Port::mask_interrupts();
  kernel::print("fatal: ");
  kernel::print(reason);
  kernel::print(", in ");
  kernel::print(Port::running().label);
  kernel::print("\n");
  kernel::finish(1);
}
