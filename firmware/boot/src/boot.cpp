/// The boot sequence of every hart.

#include <qm/firmware/boot.hpp>

#include <algorithm>

#include <qm/hal/chip/board.hpp>
#include <qm/hal/chip/finisher.hpp>
#include <qm/hal/chip/htif.hpp>
#include <qm/hal/chip/mmio.hpp>

#include "hart_state.hpp"

namespace qm::firmware {

std::array<HartState, hal::Port::kMaxHarts> hart_states;

namespace {

constinit hal::Board board;
constinit hal::MemoryMap free_memory;
constinit BootInfo info;
constinit std::array<unsigned, hal::Port::kMaxHarts> plic_contexts{};
constinit HartStart hart_start = nullptr;
constexpr std::size_t kMaxTreeBytes = 2 << 20;
constexpr std::uint32_t kStartMs = 5000;

extern "C" {
using Constructor = void (*)();
extern const Constructor __init_array_start[], __init_array_end[];
}

/// Reads the device tree, and checks that the board has everything that it must have.
hal::MemoryRange read_tree(const void* blob) noexcept {
  const std::size_t bytes = hal::Fdt::declared_bytes(blob);
  if (bytes == 0 || bytes > kMaxTreeBytes) panic("no device tree");
  const auto tree = hal::Fdt::open({static_cast<const std::byte*>(blob), bytes});
  if (!tree || !hal::discover(*tree, board, QM_EXTERNAL_INTERRUPT)) panic("broken device tree");
  if (board.memory.ranges().empty() || board.timebase_hz == 0) panic("device tree without memory or timebase");
  if (board.reserved_left_out != 0) panic("device tree with more reserved memory than is kept in mind");
  const auto start = reinterpret_cast<std::uintptr_t>(blob);
  return {start, start + bytes};
}

/// Hart index 0 is the boot hart; the others follow in ascending hart id.
void number_harts(std::uintptr_t boot_id) noexcept {
  const auto begin = board.harts.begin(), end = begin + static_cast<std::ptrdiff_t>(board.hart_count);
  std::sort(begin, end, [boot_id](const hal::Board::Hart& a, const hal::Board::Hart& b) {
    return a.id == boot_id || b.id == boot_id ? a.id == boot_id && b.id != boot_id : a.id < b.id;
  });
  if (board.hart_count == 0 || board.harts[0].id != boot_id) panic("the boot hart is not in the device tree");
  const std::size_t count = std::min<std::size_t>(board.hart_count, hal::Port::kMaxHarts);
  for (std::size_t i = 0; i < count; ++i) {
    hal::port_state.hart_ids[i] = static_cast<std::uintptr_t>(board.harts[i].id);
    plic_contexts[i] = board.harts[i].plic_context;
  }
  info.hart_count = static_cast<unsigned>(count);
  info.harts_left_out = static_cast<unsigned>(board.hart_count - count + board.harts_left_out);
}

/// @returns the image's end. It is stored in the symbol table's section, so that no code depends on the table's size.
std::uintptr_t image_end() noexcept { return __qm_symbols_start[0]; }

void map_memory(hal::MemoryRange tree) noexcept {
  constexpr std::size_t kPage = 4096;
  free_memory = board.memory;
  for (const hal::MemoryRange& range : board.reserved.ranges()) free_memory.remove(range);
  free_memory.remove({reinterpret_cast<std::uintptr_t>(__image_start), image_end()});
  free_memory.remove(tree);
  free_memory.trim(kPage);
  info.memory = free_memory.ranges();
  info.ram_bytes = board.memory.bytes();
}

/// The note is { name size 4, id size, type 3, "GNU\0", id }.
std::span<const std::uint8_t> find_build_id() noexcept {
  const std::span note(__build_id_note_start, __build_id_note_end);
  if (note.size() < 4 || note[0] != 4 || note[1] > note.size_bytes() - 16) return {};
  return {reinterpret_cast<const std::uint8_t*>(note.data() + 4), note[1]};
}

/// Sets the stack bounds, the trap vector and the current task of a hart. Interrupts stay masked.
void set_up_hart(unsigned index) noexcept {
  hal::port_hart_index = index;
  HartState& hart = hart_states[index];
  const auto stacks = reinterpret_cast<std::uintptr_t>(__hart_stacks) + index * QM_HART_STACKS_BYTES;
  hart.boot_stack = {stacks, stacks + QM_BOOT_STACK_BYTES};
  hart.trap_stack = {stacks + QM_BOOT_STACK_BYTES, stacks + QM_HART_STACKS_BYTES};
  paint_guard(hart.boot_stack);
  paint_guard(hart.trap_stack);
  hart.idle.stack = hart.boot_stack;
  std::copy_n("idle", 4, hart.idle.name.data());
  hart.current = &hart.idle;
  hal::port_context_key = kBootKey;
  QM_CSR_WRITE(QM_XSCRATCH, hart.trap_stack.high);
  QM_CSR_WRITE(QM_XTVEC, reinterpret_cast<std::uintptr_t>(&qm_trap_entry));
}

void let_interrupts_in() noexcept {
  QM_CSR_WRITE(QM_XIE, 1u << QM_SOFTWARE_INTERRUPT | 1u << QM_TIMER_INTERRUPT | 1u << QM_EXTERNAL_INTERRUPT);
  QM_CSR_SET(QM_XSTATUS, QM_XSTATUS_IE);
}

/// Starts the other harts, and waits until all are online or kStartMs have passed.
void start_harts() noexcept {
  const hal::HartMask wanted = (hal::HartMask{2} << (info.hart_count - 1)) - 1;  // without overflow for 32 harts
  for (unsigned index = 0; index < info.hart_count; ++index) qm_start_ids[index] = hal::port_state.hart_ids[index];
  __atomic_store_n(&qm_start_ids_ready, 1, __ATOMIC_RELEASE);  // pairs with the fence in start.S
  for (unsigned index = 1; index < info.hart_count; ++index) {
    hal::privilege::start_hart(hal::port_state.hart_ids[index], reinterpret_cast<std::uintptr_t>(&_start));
  }
  const std::uint64_t end = hal::Port::ticks() + hal::ticks_of(kStartMs);
  for (;;) {
    const hal::InterruptGuard masked;
    if ((hal::online_harts() & wanted) == wanted || hal::Port::ticks() > end) return;
    hal::Port::wait_for_interrupt();  // ends with the new hart's IPI or a tick
  }
}

/// Ends an emulator with semihosting, on a board without a finisher. Returns if there is no semihosting: the breakpoint
/// then traps to the code behind it.
void end_by_semihosting(unsigned status) noexcept {
  constexpr std::uintptr_t kExitExtended = 0x20, kApplicationExit = 0x20026;
  const std::uintptr_t reason[] = {kApplicationExit, status & 0xff};
  hal::Port::mask_interrupts();
  register std::uintptr_t call asm("a0") = kExitExtended;
  register const std::uintptr_t* argument asm("a1") = reason;
  asm volatile(
      ".option push\n\t.option norvc\n\t"
      "lla t0, 1f\n\t"
      "csrrw t0, " QM_CSR_TEXT(QM_XTVEC) ", t0\n\t"
      "j 2f\n\t"
      ".balign 16\n"
      "2:\tslli x0, x0, 0x1f\n\tebreak\n\tsrai x0, x0, 7\n\t"  // the call, which must not cross a page
      ".balign 4\n"
      "1:\tcsrw " QM_CSR_TEXT(QM_XTVEC) ", t0\n\t"
      ".option pop"
      : "+r"(call)
      : "r"(argument)
      : "t0", "memory");
}

void main_task(void*) {
  main(info);
  exit(0);
}

}  // namespace

[[gnu::weak]] void early_main(const BootInfo&) {}
[[gnu::weak]] void hart_main(unsigned hart) {
  if (hart_start != nullptr) hart_start(hart);
}

void set_hart_start(HartStart start) noexcept { hart_start = start; }

const BootInfo& boot_info() noexcept { return info; }

extern "C" [[noreturn]] void qm_boot(std::uintptr_t hart_id, const void* blob) {
  set_up_hart(0);
  const hal::MemoryRange tree = read_tree(blob);
  number_harts(hart_id);
  map_memory(tree);
  hal::port_state.tick_rate = info.timebase_hz = board.timebase_hz;
  info.bootargs = board.bootargs;
  read_slices(info.bootargs);
  info.build_id = find_build_id();
  for (const Constructor* constructor = __init_array_start; constructor != __init_array_end; ++constructor)
    (*constructor)();
  open_plic(board.plic.base, plic_contexts[0]);
  start_console(board);
  hal::hart_online(0);
  early_main(info);
  start_ticks();
  let_interrupts_in();
  start_harts();
  spawn(0, "main", main_task, nullptr);
  run_tasks();
}

extern "C" [[noreturn]] void qm_hart_boot(unsigned index) {
  set_up_hart(index);
  open_plic(board.plic.base, plic_contexts[index]);
  hal::hart_online(index);
  hart_main(index);
  start_ticks();
  let_interrupts_in();
  hal::Port::send_ipi(0);  // ends hart 0's wait in start_harts()
  run_tasks();
}

void end_board(unsigned status) noexcept {
  console_flush();
  if (board.finisher.base != 0) {
    hal::Finisher(hal::Mmio<std::uint32_t>(board.finisher.base)).exit(status);
  }
  if (board.htif.base != 0) {
    hal::Htif(hal::Mmio<std::uint32_t>(board.htif.base)).exit(status);
  }
  end_by_semihosting(status);
  hal::privilege::shut_down();
}

void exit(unsigned status) noexcept {
  end_board(status);
  panic("this board cannot be switched off");
}

void reboot() noexcept {
  console_flush();
  if (board.htif.base == 0) hal::privilege::restart();  // with an HTIF the SBI asks for a reset that never happens
  panic("this board cannot be restarted");
}

}  // namespace qm::firmware
