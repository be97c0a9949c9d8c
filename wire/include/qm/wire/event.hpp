#pragma once
/// One event, and the payload of an events frame. docs/protocol.md has every byte.
///
///     events payload                                     one event
///     stream, number       (stream.hpp)                  u8      tag: operation, and which fields follow
///     varint  hart                                       u8      which rare fields follow                 if any
///     varint  the hart's number of the first event       varint  ticks since the event before
///     varint  ticks at the first event                   varint  events of other harts in between         if any
///     u32     global number of the first event           varint  context, source                          if they change
///     u16     records that follow                        varint  distance of the address, see 4
///     ..      events and notes                           ..      size, stack, and the rare fields
///
/// Invariants
///  1. A frame has events of one hart, in their order, and is complete in itself: it is decoded the same way whichever
///     frames before it were lost.
///  2. A hart's events are numbered without a gap, including dropped events: a note in their place has their number.
///  3. An event has only one encoding, except for fields that a later minor version adds.
///  4. An address is encoded as the distance from the previous address of the same source, in units of 16 bytes if the
///     distance is a multiple. Both sides remember 64 sources of a frame; a source that replaces another one in this
///     memory begins at the last address of the frame.

#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/wire/bytes.hpp>

namespace qm::wire {

/// The result of decoding a payload or a part of one.
enum class Decoded : std::uint8_t {
  kOk,
  kEnd,        ///< nothing follows
  kMalformed,  ///< truncated, a number out of range, or not the only encoding
};

enum class Operation : std::uint8_t {
  kAllocate = 0,
  kFree = 1,
  kReallocate = 2,  ///< from `address` to `new_address`; the two are equal if it was resized in place
  kLost = 3,        ///< a note: here the hart dropped `lost` events because its ring was full
  kMode = 4,        ///< a note: from here on the hart records by `mode` and `sample_bytes`
};

/// Which operations become events. Statistics count all operations in each mode.
enum class StreamMode : std::uint8_t {
  kFull = 0,
  kSampled = 1,   ///< see is_sampled()
  kCounters = 2,  ///< no events
};

/// Stands for the size in the source's definition, which is not encoded: in a cache's event that of its objects. In the
/// event of an arena's segment, `allocated` is then segment_bytes().
inline constexpr std::uint64_t kSourceSize = UINT64_MAX;

/// Usable bytes of an arena's segment: the header and the requested bytes take whole quanta.
/// @param[in] quantum, with_header object_bytes and allocated_bytes of the arena's definition.
constexpr std::uint64_t segment_bytes(std::uint64_t requested, std::uint64_t quantum,
                                      std::uint64_t with_header) noexcept {
  const std::uint64_t header = with_header > quantum ? with_header - quantum : 0;
  const std::uint64_t bytes = requested + header;
  const std::uint64_t over = quantum != 0 ? bytes % quantum : 0;
  return bytes + (over != 0 ? quantum - over : 0) - header;
}

/// One event or note. Fields that the operation does not use have the values here.
struct Event {
  Operation operation = Operation::kAllocate;
  std::uint32_t hart = 0;
  std::uint64_t hart_number = 0;          ///< of this event among the hart's, from 0; in a note: of the next event
  std::uint32_t global_number = 0;        ///< order over all harts that agrees with cause and effect; modulo 2^32;
                                          ///< in a note: the lowest number that the next event can have
  std::uint64_t ticks = 0;                ///< the target's clock
  std::uint32_t context = 0;              ///< 0: not known
  std::uint32_t source = 0;               ///< the cache or arena; in a reallocation the old one
  std::uint64_t address = 0;              ///< in a reallocation the old one
  std::uint64_t requested = kSourceSize;  ///< requested bytes: kAllocate, kReallocate
  std::uint64_t allocated = kSourceSize;  ///< bytes allocated or freed
  std::uint32_t stack = 0;                ///< number of the stack's definition, 0: none
  std::uint32_t call_site = 0;            ///< number of the call site's definition, 0: none
  std::uint32_t flags = 0;                ///< AllocationFlag bits of the allocation
  std::uint32_t new_source = 0;           ///< kReallocate
  std::uint64_t new_address = 0;          ///< kReallocate
  std::uint64_t lost = 0;                 ///< kLost
  StreamMode mode = StreamMode::kFull;    ///< kMode
  std::uint64_t sample_bytes = 0;         ///< kMode

  friend bool operator==(const Event&, const Event&) = default;
};

enum AllocationFlag : std::uint32_t {
  kAtomic = 1,   ///< the allocation may not wait
  kWait = 2,     ///< the allocation may wait for frees
  kZeroed = 4,   ///< not set by this version
  kAligned = 8,  ///< to more than its size class is; not set by this version
};

/// The last addresses, sizes and stacks of a frame; the encoder and the decoder each keep one.
class EventMemory {
 public:
  struct Place {
    std::uint32_t source = 0;
    bool used = false;
    std::uint32_t stack = 0;
    std::uint64_t address = 0;
  };
  static constexpr std::size_t kPlaces = 64;

