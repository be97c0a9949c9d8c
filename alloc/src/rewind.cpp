#include <qm/rewind.hpp>

#include <cstddef>

#include <qm/cache.hpp>

#include "sections.hpp"

extern "C" const char qm_sections_start[];
extern "C" const char qm_sections_end[];

namespace {

static_assert(offsetof(qm::Cell, top) == QM_CELL_TOP);
static_assert(offsetof(qm::Cell, limit) == QM_CELL_LIMIT);
static_assert(offsetof(qm::Cell, allocs) == QM_CELL_ALLOCS);
static_assert(sizeof(void*) == QM_WORD_BYTES);

constexpr std::uintptr_t kBlock = QM_SECTION_BLOCK;
constexpr std::uintptr_t kCommit = QM_SECTION_COMMIT;
constexpr std::uintptr_t kPopBlocks = 2;  // the push, which counts nothing, is the block after them
constexpr unsigned kT0 = 5;               // register numbers
constexpr unsigned kT3 = 28;

}  // namespace

std::uintptr_t qm_rewind(std::uintptr_t pc, const std::uintptr_t* registers) noexcept {
  const std::uintptr_t offset = pc - reinterpret_cast<std::uintptr_t>(qm_sections_start);
  if (offset >= static_cast<std::uintptr_t>(qm_sections_end - qm_sections_start)) return pc;
  const std::uintptr_t inside = offset & (kBlock - 1);
  if (inside <= kCommit) return pc - inside;
  if constexpr (qm::kCounted) {
    // Committed, but not counted: the handler may allocate from this cache, and its count must not be overwritten.
    if (inside == kCommit + 4 && offset / kBlock < kPopBlocks) {
      *reinterpret_cast<std::uintptr_t*>(registers[kT0] + QM_CELL_ALLOCS) = registers[kT3];
      return pc + 4;
    }
  }
  return pc;
}
