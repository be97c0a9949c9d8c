#pragma once
/// What the demo does when memory is exhausted: tells the console, and finishes in a task what an interrupt handler's
/// failure has started.

#include <qm/exhaustion.hpp>

namespace qm::demo {

/// As ExhaustionConfig::report.
using ReportExhaustion = void (*)(const ExhaustionReport& report) noexcept;

/// Tells the allocator, and starts the task `drain` on hart 0. Context: a task of hart 0.
void start_exhaustion(ReportExhaustion report) noexcept;

}  // namespace qm::demo
