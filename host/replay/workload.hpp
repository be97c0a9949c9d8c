#pragma once
/// The requests of a program to its allocator, without the results. They are read from a capture or from a trace in
/// text, and trial.hpp replays them.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace qm::replay {

enum class Kind : std::uint8_t { kAllocate, kFree, kReallocate };

/// One operation. The replay keeps a table of `Workload::slots` objects.
struct Operation {
  Kind kind = Kind::kAllocate;
  std::uint8_t hart = 0;
  /// index in Workload::supplies; for an allocation or a reallocation the supply of the new object
  std::uint32_t supply = 0;
  std::uint32_t slot = 0;
  std::uint32_t size = 0;  ///< bytes requested; 0 for a free
  std::uint32_t site = 0;  ///< who allocated, from 1 on; 0: not recorded, or a free
};

/// A cache, or the arena that serves larger blocks.
struct Supply {
  std::string name;
  std::uint32_t object_bytes = 0;  ///< 0: an arena
  std::uint32_t arena = 0;         ///< which of the arenas for larger blocks, if it is one
};

struct Workload {
  std::string name;
  std::vector<Supply> supplies;
  std::vector<Operation> operations;
  std::uint32_t slots = 0;
  std::uint32_t sites = 0;  ///< call sites, else innermost return addresses; a trace in text has none
  unsigned harts = 1;
  std::uint64_t peak_bytes = 0;  ///< most bytes requested at once
  /// events that are not about memory of objects, or about objects older than the recording
  std::uint64_t left_out = 0;
  bool complete = true;  ///< false: the capture lacks events, and is replayed without them
};

/// Reads @p file. It is a capture, whose last stream is used, or a trace in text with the lines `t THREAD`, `a SLOT
/// SIZE`, `r SLOT SIZE`, `f SLOT`, where threads stand for harts.
/// @throws host::Error kInput if it is neither of these, or damaged.
[[nodiscard]] Workload read_workload(const std::filesystem::path& file);

}  // namespace qm::replay
