#pragma once
/// The demo's own life: tasks on every hart, and a timer interrupt that allocates and frees.

namespace qm::demo {

/// Starts the tasks of every online hart and sets the tick handler. Context: a task of hart 0, after create_caches().
void start_background() noexcept;

}  // namespace qm::demo
