#pragma once
/// The payloads of the event stream but for the events themselves (event.hpp): header, definitions, statistics, end,
/// and what a host sends. docs/protocol.md has every byte.
///
/// Invariants
///  1. Each payload from the target begins with the number of its stream and its own number in the stream, from 0
///     without a gap: a frame that is missing is known, also after others than the stream's.
///  2. Bytes behind the fields known here belong to a later minor version: they are skipped, and told as Decoded with a
///     count. Another major version means that nothing can be read.
///  3. Texts of what is decoded lie in the payload.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/wire/bytes.hpp>
#include <qm/wire/event.hpp>

namespace qm::wire {

inline constexpr std::uint8_t kSchemaMajor = 1;
inline constexpr std::uint8_t kSchemaMinor = 1;

/// What each payload of a stream begins with: 6 bytes.
struct StreamPrefix {
  std::uint16_t stream = 0;  ///< counts the streams since boot, from 1
  std::uint32_t number = 0;  ///< of this frame in the stream
};
void put_prefix(ByteWriter& out, const StreamPrefix& prefix) noexcept;
[[nodiscard]] StreamPrefix get_prefix(ByteReader& in) noexcept;

// ---- header ---------------------------------------------------------------------------------------------------------

/// What a stream is, first in it, and again whenever a host asks.
struct StreamHeader {
  static constexpr std::size_t kMaxBuildIdBytes = 32;
  static constexpr std::size_t kMaxSizeClasses = 160;

  std::uint8_t major = kSchemaMajor;
  std::uint8_t minor = kSchemaMinor;
  bool big_endian = false;  ///< the target is; the stream is little endian always
  std::uint8_t pointer_bytes = 8;
  std::uint32_t harts = 1;
  std::uint64_t tick_rate = 0;  ///< ticks a second
  std::uint64_t start_ticks = 0;
  std::uint64_t boot = 0;               ///< tells one boot of the target from another, as far as it can
  bool from_boot = false;               ///< it has the first allocation: nothing was allocated before
  StreamMode mode = StreamMode::kFull;  ///< at the start
  std::uint64_t minimum_bytes = 0;      ///< allocations of fewer bytes are left out
  std::uint64_t sample_bytes = 0;       ///< of StreamMode::kSampled
  std::uint32_t sample_seed = 0;        ///< of is_sampled(), for the whole stream
  std::uint32_t ring_bytes = 0;         ///< of each hart
  std::span<const std::uint8_t> build_id;
  std::string_view pattern;                     ///< names of what is recorded
  std::span<const std::uint32_t> size_classes;  ///< to encode; of a decoded header they are in `classes`
  std::uint32_t class_count = 0;
  std::uint32_t classes[kMaxSizeClasses] = {};
};
/// @returns whether it fitted.
[[nodiscard]] bool pack(ByteWriter& out, const StreamPrefix& prefix, const StreamHeader& header) noexcept;
/// @param[out] skipped +1 if it has more than is known here.
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

/// What a number in an event means. It comes before the first event that has the number; the same number again with
/// another meaning has it from there on.
struct Definition {
  DefinitionKind kind = DefinitionKind::kSource;
  std::uint32_t number = 0;
  // kSource: name and
  SourceKind source_kind = SourceKind::kCache;
  std::uint64_t object_bytes = 0;     ///< of a cache's object as the user may use it; of an arena its quantum
  std::uint64_t allocated_bytes = 0;  ///< what an object takes; of an arena its quantum and a segment's header
  std::uint64_t outstanding = 0;      ///< objects or segments that were out when the stream began
  std::uint32_t parent = 0;           ///< number of the arena it draws from + 1; 0: none, or not told
  // kStack
  std::uint32_t id = 0;    ///< the same in each boot of the image
  bool truncated = false;  ///< there were more frames
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

/// Puts definitions into a payload.
class DefinitionEncoder {
 public:
  void begin(std::span<std::uint8_t> out, const StreamPrefix& prefix) noexcept;
  /// @returns false, with nothing changed, iff it does not fit.
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
  /// Gives the next one in @p definition. Those of unknown kind are skipped. @returns as EventDecoder::next().
  Decoded next(Definition& definition) noexcept;
  [[nodiscard]] std::uint32_t skipped() const noexcept { return skipped_; }

 private:
  ByteReader in_;
  std::uint32_t skipped_ = 0;
};

// ---- statistics -----------------------------------------------------------------------------------------------------

/// What the target has counted itself since the stream began, apart from the events: of one hart or of one source.
struct Statistic {
  bool of_hart = false;      ///< else of a source
  std::uint32_t number = 0;  ///< the hart index, or the source's number
  // of a hart
  std::uint64_t events = 0;  ///< put into its ring
  std::uint64_t lost = 0;    ///< not put into its ring, which was full
  // of a source, whatever became of the events: those that its filter lets through, before sampling
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t reallocations = 0;    ///< counted where the block is then
  std::uint64_t requested_bytes = 0;  ///< by allocations, and by reallocations where the block is then
  std::uint64_t allocated_bytes = 0;  ///< the same
  std::uint64_t freed_bytes = 0;      ///< allocated bytes given back by frees, and by reallocations where the block was
};

/// What the entries of a payload belong to.
struct StatisticsHead {
  std::uint64_t ticks = 0;
  std::uint32_t snapshot = 0;  ///< counts them; one may take several frames
  bool first = false;          ///< frame of its snapshot
  bool last = false;
  bool final = false;  ///< every hart had stopped: equal to the events number for number
};

class StatisticsEncoder {
 public:
  void begin(std::span<std::uint8_t> out, const StreamPrefix& prefix, const StatisticsHead& head) noexcept;
  /// @returns false, with nothing changed, iff it does not fit.
  [[nodiscard]] bool add(const Statistic& statistic) noexcept;
  /// @param[in] last whether the snapshot ends here.
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

/// The last frame of a stream that was stopped: its number tells how many there were.
struct StreamEnd {
  std::uint64_t ticks = 0;   ///< of the stop; in schema 1.0 of this frame, after the rings were drained
  std::uint64_t events = 0;  ///< of all harts, lost ones included
  std::uint64_t lost = 0;    ///< of them
};
[[nodiscard]] bool pack(ByteWriter& out, const StreamPrefix& prefix, const StreamEnd& end) noexcept;
[[nodiscard]] Decoded unpack(std::span<const std::uint8_t> payload, StreamPrefix& prefix, StreamEnd& end,
                             std::uint32_t& skipped) noexcept;

// ---- from the host --------------------------------------------------------------------------------------------------

/// Asks for definitions again: all (`kind` 0), or those of some numbers. The header comes again as well if all are
/// asked for.
struct Ask {
  static constexpr std::size_t kMaxNumbers = 64;
  std::uint8_t kind = 0;  ///< DefinitionKind, or 0
  std::uint32_t count = 0;
  std::uint32_t numbers[kMaxNumbers] = {};
};
[[nodiscard]] bool pack(ByteWriter& out, const Ask& ask) noexcept;
[[nodiscard]] Decoded unpack(std::span<const std::uint8_t> payload, Ask& ask) noexcept;

}  // namespace qm::wire
