#pragma once
/// Deliberate defects of the leak scan: each skips one kind of root. Only tests that must detect them, which compile the
/// scan with QM_SCAN_DEFECTS, set another value than kNone.

#include <qm/scan.hpp>

#include "scan/scanner.hpp"

namespace qm::scan {

enum class ScanDefect : unsigned {
  kNone,
  kNoRanges,  ///< the platform's ranges: data and bss
  kNoStacks,
  kNoWords,  ///< registers that the platform names
  kNoDeclared,
  kNoHardware,
  kNoRegisters,  ///< those of interrupted contexts, in a sliced scan
};

#if defined(QM_SCAN_DEFECTS)
inline constinit ScanDefect scan_defect = ScanDefect::kNone;
#else
inline constexpr ScanDefect scan_defect = ScanDefect::kNone;
#endif

/// Hands roots on, except those that the defect skips.
class DefectiveRoots final : public Roots {
 public:
  explicit DefectiveRoots(Roots& to) noexcept : to_(to) {}
  void range(std::uintptr_t low, std::uintptr_t high) noexcept override {
    if (scan_defect != ScanDefect::kNoRanges) to_.range(low, high);
  }
  void word(std::uintptr_t value) noexcept override {
    if (scan_defect != ScanDefect::kNoWords) to_.word(value);
  }
  void stack(const hal::StackBounds& whole, std::uintptr_t sp) noexcept override {
    if (scan_defect != ScanDefect::kNoStacks) to_.stack(whole, sp);
  }

 private:
  Roots& to_;
};

/// Has the platform name its roots.
[[gnu::always_inline]] inline void visit_platform(Roots& roots, std::uintptr_t sp) noexcept {
  if (scan_defect == ScanDefect::kNone) {
    platform()->visit(roots, sp);
  } else {
    DefectiveRoots rest(roots);
    platform()->visit(rest, sp);
  }
}

/// The declared roots that a scan reads.
[[nodiscard, gnu::always_inline]] inline const qm_scan_root* read_roots() noexcept {
  return scan_defect == ScanDefect::kNoDeclared ? nullptr : first_root();
}

}  // namespace qm::scan
