// <qm/qm.h>: reports of misuse, and the names of statuses.

#include <atomic>
#include <cstddef>
#include <iterator>

#include <qm/misuse.hpp>
#include <qm/qm.h>

namespace {

static_assert(QM_MISUSE_NULL == static_cast<int>(qm::Misuse::kNull) &&
              QM_MISUSE_DOUBLE_FREE == static_cast<int>(qm::Misuse::kDoubleFree) &&
              QM_MISUSE_INTERIOR == static_cast<int>(qm::Misuse::kInterior) &&
              QM_MISUSE_WRONG_CACHE == static_cast<int>(qm::Misuse::kWrongCache) &&
              QM_MISUSE_FOREIGN == static_cast<int>(qm::Misuse::kForeign) &&
              QM_MISUSE_AFTER_DESTROY == static_cast<int>(qm::Misuse::kAfterDestroy));
static_assert(QM_MISUSE_WRONG_SIZE == static_cast<int>(qm::Misuse::kWrongSize) &&
              QM_MISUSE_OVERFLOW == static_cast<int>(qm::Misuse::kOverflow) &&
              QM_MISUSE_WRITE_AFTER_FREE == static_cast<int>(qm::Misuse::kWriteAfterFree) &&
              QM_MISUSE_LEAK == static_cast<int>(qm::Misuse::kLeak) &&
              QM_MISUSE_TOO_LARGE == static_cast<int>(qm::Misuse::kTooLarge) &&
              QM_MISUSE_OUTSIDE == static_cast<int>(qm::Misuse::kOutside) &&
              QM_MISUSE_USE_AFTER_FREE == static_cast<int>(qm::Misuse::kUseAfterFree));

constinit std::atomic<qm_misuse_handler> c_misuse_handler{nullptr};

void tell_c(const qm::MisuseReport& report) noexcept {
  // acquire: pairs with the release in qm_set_misuse_handler().
  const qm_misuse_handler handler = c_misuse_handler.load(std::memory_order_acquire);
  if (handler == nullptr) return;
  const qm_misuse_report told{static_cast<qm_misuse>(report.kind),
                              qm::describe(report.kind),
                              report.cache,
                              report.arena,
                              report.owner,
                              report.object,
                              report.offset,
                              report.count,
                              report.neighbour,
                              report.pc,
                              report.is_write ? 1 : 0};
  handler(&told);
}

}  // namespace

extern "C" {

void qm_set_misuse_handler(qm_misuse_handler handler) noexcept {
  c_misuse_handler.store(handler, std::memory_order_release);  // pairs with the acquire in tell_c()
  qm::set_misuse_handler(handler != nullptr ? &tell_c : nullptr);
}

const char* qm_status_name(qm_status status) noexcept {
  static constexpr const char* kNames[] = {"QM_OK",        "QM_INVALID", "QM_DUPLICATE", "QM_OVERLAP",
                                           "QM_NO_MEMORY", "QM_BUSY",    "QM_NOT_FOUND", "QM_MISMATCH",
                                           "QM_TIMED_OUT", "QM_UNSAFE",  "QM_REFUSED",   "QM_ABORTED"};
  const auto index = static_cast<std::size_t>(-static_cast<std::ptrdiff_t>(status));
  return index < std::size(kNames) ? kNames[index] : "unknown status";
}

}  // extern "C"
