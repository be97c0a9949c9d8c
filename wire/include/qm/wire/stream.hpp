#pragma once
/// The payloads of the event stream except the events (event.hpp): header, definitions, statistics, end, and the host's
/// request. docs/protocol.md has every byte.
///
/// Invariants
///  1. Each payload from the target begins with the number of its stream and its own number in the stream, from 0
///     without a gap. So a receiver detects a missing frame, even if frames that are not the stream's come in between.
///  2. Bytes after the fields known here belong to a later minor version: they are skipped and counted. A payload of
///     another major version cannot be read.
///  3. Decoded texts refer to the payload.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/wire/bytes.hpp>
#include <qm/wire/event.hpp>

namespace qm::wire {

inline constexpr std::uint8_t kSchemaMajor = 1;
inline constexpr std::uint8_t kSchemaMinor = 1;

/// The first fields of each payload of a stream: 6 bytes.
struct StreamPrefix {
  std::uint16_t stream = 0;  ///< counts the streams since boot, from 1
  std::uint32_t number = 0;  ///< number of this frame in the stream
};
void put_prefix(ByteWriter& out, const StreamPrefix& prefix) noexcept;
[[nodiscard]] StreamPrefix get_prefix(ByteReader& in) noexcept;

// ---- header ---------------------------------------------------------------------------------------------------------

/// Describes a stream. It is the first frame, and is sent again when a host asks.
struct StreamHeader {
  static constexpr std::size_t kMaxBuildIdBytes = 32;
  static constexpr std::size_t kMaxSizeClasses = 160;

  std::uint8_t major = kSchemaMajor;
  std::uint8_t minor = kSchemaMinor;
  bool big_endian = false;  ///< the target's byte order; the stream is always little endian
  std::uint8_t pointer_bytes = 8;
  std::uint32_t harts = 1;
  std::uint64_t tick_rate = 0;  ///< in ticks a second
  std::uint64_t start_ticks = 0;
  std::uint64_t boot = 0;  ///< distinguishes this boot of the target from others, with the precision of the clock
  bool from_boot = false;  ///< the stream begins with the first allocation of the boot
  StreamMode mode = StreamMode::kFull;  ///< mode at the start
  std::uint64_t minimum_bytes = 0;      ///< allocations of fewer bytes are left out
  std::uint64_t sample_bytes = 0;       ///< for StreamMode::kSampled
  std::uint32_t sample_seed = 0;        ///< for is_sampled(), for the whole stream
  std::uint32_t ring_bytes = 0;         ///< size of each hart's ring
  std::span<const std::uint8_t> build_id;
  std::string_view pattern;                     ///< names of the recorded sources
  std::span<const std::uint32_t> size_classes;  ///< for encoding; a decoded header has them in `classes`
  std::uint32_t class_count = 0;
  std::uint32_t classes[kMaxSizeClasses] = {};
};
/// @returns whether it fits.
[[nodiscard]] bool pack(ByteWriter& out, const StreamPrefix& prefix, const StreamHeader& header) noexcept;
/// @param[out] skipped incremented if the payload has fields that are not known here.
[[nodiscard]] Decoded unpack(std::span<const std::uint8_t> payload, StreamPrefix& prefix, StreamHeader& header,
                             std::uint32_t& skipped) noexcept;

// ---- definitions ----------------------------------------------------------------------------------------------------

enum class DefinitionKind : std::uint8_t {
  kSource = 1,
  kStack = 2,
  kCallSite = 3,
  kContext = 4,
};

enum class SourceKind : std::uint8_t {
  kCache = 0,
  kArena = 1,
  kHeapClass = 2,  ///< a cache of the heap
  kHeapArena = 3,  ///< an arena of the heap
};

inline constexpr std::size_t kMaxStackFrames = 64;

/// The meaning of a number in events. It is sent before the first event that has the number. A later definition of the
/// same number replaces it for the events that follow.
struct Definition {
  DefinitionKind kind = DefinitionKind::kSource;
  std::uint32_t number = 0;
  // kSource: name and
  SourceKind source_kind = SourceKind::kCache;
  std::uint64_t object_bytes = 0;     ///< usable bytes of a cache's object; an arena's quantum
  std::uint64_t allocated_bytes = 0;  ///< bytes that an object occupies; an arena's quantum plus a segment's header
  std::uint64_t outstanding = 0;      ///< objects or segments in use when the stream began
  std::uint32_t parent = 0;           ///< number of the arena that it imports from, + 1; 0: none, or not known
  // kStack
  std::uint32_t id = 0;    ///< the same in each boot of the image
  bool truncated = false;  ///< the stack has more frames
  bool collided = false;   ///< another stack of this boot has the same id
  std::uint32_t depth = 0;
  std::uint64_t frames[kMaxStackFrames] = {};  ///< return addresses, the innermost first
  // kCallSite: file in `name` and
  std::uint32_t line = 0;
  std::string_view module;
  std::string_view function;
  // kSource, kCallSite, kContext
  std::string_view name;
};

/// Encodes definitions into a payload.
class DefinitionEncoder {
 public:
  void begin(std::span<std::uint8_t> out, const StreamPrefix& prefix) noexcept;
  /// @returns false, with nothing changed, iff the definition does not fit.
  [[nodiscard]] bool add(const Definition& definition) noexcept;
  /// @returns the payload; empty if nothing was added.
  [[nodiscard]] std::span<const std::uint8_t> finish() const noexcept { return count_ != 0 ? out_.written() : empty_; }

