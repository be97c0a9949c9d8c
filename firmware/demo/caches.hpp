#pragma once
/// The demo's caches. The workloads' are used by workloads alone, so that what is out of them is what a workload took;
/// the system's own tasks and interrupt handlers use the others.

#include <cstdint>

#include <qm/cache.hpp>

namespace qm::demo {

/// A network packet, as the workloads receive it.
struct Packet {
  std::uint32_t sequence;
  std::uint32_t checksum;
  Packet* next;
  unsigned char payload[504 - sizeof(Packet*)];
};
static_assert(sizeof(Packet) == 512);

struct Caches {
  // Workloads.
  Cache* packet = nullptr;
  Cache* session = nullptr;  ///< 192 bytes
  Cache* exhaust = nullptr;  ///< 1 KiB blocks
  Cache* stacks = nullptr;   ///< 64 bytes
  // The system's own.
  Cache* timer = nullptr;
  Cache* inode = nullptr;
  Cache* dma_buffer = nullptr;  ///< 2 KiB of the device window, never touched
  Cache* tick_event = nullptr;  ///< allocated and freed by the timer interrupt
};

/// Creates them all, after create_arenas(). @returns false if there is no memory for one.
bool create_caches() noexcept;
[[nodiscard]] const Caches& caches() noexcept;

}  // namespace qm::demo
