#pragma once
/// The demo's caches. Only workloads use the workloads' caches, so all live objects in them belong to a workload. The
/// system's own tasks and interrupt handlers use the other caches.

#include <cstdint>
#include <cstring>

#include <qm/cache.hpp>

namespace qm::demo {

/// A network packet that the workloads receive.
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
  Cache* dma_buffer = nullptr;  ///< no-touch objects of 2 KiB in the device window
  Cache* tick_event = nullptr;  ///< allocated and freed by the timer interrupt
};

/// Creates all caches, after create_arenas(). @returns false if there is no memory for one of them.
bool create_caches() noexcept;
[[nodiscard]] const Caches& caches() noexcept;

/// Clears an object that was just allocated; nullptr passes through. Without this, old contents of an object that lives
/// long could keep a planted leak from a leak scan, which takes every word for a pointer.
inline void* cleared(void* object, std::size_t bytes) noexcept {
  return object != nullptr ? std::memset(object, 0, bytes) : nullptr;
}

}  // namespace qm::demo
