/// The leak scan: its roots, its memory, and the pause of the harts.

#include <qm/scan.hpp>

#include <algorithm>
#include <atomic>
#include <new>

#include <qm/arena.hpp>
#include <qm/detail/bits.hpp>
#include <qm/guards.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/detail/lock.hpp>
#include <qm/detail/page_map.hpp>

#include "heap/c_status.hpp"
#include "scan/scan_defect.hpp"
#include "scan/scanner.hpp"

namespace qm {
namespace scan {
namespace {

constinit Lock lock;  // guards the roots; a leaf
constinit qm_scan_root* roots = nullptr;
constinit std::atomic<const Platform*> the_platform{nullptr};
constinit MemoryRange given{};
constinit std::atomic<std::uint32_t> taken{0};  // a scan uses the scanner
constinit MemoryRange drawn{};                  // its memory, allocated from base
constinit Scanner the_scanner;

/// Whether, in a panic, no hart can be in the middle of a change of the allocator's data.
/// @param[out] hart one that may be.
bool all_halted(unsigned& hart) noexcept {
  const auto busy_hart = platform()->busy_hart;
  hart = busy_hart != nullptr ? busy_hart() : hal::BroadcastResult::kNobody;
  if (hart != hal::BroadcastResult::kNobody) return false;
  hart = hal::Port::hart_index();
  return hal::hart_local().lock_depth == 0;
}

/// Memory that a scan works in during a panic, when nothing can be allocated.
MemoryRange memory_in_panic(Scanner& scanner) noexcept {
  if (drawn.size != 0) return drawn;  // of a scan that the panic has ended; its results must not become roots
  return given.size != 0 ? given : scanner.find_free();
}

/// Memory of at least @p least bytes, better @p wanted, allocated from base_arena(). {0, 0}: there is none.
MemoryRange allocate_memory(std::size_t wanted, std::size_t least) noexcept {
  MemoryRange work{0, round_up(wanted, PageMap::kPageBytes)};
  for (; work.size >= least; work.size = round_down(work.size / 2, PageMap::kPageBytes)) {
    work.start = base_arena().allocate(work.size, Fit::kInstant, nullptr, WaitPolicy::kQuiet);
    if (work.start != 0) return drawn = work;
  }
  return {};
}

bool is_range(std::uintptr_t start, std::size_t bytes) noexcept {
  return start != 0 && bytes != 0 && start + bytes - 1 >= start;
}

}  // namespace

const qm_scan_root* first_root() noexcept { return roots; }
const Platform* platform() noexcept { return the_platform.load(std::memory_order_acquire); }

void set_platform(const Platform* platform) noexcept { the_platform.store(platform, std::memory_order_release); }

Status set_memory(const MemoryRange& memory) noexcept {
  if (memory.size != 0 && !is_range(memory.start, memory.size)) return Status::kInvalid;
  const LockGuard hold(lock);
  given = memory;
  return Status::kOk;
}

Status add_root(qm_scan_root& root) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(root.start);
  if (!is_range(start, root.bytes) || !Scanner::is_memory(start, root.bytes)) return Status::kInvalid;
  const LockGuard hold(lock);
  for (const qm_scan_root* one = roots; one != nullptr; one = one->next) {
    if (one == &root) return Status::kBusy;
  }
  root.next = roots;
  roots = &root;
  return Status::kOk;
}

Status remove_root(qm_scan_root& root) noexcept {
  const LockGuard hold(lock);
  for (qm_scan_root** link = &roots; *link != nullptr; link = &(*link)->next) {
    if (*link != &root) continue;
    *link = root.next;
    root.next = nullptr;
    return Status::kOk;
  }
  return Status::kNotFound;
}

bool Scanner::is_memory(std::uintptr_t start, std::size_t bytes) noexcept {
  const auto has = [=](std::uintptr_t low, std::size_t size) noexcept {
    return start - low < size && bytes <= size - (start - low);
  };
  for (unsigned number = 0; number < page_map.region_count(); ++number) {
    const PageMap::Region region = ObjectMap::region(number);
    if (region.has(start)) return has(region.low, region.bytes);
  }
  const Platform* const known = platform();
  if (known == nullptr || known->memory.empty()) return start != 0;
  for (const MemoryRange& range : known->memory) {
    if (has(range.start, range.size)) return true;
  }
  return false;
}

Scanner& Scanner::the() noexcept { return the_scanner; }

std::size_t Scanner::fixed_bytes() noexcept {
  return LeakScan::kMostGroups * sizeof(LeakGroup) + alignof(Page) + ObjectMap::table_bytes();
}

void Scanner::begin(std::uintptr_t start, std::size_t bytes) noexcept {
  work_low_ = start;
  work_high_ = start + bytes;
  summary.work_bytes = bytes;
  groups_ = reinterpret_cast<LeakGroup*>(round_up(start, alignof(LeakGroup)));
  map_start_ = round_up(reinterpret_cast<std::uintptr_t>(groups_ + LeakScan::kMostGroups), alignof(Page));
  map_.begin(map_start_, work_high_ - map_start_);
}

bool Scanner::begin_with(std::size_t bytes) noexcept {
  if (drawn.size == 0) return false;
  forget();
  static_cast<void>(base_arena().free(drawn.start, drawn.size));
  drawn = {};
  const MemoryRange work = allocate_memory(bytes, bytes);
  if (work.size == 0) return false;
  begin(work.start, work.size);
  return true;
}

void Scanner::forget() noexcept {
  for (std::size_t i = 0; i < group_count_; ++i) groups_[i] = {};
  group_count_ = 0;
  if (saved_ == nullptr) return;
  auto* const candidates = reinterpret_cast<std::uintptr_t*>(map_start_);
  std::fill(saved_, candidates + candidates_, 0);
}

void Scanner::note_hardware(unsigned hart) noexcept {
  if (scan_defect == ScanDefect::kNoHardware) return;
  hardware_words_[hart] = static_cast<std::uint8_t>(hal::Port::hardware_roots(hardware_[hart]));
}

}  // namespace scan