  void clear() noexcept {
    for (Place& place : places_) place = {};
    last_ = 0;
  }
  Place& at(std::uint32_t source) noexcept {
    Place& place = places_[source % kPlaces];
    if (!place.used || place.source != source) place = {source, true, 0, last_};
    return place;
  }
  void moved(Place& place, std::uint64_t address) noexcept { place.address = last_ = address; }

 private:
  Place places_[kPlaces];
  std::uint64_t last_ = 0;
};

/// Encodes events of one hart into the payload of one frame.
class EventEncoder {
 public:
  /// No event or note is longer. A payload with less room left is full.
  static constexpr std::size_t kMaxEventBytes = 112;

  /// Begins a payload in @p out, which has kMaxPayloadBytes bytes. Its first event is @p first.
  void begin(std::span<std::uint8_t> out, std::uint16_t stream, std::uint32_t number, const Event& first) noexcept;

  /// Adds an event or a note. Its hart and hart number must continue the payload; they are not checked.
  /// @returns false, with nothing changed, iff the payload is full: finish() it and begin another one with this event.
  [[nodiscard]] bool add(const Event& event) noexcept;

  /// Changes the payload's number, for callers that know it only later.
  void set_number(std::uint32_t number) noexcept;

  /// @returns the payload; empty if it has no event.
  [[nodiscard]] std::span<const std::uint8_t> finish() noexcept;

  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

 private:
  void add_note(const Event& event) noexcept;
  void distance(EventMemory::Place& place, std::uint64_t address) noexcept;

  ByteWriter out_{{}};
  std::span<std::uint8_t> buffer_;
  EventMemory memory_;
  std::size_t count_at_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t global_number_ = 0;
  std::uint64_t ticks_ = 0;
  std::uint32_t context_ = 0;
  std::uint32_t source_ = 0;
};

/// Decodes the payload of one events frame.
class EventDecoder {
 public:
  /// Begins with @p payload, which must stay valid. @returns kMalformed iff its head is malformed; next() then returns
  /// the same.
  Decoded begin(std::span<const std::uint8_t> payload) noexcept;

  /// Decodes the next event or note into @p event.
  /// @returns kOk; kEnd after the last; kMalformed iff the bytes are not an event. After kMalformed every call returns
  ///          it; the events before it are valid.
  Decoded next(Event& event) noexcept;

  [[nodiscard]] std::uint16_t stream() const noexcept { return stream_; }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::uint32_t hart() const noexcept { return hart_; }
  /// The hart's number of the next event.
  [[nodiscard]] std::uint64_t hart_number() const noexcept { return hart_number_; }
  /// The number of skipped items of a later minor version: fields, notes and trailing bytes.
  [[nodiscard]] std::uint32_t skipped() const noexcept { return skipped_; }

 private:
  Decoded note(std::uint8_t tag, Event& event) noexcept;
  void fields(std::uint8_t tag, Event& event) noexcept;
  std::uint64_t distance(EventMemory::Place& place) noexcept;

  ByteReader in_;
  EventMemory memory_;
  std::uint16_t stream_ = 0;
  std::uint32_t number_ = 0;
  std::uint32_t hart_ = 0;
  std::uint64_t hart_number_ = 0;
  bool at_start_ = true;  // no record yet
  bool first_ = true;     // no event yet
  std::uint32_t left_ = 0;
  std::uint32_t global_number_ = 0;
  std::uint64_t ticks_ = 0;
  std::uint32_t context_ = 0;
  std::uint32_t source_ = 0;
  std::uint32_t skipped_ = 0;
};

/// @returns whether an event about @p size bytes at @p address is in the sample of one in @p sample_bytes: always if @p
///          size is at least @p sample_bytes, otherwise with a probability of size / sample_bytes over all seeds. The
///          result is the same for an object's allocation and its free, so no state is kept per object. Complexity:
///          O(1), without a division.
/// @param[in] threshold sample_threshold() of the size.
[[nodiscard]] constexpr bool is_sampled(std::uint64_t address, std::uint32_t seed, std::uint32_t threshold) noexcept {
  std::uint32_t hash =
      (static_cast<std::uint32_t>(address >> 3) ^ static_cast<std::uint32_t>(address >> 35) ^ seed) * 0x9e3779b1u;
  hash = (hash ^ hash >> 15) * 0x85ebca77u;
  return (hash ^ hash >> 13) <= threshold;
}

/// The probability of an event about @p size bytes, as the largest hash that belongs to the sample.
[[nodiscard]] constexpr std::uint32_t sample_threshold(std::uint64_t size, std::uint64_t sample_bytes) noexcept {
  if (size >= sample_bytes) return UINT32_MAX;
  if (size == 0) size = 1;
  // Halve both until the product fits.
  while (size >> 32 != 0) {
    size >>= 1;
    sample_bytes >>= 1;
  }
  const std::uint64_t quotient = (size << 32) / sample_bytes;
  return quotient != 0 ? static_cast<std::uint32_t>(quotient - 1) : 0;
}

/// The weight of an event in the sample: the inverse of its probability.
[[nodiscard]] constexpr double sample_weight(std::uint64_t size, std::uint64_t sample_bytes) noexcept {
  return 4294967296.0 / (static_cast<double>(sample_threshold(size, sample_bytes)) + 1.0);
}

}  // namespace qm::wire
