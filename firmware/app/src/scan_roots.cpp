#include <qm/firmware/scan_roots.hpp>

#include <array>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/stacks.hpp>
#include <qm/scan.hpp>

// Symbols defined by linker/qemu_virt.ld.
extern "C" {
extern char __image_start[], __data_start[], __qm_trace_data_start[], __qm_trace_data_end[], __bss_start[],
    __qm_trace_bss_start[], __qm_trace_bss_end[], __bss_end[], __tls_blocks[], __hart_stacks[], __hart_stacks_end[],
    __qm_symbols_start[];
}

namespace qm::firmware {
namespace {

std::uintptr_t at(const char* name) noexcept { return reinterpret_cast<std::uintptr_t>(name); }

/// Names a range of the image without the panic shell's stack: its variables are the shell's own.
void visit_image(scan::Roots& roots, std::uintptr_t low, std::uintptr_t high) noexcept {
  const hal::StackBounds shell = panic_stack();
  if (shell.low < low || shell.high > high) return roots.range(low, high);
  roots.range(low, shell.low);
  roots.range(shell.high, high);
}

void visit_roots(scan::Roots& roots, std::uintptr_t sp) noexcept {
  visit_stacks(
      sp,
      [](const LiveStack& stack, void* argument) noexcept {
        static_cast<scan::Roots*>(argument)->stack(stack.whole, stack.sp);
      },
      &roots);
  roots.range(at(__data_start), at(__qm_trace_data_start));
  visit_image(roots, at(__qm_trace_data_end), at(__qm_trace_bss_start));
  visit_image(roots, at(__qm_trace_bss_end), at(__bss_end));
  roots.range(at(__tls_blocks), at(__hart_stacks));
  const hal::StackBounds pool = stack_pool_bounds();
  roots.range(at(__hart_stacks_end), pool.low);
  roots.range(pool.high, at(__qm_symbols_start));
}

}  // namespace

void name_scan_roots() noexcept {
  static std::array<MemoryRange, 1> image;
  image[0] = {at(__image_start), at(__qm_symbols_start) - at(__image_start)};
  static constinit const scan::Platform platform{.visit = visit_roots, .busy_hart = busy_hart, .memory = image};
  scan::set_platform(&platform);
}

}  // namespace qm::firmware
