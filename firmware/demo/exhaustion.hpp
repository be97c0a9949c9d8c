#pragma once
/// What the demo does when memory is exhausted: tells the console, and finishes in a task what an interrupt handler's failure
/// has started.

#include <string_view>

namespace qm::demo {

/// Where a line of text goes; nullptr: nowhere.
using Notify = void (*)(std::string_view line) noexcept;

/// Tells the allocator, and starts the task `drain` on hart 0. Context: a task of hart 0.
void start_exhaustion(Notify notify) noexcept;

}  // namespace qm::demo
