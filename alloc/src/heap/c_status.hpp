#pragma once
/// The translation of a Status to <qm/qm.h>.

#include <qm/qm.h>
#include <qm/status.hpp>

namespace qm {

static_assert(QM_INVALID == -static_cast<int>(Status::kInvalid) &&
              QM_DUPLICATE == -static_cast<int>(Status::kDuplicate));
static_assert(QM_OVERLAP == -static_cast<int>(Status::kOverlap) &&
              QM_NO_MEMORY == -static_cast<int>(Status::kNoMemory));
static_assert(QM_BUSY == -static_cast<int>(Status::kBusy) && QM_NOT_FOUND == -static_cast<int>(Status::kNotFound));
static_assert(QM_MISMATCH == -static_cast<int>(Status::kMismatch) &&
              QM_TIMED_OUT == -static_cast<int>(Status::kTimedOut));
static_assert(QM_UNSAFE == -static_cast<int>(Status::kUnsafe) && QM_REFUSED == -static_cast<int>(Status::kRefused));
static_assert(QM_ABORTED == -static_cast<int>(Status::kAborted));

inline qm_status c_status_of(Status status) noexcept { return static_cast<qm_status>(-static_cast<int>(status)); }

}  // namespace qm
