#pragma once
/// What a program asked of its allocator, without the answers: read from a capture or from a trace in text, replayed by
/// trial.hpp.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace qm::replay {

enum class Kind : std::uint8_t { kAllocate, kFree, kReallocate };

/// One operation. Who replays it keeps a table of `Workload::slots` objects.
struct Operation {
  Kind kind = Kind::kAllocate;
  std::uint8_t hart = 0;
  std::uint32_t supply = 0;  ///< of Workload::supplies, of an allocation or a reallocation the object's then
  std::uint32_t slot = 0;
  std::uint32_t size = 0;  ///< bytes asked for; 0 of a free
};

/// A cache, or what serves larger blocks.
struct Supply {
  std::string name;
  std::uint32_t object_bytes = 0;  ///< 0: an arena
};

struct Workload {
  std::string name;
  std::vector<Supply> supplies;
  std::vector<Operation> operations;
  std::uint32_t slots = 0;
  unsigned harts = 1;
  std::uint64_t peak_bytes = 0;  ///< most bytes asked for at once
  std::uint64_t left_out = 0;    ///< events about what is no memory of objects, or older than the recording
  bool complete = true;          ///< a capture that lacks events is replayed without them
};

/// Reads @p file: a capture, of which the last stream counts, or a trace in text: lines `t THREAD`, `a SLOT SIZE`, `r
/// SLOT SIZE`, `f SLOT`. Threads stand for harts.
/// @throws host::Error kInput if it is neither, or damaged.
[[nodiscard]] Workload read_workload(const std::filesystem::path& file);

}  // namespace qm::replay