using scan::Scanner;

LeakScan::~LeakScan() {
  if (!is_mine_) return;
  if (scan::drawn.size != 0 && !hal::in_panic()) {
    scan::the_scanner.forget();
    static_cast<void>(base_arena().free(scan::drawn.start, scan::drawn.size));
    scan::drawn = {};
  }
  scan::taken.store(0, std::memory_order_release);  // pairs with the acquire in run()
}

const LeakSummary& LeakScan::summary() const noexcept {
  static constinit const LeakSummary none{};
  return is_mine_ ? scan::the_scanner.summary : none;
}

std::span<const LeakGroup> LeakScan::groups() const noexcept {
  return is_mine_ ? scan::the_scanner.groups() : std::span<const LeakGroup>{};
}

Status LeakScan::begin(std::size_t (*more)(std::size_t pages) noexcept) noexcept {
  if (scan::platform() == nullptr || hart_count() == 0) return Status::kRefused;
  const bool in_panic = hal::in_panic();
  if (!in_panic && !hal::may_ask_harts()) return Status::kUnsafe;
  // In a panic a scan that has not ended never will.
  if (is_mine_ || (scan::taken.exchange(1, std::memory_order_acquire) != 0 && !in_panic)) return Status::kBusy;
  is_mine_ = true;
  Scanner& scanner = *new (&scan::the_scanner) Scanner;
  if (in_panic && !scan::all_halted(scanner.summary.hart)) return Status::kUnsafe;
  // As many Pages as there are pages in use, if each has the start of an object; and some more for changes until the
  // pause.
  const ArenaStats stats = base_arena().stats();
  const std::size_t page_count = (stats.allocated - stats.in_extents) / PageMap::kPageBytes + kMostGroups;
  const std::size_t fixed = Scanner::fixed_bytes() + (more != nullptr ? more(page_count) : 0);
  scanner.summary.wanted_bytes = fixed + page_count * sizeof(scan::Page);
  MemoryRange work = scan::given;
  if (in_panic) {
    work = scan::memory_in_panic(scanner);
    if (scanner.summary.damaged != nullptr) return Status::kMismatch;
  } else if (work.size == 0) {
    work = scan::allocate_memory(scanner.summary.wanted_bytes, fixed);
  }
  if (work.size < fixed) return Status::kNoMemory;
  scanner.begin(work.start, work.size);
  scanner.summary.wanted_bytes = 0;
  return Status::kOk;
}

Status LeakScan::run() noexcept {
  if (const Status status = begin(nullptr); status != Status::kOk) return status;
  const bool in_panic = hal::in_panic();
  Scanner& scanner = scan::the_scanner;
  struct Work {
    Scanner& scanner;
    std::uintptr_t registers[16];
    std::uintptr_t sp;
    Status status;
  } here{scanner, {}, 0, Status::kOk};
  here.sp = scan::spill_registers(here.registers);
  // The scan reads the pool of guarded objects, too.
  static constexpr auto kRun = [](Scanner& one, std::uintptr_t sp) noexcept {
    const guards::internal::Calls* const guards = guards::internal::linked();
    if (guards != nullptr) guards->set_armed(false);
    const Status status = one.run(sp);
    if (guards != nullptr) guards->set_armed(true);
    return status;
  };
  if (in_panic) {
    scanner.note_hardware(hal::Port::hart_index());
    return kRun(scanner, here.sp);
  }
  const hal::BroadcastResult answer = hal::run_while_still(
      [](unsigned hart, void* argument) noexcept { static_cast<Work*>(argument)->scanner.note_hardware(hart); },
      [](void* argument) noexcept {
        Work& of = *static_cast<Work*>(argument);
        of.status = kRun(of.scanner, of.sp);
      },
      &here);
  if (!answer.ok()) {
    scanner.summary.hart = answer.hart;
    return status_of(answer.status);
  }
  return here.status;
}

}  // namespace qm

extern "C" {

int qm_scan_add_root(qm_scan_root* root) {
  if (root == nullptr) return qm::c_status_of(qm::Status::kInvalid);
  return qm::c_status_of(qm::scan::add_root(*root));
}

int qm_scan_remove_root(qm_scan_root* root) {
  if (root == nullptr) return qm::c_status_of(qm::Status::kNotFound);
  return qm::c_status_of(qm::scan::remove_root(*root));
}
}
