#pragma once
/// The programs of the bench `ram`: recordings (qm/replay/recording.hpp), whole, and small programs made out of them.
///
/// scale() makes a small program out of a large one. It takes some of the program's blocks, each with its whole life from allocation
/// over reallocations to free, so that at most a given number of bytes live at once. Which blocks is decided by their numbers in
/// order of allocation, multiplied and taken modulo 1000: a share of all, spread over the program evenly. Blocks that are ever
/// larger than an eighth of those bytes are left out.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/replay/recording.hpp>

namespace qm::bench {

/// Whether figures of the program may decide how the allocator is tuned. Those that are kept apart show what the tuning is worth for
/// programs that it has not seen.
enum class Use : std::uint8_t { kTuning, kKeptApart };
constexpr std::string_view use_name(Use use) noexcept { return use == Use::kTuning ? "tuning" : "kept apart"; }

struct Program {
  replay::Recording recording;
  Use use;
};

/// All programs of the bench.
[[nodiscard]] std::span<const Program> programs() noexcept;

/// A program that can be replayed (qm/replay/replay.hpp).
struct Script {
  std::span<const replay::Operation> operations;
  std::uint32_t slots = 0;
  std::uint32_t peak_bytes = 0;
};

/// What programs are scaled to.
struct Size {
  std::string_view name;
  std::uint32_t bytes;
};
inline constexpr Size kSizes[] = {{"32 KB", 32U << 10}, {"64 KB", 64U << 10}, {"128 KB", 128U << 10}};

/// Bytes of working memory for scale().
[[nodiscard]] std::size_t scale_bytes(const Script& whole) noexcept;

/// Makes a small program: at most @p bytes live at once. The whole program must have more.
/// @param[in] memory at least scale_bytes(), aligned to 4; the result lies in it.
[[nodiscard]] Script scale(const Script& whole, std::uint32_t bytes, void* memory) noexcept;

}  // namespace qm::bench
