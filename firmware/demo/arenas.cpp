#include "arenas.hpp"

namespace qm::demo {
namespace {

constexpr std::uintptr_t kWindow = 0x4000'0000;
constexpr std::size_t kWindowBytes = std::size_t{16} << 20;
constexpr unsigned kRings = 4;
constexpr std::size_t kRingBytes = 4096;

constinit Arenas all;

bool give_rings() noexcept {
  Constraint constraint;
  constraint.align = kRingBytes;
  constraint.nocross = 64 * 1024;
  constraint.max = kWindow + kWindowBytes / 2;
  for (unsigned ring = 0; ring < kRings; ++ring) {
    if (QM_ALLOC(all.dma.allocate_constrained, kRingBytes, constraint) == 0) return false;
  }
  return true;
}

}  // namespace

bool create_arenas() noexcept {
  ArenaConfig dma;
  dma.name = "dma";
  dma.start = kWindow;
  dma.size = kWindowBytes;
  dma.quantum = 64;
  ArenaConfig ids;
  ids.name = "inode_ids";
  ids.start = 1;
  ids.size = 65535;
  ids.quantum = 1;
  return all.dma.initialize(dma) == Status::kOk && all.inode_ids.initialize(ids) == Status::kOk && give_rings();
}

Arenas& arenas() noexcept { return all; }

}  // namespace qm::demo