 private:
  ByteWriter out_{{}};
  std::uint32_t count_ = 0;
  std::span<const std::uint8_t> empty_;
};

class DefinitionDecoder {
 public:
  Decoded begin(std::span<const std::uint8_t> payload, StreamPrefix& prefix) noexcept;
  /// Decodes the next definition into @p definition and skips those of unknown kind. @returns as EventDecoder::next().
  Decoded next(Definition& definition) noexcept;
  [[nodiscard]] std::uint32_t skipped() const noexcept { return skipped_; }

 private:
  ByteReader in_;
  std::uint32_t skipped_ = 0;
};

// ---- statistics -----------------------------------------------------------------------------------------------------

/// The target's own counts since the stream began, independent of the events: for one hart or one source.
struct Statistic {
  bool of_hart = false;      ///< otherwise of a source
  std::uint32_t number = 0;  ///< the hart index, or the source's number
  // of a hart
  std::uint64_t events = 0;  ///< put into its ring
  std::uint64_t lost = 0;    ///< not put into its ring, which was full
  // of a source: operations that its filter admits, before sampling, whether their events were sent or not
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t reallocations = 0;    ///< counted at the new block's source
  std::uint64_t requested_bytes = 0;  ///< of allocations, and of reallocations at the new block's source
  std::uint64_t allocated_bytes = 0;  ///< the same
  std::uint64_t freed_bytes = 0;      ///< of frees, and of reallocations at the old block's source: allocated bytes
};

/// The head of a statistics payload.
struct StatisticsHead {
  std::uint64_t ticks = 0;
  std::uint32_t snapshot = 0;  ///< number of the snapshot, which may take several frames
  bool first = false;          ///< first frame of its snapshot
  bool last = false;
  bool final = false;  ///< every hart had stopped: the counts equal those of the events
};

class StatisticsEncoder {
 public:
  void begin(std::span<std::uint8_t> out, const StreamPrefix& prefix, const StatisticsHead& head) noexcept;
  /// @returns false, with nothing changed, iff the statistic does not fit.
  [[nodiscard]] bool add(const Statistic& statistic) noexcept;
  /// @param[in] last whether the snapshot ends with this frame.
  [[nodiscard]] std::span<const std::uint8_t> finish(bool last) noexcept;

 private:
  std::span<std::uint8_t> buffer_;
  ByteWriter out_{{}};
};

class StatisticsDecoder {
 public:
  Decoded begin(std::span<const std::uint8_t> payload, StreamPrefix& prefix, StatisticsHead& head) noexcept;
  Decoded next(Statistic& statistic) noexcept;
  [[nodiscard]] std::uint32_t skipped() const noexcept { return skipped_; }

 private:
  ByteReader in_;
  std::uint32_t skipped_ = 0;
};

// ---- end ------------------------------------------------------------------------------------------------------------

/// The last frame of a stream that was stopped. Its number tells how many frames the stream had.
struct StreamEnd {
  std::uint64_t ticks = 0;   ///< time of the stop; in schema 1.0 time of this frame, after the rings were drained
  std::uint64_t events = 0;  ///< of all harts, including lost ones
  std::uint64_t lost = 0;    ///< those of `events` that were lost
};
[[nodiscard]] bool pack(ByteWriter& out, const StreamPrefix& prefix, const StreamEnd& end) noexcept;
[[nodiscard]] Decoded unpack(std::span<const std::uint8_t> payload, StreamPrefix& prefix, StreamEnd& end,
                             std::uint32_t& skipped) noexcept;

// ---- from the host --------------------------------------------------------------------------------------------------

/// Asks for definitions again: all (`kind` 0), or those of some numbers. If the host asks for all, the header is sent
/// again too.
struct Ask {
  static constexpr std::size_t kMaxNumbers = 64;
  std::uint8_t kind = 0;  ///< DefinitionKind, or 0
  std::uint32_t count = 0;
  std::uint32_t numbers[kMaxNumbers] = {};
};
[[nodiscard]] bool pack(ByteWriter& out, const Ask& ask) noexcept;
[[nodiscard]] Decoded unpack(std::span<const std::uint8_t> payload, Ask& ask) noexcept;

}  // namespace qm::wire
