#pragma once
/// When memory is exhausted, the demo reports it on the console, and a task finishes the drain that a failed allocation
/// in an interrupt handler has started.

#include <qm/exhaustion.hpp>

namespace qm::demo {

/// As ExhaustionConfig::report.
using ReportExhaustion = void (*)(const ExhaustionReport& report) noexcept;

/// Registers @p report with the allocator, and starts the task `drain` on hart 0. Context: a task of hart 0.
void start_exhaustion(ReportExhaustion report) noexcept;

}  // namespace qm::demo
