#pragma once
/// The demo's background activity: tasks on every hart, and a timer interrupt that allocates and frees.

#include <string_view>

namespace qm::demo {

/// The caches and arenas of the background activity, which no workload uses.
inline constexpr std::string_view kBackground = "timer,inode,inode_ids,tick_event,dma_buffer,dma";

/// Starts the tasks of every online hart and sets the tick handler. Context: a task of hart 0, after create_caches().
void start_background() noexcept;

}  // namespace qm::demo
