#include "sections_probe.hpp"

#include <qm/config.h>
#include <qm/cache.hpp>
#include <qm/rewind.hpp>

namespace {

constexpr unsigned kMaxSections = 32;
constexpr unsigned kMaxInstructions = 16;

struct Section {  // as in inline_sections.hpp
  std::int32_t start_distance;
  std::uint16_t commit, end;
  [[nodiscard]] std::uintptr_t start() const {
    return reinterpret_cast<std::uintptr_t>(this) + static_cast<std::uintptr_t>(std::intptr_t{start_distance});
  }
};

}  // namespace

extern "C" {
extern const char qm_sections_start[], qm_sections_end[];
extern const Section __qm_sections_start[], __qm_sections_end[];
extern const Section qm_heap_sections[] __attribute__((weak));  // it may not be linked
#if defined(QM_CALL_SITES)
void qm_cache_push(qm::Cache* cache,
                   void* object) noexcept;  // the section; qm_cache_free() reverses the charge before it
#else
constexpr auto* qm_cache_push = &qm_cache_free;
#endif
std::uintptr_t __real_qm_rewind(std::uintptr_t pc, const std::uintptr_t* registers) noexcept;
std::uintptr_t __wrap_qm_rewind(std::uintptr_t pc, const std::uintptr_t* registers) noexcept;
}

namespace probe {

bool rewinding = true;

namespace {

struct Hits {
  std::uint32_t at[kMaxSections][kMaxInstructions];
  std::uint32_t inside;
  std::uint32_t at_count;
};
Hits by_form[3];
Hits& of(Form form) noexcept { return by_form[static_cast<unsigned>(form)]; }

constexpr std::uintptr_t kHeapSections = 2;

constexpr std::uintptr_t kBlock = qm::kCallSites ? 128 : 64;
constexpr std::uintptr_t kCommit = qm::kCounted ? 36 : 28;

void note(Form form, std::uintptr_t section, std::uintptr_t offset, std::uintptr_t commit,
          std::uintptr_t end) noexcept {
  if (offset >= end) return;
  Hits& found = of(form);
  ++(offset <= commit ? found.inside : found.at_count);
  if (section < kMaxSections && offset / 4 < kMaxInstructions) ++found.at[section][offset / 4];
}

/// Searches for @p pc in a table of sections.
void note(Form form, const Section* first, const Section* end, std::uintptr_t pc) noexcept {
  for (const Section* one = first; one != end; ++one) {
    const std::uintptr_t offset = pc - one->start();
    if (offset < one->end) note(form, static_cast<std::uintptr_t>(one - first), offset, one->commit, one->end);
  }
}

void note(std::uintptr_t pc) noexcept {
  const std::uintptr_t offset = pc - reinterpret_cast<std::uintptr_t>(qm_sections_start);
  if (offset < static_cast<std::uintptr_t>(qm_sections_end - qm_sections_start)) {
    const bool counts = qm::kCounted && offset / kBlock < 2;  // the two pops
    return note(Form::kOutOfLine, offset / kBlock, offset % kBlock, kCommit, kCommit + (counts ? 8 : 4));
  }
  if (qm_heap_sections != nullptr) note(Form::kHeap, qm_heap_sections, qm_heap_sections + kHeapSections, pc);
  note(Form::kInlined, __qm_sections_start, __qm_sections_end, pc);
}

unsigned missed_in(const Hits& hits, std::uintptr_t section, std::uintptr_t first, std::uintptr_t commit) noexcept {
  unsigned missed = 0;
  for (std::uintptr_t at = first / 4; at <= commit / 4; ++at) missed += hits.at[section][at] == 0 ? 1 : 0;
  return missed;
}

}  // namespace

void reset() noexcept {
  for (Hits& one : by_form) one = Hits{};
}

std::uint32_t inside(Form form) noexcept { return of(form).inside; }
std::uint32_t at_count(Form form) noexcept { return of(form).at_count; }

unsigned missed(Form form, void (*function)(unsigned), unsigned sections) noexcept {
  unsigned missed = 0;
  if (form == Form::kOutOfLine) {
    const auto start = [](auto* entry) {
      return reinterpret_cast<std::uintptr_t>(entry) - reinterpret_cast<std::uintptr_t>(qm_sections_start);
    };
    for (const std::uintptr_t at : {start(&qm_cache_allocate), start(&qm_cache_allocate_at), start(qm_cache_push)}) {
      missed += missed_in(of(form), at / kBlock, at % kBlock, kCommit);
    }
    return missed;
  }
  if (form == Form::kHeap) {
    for (std::uintptr_t i = 0; i < kHeapSections; ++i) missed += missed_in(of(form), i, 0, qm_heap_sections[i].commit);
    return missed;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(function);
  const Section* one = __qm_sections_start;
  while (one != __qm_sections_end && one->start() < address) ++one;
  for (; sections != 0 && one != __qm_sections_end; --sections, ++one) {
    missed += missed_in(of(form), static_cast<std::uintptr_t>(one - __qm_sections_start), 0, one->commit);
  }
  return missed + sections * kMaxInstructions;
}

}  // namespace probe

std::uintptr_t __wrap_qm_rewind(std::uintptr_t pc, const std::uintptr_t* registers) noexcept {
  probe::note(pc);
  const std::uintptr_t resumed = __real_qm_rewind(pc, registers);
  return probe::rewinding || resumed > pc ? resumed : pc;
}
