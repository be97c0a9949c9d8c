#pragma once
/// The programs of the bench `ram`: complete recordings (qm/replay/recording.hpp), and small programs made from them.
///
/// scale() makes a small program from a large one. It keeps some of the program's blocks, each with its whole life from
/// allocation through reallocations to free, so that at most a given number of bytes are live at once. The selection
/// depends on the block's number in order of allocation, multiplied and taken modulo 1000: it is a share of all blocks,
/// evenly spread over the program. Blocks that are ever larger than an eighth of those bytes are left out.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/replay/recording.hpp>

namespace qm::bench {

/// Whether figures of the program may influence the tuning of the allocator. The programs that are kept apart show how
/// well the tuning works for programs that it has not seen.
enum class Use : std::uint8_t { kTuning, kKeptApart };
constexpr std::string_view use_name(Use use) noexcept { return use == Use::kTuning ? "tuning" : "kept apart"; }

struct Program {
  replay::Recording recording;
  Use use;
};

/// All programs of the bench.
[[nodiscard]] std::span<const Program> programs() noexcept;

/// A program in the form for a replay (qm/replay/replay.hpp).
struct Script {
  std::span<const replay::Operation> operations;
  std::uint32_t slots = 0;
  std::uint32_t peak_bytes = 0;
};

/// A size to which programs are scaled.
struct Size {
  std::string_view name;
  std::uint32_t bytes;
};
inline constexpr Size kSizes[] = {{"32 KB", 32U << 10}, {"64 KB", 64U << 10}, {"128 KB", 128U << 10}};

/// @returns the bytes of working memory that scale() needs.
[[nodiscard]] std::size_t scale_bytes(const Script& whole) noexcept;

/// Makes a small program with at most @p bytes live at once. The complete program must have more.
/// @param[in] memory at least scale_bytes(), aligned to 4; the result lies in it.
[[nodiscard]] Script scale(const Script& whole, std::uint32_t bytes, void* memory) noexcept;

}  // namespace qm::bench
