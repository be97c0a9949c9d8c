// The table of call sites and the harts' words; see call_sites.hpp. Linked only where QM_CALL_SITES is set.

#include <qm/config.h>
#include <qm/detail/call_sites.hpp>

#include <new>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/hal/port.hpp>
#include <qm/qm.h>
#include <qm/system.hpp>

#include "arena/arena_request.hpp"
#include "segments/blocks.hpp"

extern "C" {
[[gnu::section("qm_call_sites"), gnu::used]] constinit const qm::CallSite qm_untagged_site =
    QM_SITE_VALUE("", "", 0, 0);
// Names that the linker defines for the start and the end of the section.
extern const qm::CallSite __start_qm_call_sites[];  // NOLINT
extern const qm::CallSite __stop_qm_call_sites[];   // NOLINT
}

namespace qm {

#if defined(QM_TP)
[[gnu::section(".tdata.qm_hot")]] constinit thread_local SiteView qm_site_view;
#endif

namespace call_sites {
namespace {

std::uintptr_t all_words = 0;  // a table for each hart
unsigned word_harts = 0;
Row* noted = nullptr;  // count() of them, behind the words
constinit std::atomic<bool> on{true};
#if defined(QM_TP)
SiteView* views[hal::Port::kMaxHarts];  // of the harts that have been attached
#else
// For a host, where a thread stands for different harts at different times, and for kernels that use tp themselves.
SiteView views[hal::Port::kMaxHarts];
#endif

/// The first row counts objects without a site, so site 0 is counted in the second.
std::uintptr_t base() noexcept {
  const std::uintptr_t lower = kRowBytes + (on.load(std::memory_order_relaxed) ? 0 : sizeof(SiteWord));
  return reinterpret_cast<std::uintptr_t>(__start_qm_call_sites) - lower;
}

constexpr SiteTag tag_of_row(std::size_t number) noexcept { return static_cast<SiteTag>((number + 1) * kRowBytes); }

std::size_t table_bytes() noexcept { return (count() + 1) * kRowBytes; }

std::size_t hart_bytes() noexcept {
  return (table_bytes() + SiteCounts::kLine - 1) / SiteCounts::kLine * SiteCounts::kLine;
}

std::uintptr_t words_of(unsigned hart) noexcept { return all_words + hart * hart_bytes(); }

void open(SiteView& view, unsigned hart) noexcept {
  view.words = words_of(hart);
  view.base.store(base(), std::memory_order_relaxed);
  view.limit =
      table_bytes() - sizeof(SiteCounts::wastes);  // a waste follows even the last word that a stray write may select
}

#if defined(QM_TP)
void open_views() noexcept { attach_hart(hal::Port::hart_index()); }
#else
void open_views() noexcept {
  for (unsigned hart = 0; hart < word_harts; ++hart) open(views[hart], hart);
}
#endif

struct Sum {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  std::uint64_t waste = 0;
};

Sum sum_of(SiteTag tag) noexcept {
  Sum sum;
  std::uintptr_t waste = 0;
  for (unsigned hart = 0; hart < word_harts; ++hart) {
    SiteView view;
    view.words = words_of(hart);
    view.word(tag).add_to(sum.calls, sum.bytes);
    waste += view.waste(tag).load(std::memory_order_relaxed);
  }
  SiteWord::settle(sum.calls, sum.bytes);
  sum.waste = waste;
  return sum;
}

struct Caller {
  std::atomic<std::uintptr_t> address{0};
  std::atomic<std::uint32_t> calls{0};
};
constinit Caller callers[kUntaggedCallers + 1];

}  // namespace

#if !defined(QM_TP)
SiteView& view() noexcept { return views[hal::Port::hart_index()]; }
#endif

Status initialize(unsigned harts) noexcept {
  const std::size_t bytes = harts * hart_bytes();
  const std::uintptr_t place = base_arena().allocate(bytes + count() * sizeof(Row));
  if (place == 0) return Status::kNoMemory;
  all_words = place;
  for (std::size_t at = 0; at < bytes; at += kRowBytes) new (reinterpret_cast<void*>(place + at)) SiteCounts{};
  noted = reinterpret_cast<Row*>(place + bytes);
  for (std::size_t i = 0; i < count(); ++i) new (noted + i) Row;
  word_harts = harts;
  open_views();
  return Status::kOk;
}

#if defined(QM_TP)
void attach_hart(unsigned hart) noexcept {
  open(qm_site_view, hart);
  views[hart] = &qm_site_view;
}
#else
void attach_hart(unsigned) noexcept {}
#endif

void shutdown() noexcept {
  word_harts = 0;
  on.store(true, std::memory_order_relaxed);
  for (Caller& caller : callers) {
    caller.address.store(0, std::memory_order_relaxed);
    caller.calls.store(0, std::memory_order_relaxed);
  }
}

std::size_t count() noexcept { return static_cast<std::size_t>(__stop_qm_call_sites - __start_qm_call_sites); }

std::size_t number_of(const CallSite* site) noexcept {
  return static_cast<std::size_t>((site != nullptr ? site : &qm_untagged_site) - __start_qm_call_sites);
}

Row row(std::size_t number) noexcept {
  const SiteTag tag = tag_of_row(number);
  const Sum live = sum_of(tag);
  const Sum missed = sum_of(tag + sizeof(SiteWord));
  return {__start_qm_call_sites + number, live.bytes, live.calls, live.waste, missed.calls == 0 && missed.bytes == 0};
}

void note_rows() noexcept {
  for (std::size_t i = 0; i < count(); ++i) noted[i] = row(i);
}

Row noted_row(std::size_t number) noexcept { return noted[number]; }

bool is_on() noexcept { return on.load(std::memory_order_relaxed); }

#if defined(QM_TP)
void set_on(bool now) noexcept {
  on.store(now, std::memory_order_relaxed);
  for (SiteView* view : views) {
    if (view != nullptr) view->base.store(base(), std::memory_order_relaxed);
  }
}
#else
void set_on(bool now) noexcept {
  on.store(now, std::memory_order_relaxed);
  for (SiteView& view : views) view.base.store(base(), std::memory_order_relaxed);
}
#endif

const CallSite* charge(const CallSite* site, std::size_t bytes) noexcept {
  if (site == nullptr) site = &qm_untagged_site;
  SiteView& own = view();
  const SiteTag tag = own.tag_of(site);
  own.word(tag).add(SiteWord::amount_of(bytes));
  return reinterpret_cast<const CallSite*>(reinterpret_cast<std::uintptr_t>(site) | (tag / sizeof(SiteWord) & 1));
}

void discharge(const CallSite* kept, std::size_t bytes) noexcept {
  if (kept == nullptr) return;
  const SiteTag off = kept != plain(kept) ? sizeof(SiteWord) : 0;
  view().word(tag_of_row(number_of(plain(kept))) + off).subtract(SiteWord::amount_of(bytes));
}

const CallSite* site_of(SiteTag tag) noexcept {
  return tag >= kRowBytes && tag < table_bytes() ? __start_qm_call_sites + (tag / kRowBytes - 1) : nullptr;
}

void internal::note_untagged(std::uintptr_t address) noexcept {
  for (unsigned i = 0; i < kUntaggedCallers; ++i) {
    std::uintptr_t there = 0;
    if (callers[i].address.compare_exchange_strong(there, address, std::memory_order_relaxed) || there == address) {
      callers[i].calls.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
}

[[gnu::noinline]] void internal::note_caller() noexcept {
  note_untagged(reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)));
}

UntaggedCaller untagged_caller(unsigned number) noexcept {
  if (number >= kUntaggedCallers) return {};
  return {callers[number].address.load(std::memory_order_relaxed),
          callers[number].calls.load(std::memory_order_relaxed)};
}

}  // namespace call_sites

// ---- segments -------------------------------------------------------------------------------------------------------

const CallSite* Arena::site_of(std::uintptr_t start) noexcept {
  const LockGuard guard(lock_);
  if (blocks_ != nullptr) {
    const BlockHeader* const block = find_block_locked(start);
    return block != nullptr && block->note().is_sound() ? call_sites::plain(block->note().site) : nullptr;
  }
  const BoundaryTag* tag = find_allocated_locked(start);
  return tag != nullptr ? call_sites::plain(tag->site) : nullptr;
}

void Arena::recharge(std::uintptr_t start, const CallSite* site) noexcept {
  const LockGuard guard(lock_);
  if (blocks_ != nullptr) {
    const BlockHeader* const block = charged_ ? find_block_locked(start) : nullptr;
    if (block == nullptr || !block->note().is_sound()) return;
    call_sites::discharge(block->note().site, block->bytes());
    block->note().site = call_sites::charge(site, block->bytes());
    return;
  }
  BoundaryTag* tag = charged_ ? find_allocated_locked(start) : nullptr;
  if (tag == nullptr || tag->owner != SegmentOwner::kUser) return;
  call_sites::discharge(tag->site, tag->size);
  tag->site = call_sites::charge(site, tag->size);
}

/// The segment was resized in place: it stays charged to its site.
void Arena::recharge_locked(BoundaryTag* tag, std::size_t old_size) noexcept {
  if (!charged_) return;
  call_sites::discharge(tag->site, old_size);
  tag->site = call_sites::charge(call_sites::plain(tag->site), tag->size);
}

}  // namespace qm
