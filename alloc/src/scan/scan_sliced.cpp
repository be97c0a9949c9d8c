/// The sliced leak scan, which runs beside the harts.
///
///     candidates = all live objects
///     repeat
///       stop the harts: note the roots' ranges, copy the registers
///       a pass: find what is live, mark what the roots and the allocator lead to
///       drop the candidates that were reached or are not live
///     until 16 passes in a row have dropped none
///
/// A leaked object stays unreached: no hart can get its address. A pass misses an object in use only if each time it
/// reads a place, the one pointer to the object is in another place. Code that moves a pointer all the time can hide it
/// from a pass with a probability of less than one half, whichever way it moves it: for n places, each as likely as the
/// others, it is (1 - 1/n)^n, at most 0.37. It would have to hide it from all passes.
///
/// In a pass after the first, what the roots do not lead to and what is no candidate came or moved meanwhile. It counts
/// as in use, but is not read: it may be an idle object with old contents.
///
/// Memory of the scan:
///
///     | groups | registers | candidates, sorted | roots | map of the pass |
///
/// Source: Linux' kmemleak, which scans beside running code too, and waits for objects whose contents change no more.

#include <algorithm>

#include <qm/detail/bits.hpp>
#include <qm/guards.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/hal/hart.hpp>
#include <qm/scan.hpp>

#include "heap/c_status.hpp"
#include "scan/scan_defect.hpp"
#include "scan/scanner.hpp"

