#pragma once
/// A recorded allocation trace of a real program, in a form small enough for an image.
///
///     file         "qmr1" header, body
///     header       varints: operations, slots, threads, peak bytes, peak blocks, crossed, left, bytes of the body unpacked
///     body         packed (LZ77): literals L, L bytes, then a copy of M bytes from D bytes back; again until M is 0
///     operation    a varint V, by V & 3:
///                  0  allocate V >> 2 bytes; the slot is the free slot that was freed last, else the next new slot
///                  1  free; V >> 2 is the zigzag distance of the slot from the slot of the previous operation
///                  2  reallocate; the slot as in a free, then a varint: the size
///                  3  the following operations belong to thread V >> 2
///     varint       7 bits a byte, low bits first; the top bit is set in all bytes but the last
///
/// The encoder (encode.cpp) computes the header; unpack() checks it while it decodes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace qm::replay {

enum class Kind : std::uint8_t { kAllocate, kFree, kReallocate };

/// One operation. `turn` is its number among the operations on its slot: earlier ones are done first, on any hart.
struct Operation {
  std::uint32_t slot : 24;
  std::uint32_t kind : 4;
  std::uint32_t thread : 4;
  std::uint32_t size;
  std::uint32_t turn;
};
static_assert(sizeof(Operation) == 12);

struct Header {
  std::uint32_t operations = 0;
  std::uint32_t slots = 0;  ///< most blocks live at once
  std::uint32_t threads = 0;
  std::uint32_t peak_bytes = 0;   ///< most bytes live at once, in the recorded order
  std::uint32_t peak_blocks = 0;  ///< blocks live at the moment of peak_bytes
  std::uint32_t crossed = 0;      ///< blocks freed by another thread than the one that allocated them
  std::uint32_t left = 0;         ///< blocks the program never freed
  std::uint32_t unpacked_bytes = 0;
};

struct Recording {
  std::string_view name;
  std::span<const std::uint8_t> file;
};

/// The recordings in this image: sqlite, jq, redis-threads.
[[nodiscard]] std::span<const Recording> recordings() noexcept;
/// @returns nullptr if there is none of that name.
[[nodiscard]] const Recording* find_recording(std::string_view name) noexcept;

/// Reads the header of a recording. @returns false if @p file is not a recording.
[[nodiscard]] bool read_header(std::span<const std::uint8_t> file, Header& header) noexcept;

/// Bytes of working memory for unpack(): the operations, the unpacked body, and the tables of slots.
[[nodiscard]] std::size_t unpack_bytes(const Header& header) noexcept;

/// Decodes a recording.
/// @param[in] memory at least unpack_bytes() bytes, aligned to 8; the result lies in it.
/// @returns the operations in recorded order; empty if the file is damaged.
/// Complexity: O(operations).
[[nodiscard]] std::span<const Operation> unpack(std::span<const std::uint8_t> file, void* memory) noexcept;

}  // namespace qm::replay
