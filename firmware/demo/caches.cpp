#include "caches.hpp"

#include "arenas.hpp"

namespace qm::demo {
namespace {

Caches all;

Cache* make(const char* name, std::size_t bytes, std::size_t alignment = 0) noexcept {
  CacheConfig config;
  config.name = name;
  config.object_size = bytes;
  config.alignment = alignment;
  return Cache::create(config);
}

}  // namespace

bool create_caches() noexcept {
  all.packet = make("packet", sizeof(Packet), 64);
  all.session = make("session", 192);
  all.exhaust = make("exhaust", 1024);
  all.stacks = make("stacks", 64);
  all.timer = make("timer", 64);
  all.inode = make("inode", 256);
  all.tick_event = make("tick_event", 48);
  CacheConfig buffers;
  buffers.name = "dma_buffer";
  buffers.object_size = 2048;
  buffers.flags = cache_flags::kNoTouch;
  buffers.source = &arenas().dma;
  all.dma_buffer = Cache::create(buffers);
  return all.packet != nullptr && all.session != nullptr && all.exhaust != nullptr && all.stacks != nullptr &&
         all.timer != nullptr && all.inode != nullptr && all.tick_event != nullptr && all.dma_buffer != nullptr;
}

const Caches& caches() noexcept { return all; }

}  // namespace qm::demo