namespace qm::scan {

struct Scanner::NotedRoot {
  std::uintptr_t low;    ///< of the range; or the value of a register
  std::uintptr_t high;   ///< 0: a register
  std::uintptr_t stack;  ///< the start of the whole stack, 0: no stack
};

/// Notes roots instead of reading them.
class Scanner::RootNotes final : public Roots {
 public:
  RootNotes(NotedRoot* first, const NotedRoot* end) noexcept : next_(first), end_(end) {}
  void range(std::uintptr_t low, std::uintptr_t high) noexcept override { note({low, high, 0}); }
  void word(std::uintptr_t value) noexcept override { note({value, 0, 0}); }
  void stack(const hal::StackBounds& whole, std::uintptr_t sp) noexcept override {
    note({sp >= whole.low && sp < whole.high ? sp : whole.high, whole.high, whole.low});
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

 private:
  void note(const NotedRoot& root) noexcept {
    ++count_;
    if (next_ != end_) *next_++ = root;
  }
  NotedRoot* next_;
  const NotedRoot* end_;
  std::size_t count_ = 0;
};

namespace {

/// Copies words that may change meanwhile.
QM_UNSANITIZED void copy_words(std::uintptr_t* to, std::uintptr_t from, std::size_t count) noexcept {
  const auto* const words = reinterpret_cast<const AnyWord*>(from);
  for (std::size_t at = 0; at < count; ++at) to[at] = *const_cast<const volatile AnyWord*>(words + at);
}

}  // namespace

std::size_t Scanner::sliced_bytes(std::size_t pages) noexcept {
  constexpr std::size_t kCandidates = 8;  // of a page, as they may be after the first pass
  constexpr std::size_t kRoots = 64;
  return sizeof(std::uintptr_t) * (hal::Port::kMaxHarts * kRegisterWords + pages * kCandidates) +
         kRoots * sizeof(NotedRoot);
}

void Scanner::begin_sliced() noexcept {
  is_sliced_ = true;
  has_candidates_ = false;
  quiet_ = 0;
  candidates_ = lacking_ = 0;
  saved_ = reinterpret_cast<std::uintptr_t*>(map_start_);  // aligned as a Page
  map_start_ += sizeof(std::uintptr_t) * hal::Port::kMaxHarts * kRegisterWords;
}

/// The interrupted context's registers lie in a frame of this stack. They are copied, because the frame is overwritten
/// as soon as the hart goes on.
void Scanner::note_registers(unsigned hart) noexcept {
  if (scan_defect == ScanDefect::kNoRegisters) return;
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const std::uintptr_t high = hal::Port::stack_bounds(frame).high;
  const std::size_t words = high > frame ? (high - frame) / sizeof(std::uintptr_t) : 0;
  saved_words_[hart] = static_cast<std::uint8_t>(std::min<std::size_t>(words, kRegisterWords));
  copy_words(saved_ + std::size_t{hart} * kRegisterWords, frame, saved_words_[hart]);
}

void Scanner::note_roots(std::uintptr_t sp) noexcept {
  auto* const first = reinterpret_cast<NotedRoot*>(map_start_ + candidates_ * sizeof(std::uintptr_t));
  const std::size_t room = (work_high_ - reinterpret_cast<std::uintptr_t>(first)) / sizeof(NotedRoot);
  RootNotes notes(first, first + room);
  visit_platform(notes, sp);
  for (const qm_scan_root* root = read_roots(); root != nullptr; root = root->next) {
    const auto start = reinterpret_cast<std::uintptr_t>(root->start);
    if (!is_memory(start, root->bytes)) {
      damage(root->name != nullptr ? root->name : "");
      has_bad_root_ = true;
      return;
    }
    notes.word(reinterpret_cast<std::uintptr_t>(root));
    notes.range(start, start + root->bytes);
  }
  noted_ = notes.count();
  lacking_ = noted_ > room ? (noted_ - room) * sizeof(NotedRoot) : 0;
}

/// Marks what the noted roots lead to.
void Scanner::mark_noted() noexcept {
  auto* const first = reinterpret_cast<NotedRoot*>(map_start_ + candidates_ * sizeof(std::uintptr_t));
  for (std::size_t at = 0; at < noted_; ++at) {
    if (first[at].stack != 0) hold(first[at].stack);
  }
  phase_ = Phase::kRoots;
  for (std::size_t at = 0; at < noted_; ++at) {
    if (first[at].high != 0) {
      range(first[at].low, first[at].high);
    } else {
      look(first[at].low);
    }
  }
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    const auto words = reinterpret_cast<std::uintptr_t>(saved_ + std::size_t{hart} * kRegisterWords);
    look_at_words(words, words + saved_words_[hart] * sizeof(std::uintptr_t));
    for (unsigned at = 0; at < hardware_words_[hart]; ++at) look(hardware_[hart][at]);
  }
  saved_words_ = {};
  mark_held_by_allocator();
  look_inside();
}

/// Whether a range is the pool of guarded objects.
bool Scanner::is_guarded(std::uintptr_t low) noexcept {
  const guards::internal::Calls* const guards = guards::internal::linked();
  return guards != nullptr && guards->covers(low);
}

/// Reads the pool of guarded objects: a few words at a time without its traps, and with interrupts masked.
void Scanner::read_guarded(std::uintptr_t low, std::uintptr_t high) noexcept {
  constexpr std::size_t kWords = 32;
  const guards::internal::Calls& guards = *guards::internal::linked();
  std::uintptr_t words[kWords];
  while (low < high) {
    const std::size_t count = std::min((high - low) / sizeof(std::uintptr_t), kWords);
    if (count == 0) return;
    {
      const hal::InterruptGuard masked;
      guards.set_armed(false);
      copy_words(words, low, count);
      guards.set_armed(true);
    }
    const auto start = reinterpret_cast<std::uintptr_t>(words);
    look_at_words(start, start + count * sizeof(std::uintptr_t));
    look_inside();
    low += count * sizeof(std::uintptr_t);
  }
}

Status Scanner::pass() noexcept {
  if (has_bad_root_) return Status::kInvalid;
  const auto candidates = candidates_ * sizeof(std::uintptr_t);
  const std::uintptr_t map = round_up(map_start_ + candidates + noted_ * sizeof(NotedRoot), alignof(Page));
  const std::size_t table = ObjectMap::table_bytes();
  if (lacking_ == 0 && map + table > work_high_) lacking_ = map + table - work_high_;
  if (lacking_ != 0) {
    summary.wanted_bytes = summary.work_bytes + lacking_;
    return Status::kNoMemory;
  }
  const LeakSummary before = summary;
  summary = {};
  summary.passes = before.passes + 1;
  summary.work_bytes = before.work_bytes;
  summary.pause_ticks = before.pause_ticks;
  is_partial_ = false;
  phase_ = Phase::kRoots;
  map_.begin(map, work_high_ - map);
  enter_containers();
  enter_objects();
  if (summary.damaged == nullptr && map_.missing() == 0) {
    leave_out_idle();
    mark_noted();
    partial_ = is_partial_ ? partial_ + 1 : 0;
    if (!is_partial_) has_candidates_ ? drop_candidates() : note_candidates();
  }
  if (map_.missing() != 0) lacking_ += map_.missing() * sizeof(Page);
  if (lacking_ != 0) {
    summary.wanted_bytes = summary.work_bytes + lacking_;
    return Status::kNoMemory;
  }
  return summary.damaged == nullptr ? Status::kOk : Status::kMismatch;
}

/// After the first pass: the candidates are all objects that it has not reached. The map makes room for them.
void Scanner::note_candidates() noexcept {
  const auto from = reinterpret_cast<std::uintptr_t*>(map_.end_pages());
  const std::size_t room = (work_high_ - reinterpret_cast<std::uintptr_t>(from)) / sizeof *from;
  std::size_t count = 0;
  for_each_object(&Page::live, [&](const Place& place) noexcept {
    if (Page::has(place.page->marks, place.bit) || place.page->kind == Page::Kind::kMagazines) return;
    if (count < room) from[count] = place.start();
    ++count;
  });
  has_candidates_ = true;
  if (count > room) {
    lacking_ = (count - room) * sizeof *from;
    return;
  }
  candidates_ = count;
  if (count == 0) return;  // the map has the totals
  auto* const to = reinterpret_cast<std::uintptr_t*>(map_start_);
  copy_words(to, reinterpret_cast<std::uintptr_t>(from), count);
  std::fill(std::max(from, to + count), from + count, 0);
  std::make_heap(to, to + count);  // std::sort() needs libgcc
  std::sort_heap(to, to + count);
}

void Scanner::drop_candidates() noexcept {
  auto* const first = reinterpret_cast<std::uintptr_t*>(map_start_);
  auto* const end = first + candidates_;
  for_each_object(&Page::live, [&](const Place& place) noexcept {
    if (Page::has(place.page->marks, place.bit) || std::binary_search(first, end, place.start())) return;
    Page::set(place.page->marks, place.bit);
    Page::set(place.page->aux, place.bit);
  });
  auto* const kept = std::remove_if(first, end, [this](std::uintptr_t object) noexcept {
    const Place place = map_.find_start(object);
    return place.page == nullptr || Page::has(place.page->marks, place.bit);
  });
  quiet_ = kept == end ? quiet_ + 1 : 0;
  std::fill(kept, end, 0);
  candidates_ = static_cast<std::size_t>(kept - first);
}

}  // namespace qm::scan

namespace qm {

using scan::Scanner;

Status LeakScan::run_sliced(GoOn go_on, void* argument) noexcept {
  if (hal::in_panic()) return Status::kUnsafe;
  if (const Status status = begin(Scanner::sliced_bytes); status != Status::kOk) return status;
  struct Work {
    Scanner& scanner;
    std::uintptr_t registers[16];
    std::uintptr_t sp;
    std::uint64_t pause;
    unsigned hart;
  } here{Scanner::the(), {}, 0, 0, 0};
  Scanner& scanner = here.scanner;
  scanner.begin_sliced();
  here.sp = scan::spill_registers(here.registers);
  do {
    here.hart = hal::Port::hart_index();  // its registers are on this stack; a thread that moves is in doubt for a pass
    const hal::BroadcastResult answer = hal::run_while_still(
        [](unsigned hart, void* work) noexcept {
          Work& of = *static_cast<Work*>(work);
          of.scanner.note_hardware(hart);
          if (hart != of.hart) of.scanner.note_registers(hart);
        },
        [](void* work) noexcept {
          Work& of = *static_cast<Work*>(work);
          const std::uint64_t begun = hal::Port::ticks();
          of.scanner.note_roots(of.sp);
          of.pause = hal::Port::ticks() - begun;
        },
        &here);
    if (!answer.ok()) {
      scanner.summary.hart = answer.hart;
      return status_of(answer.status);
    }
    scanner.summary.pause_ticks = std::max(scanner.summary.pause_ticks, here.pause);
    const Status status = scanner.pass();
    if (status == Status::kNoMemory && scanner.begin_with(scanner.summary.wanted_bytes)) {
      scanner.begin_sliced();
    } else if (status != Status::kOk) {
      return status;
    }
    if (scanner.gave_up() || (go_on != nullptr && !go_on(argument))) return Status::kAborted;
  } while (!scanner.is_settled());
  scanner.finish();
  return Status::kOk;
}

}  // namespace qm
