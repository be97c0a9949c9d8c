#pragma once
/// The event stream: each allocation and free of the selected caches and arenas, in the order in which they happen.
/// Each hart puts its events into a ring, and one reader empties the rings. The reader decides what it does with the
/// events; see console/stream_server.hpp.
///
///     start   HOLD: every per-hart cache closed on every hart; then HOLD|STREAM: each operation puts an event
///     stop    clear STREAM; ask every hart, so that none still puts events; clear HOLD: the per-hart caches
///             open; the reader empties the rings
///
/// Invariants
/// - S1 An event is put in the masked section of its operation: an allocation's after the object was taken, a free's
///      before the object is given back. So the global number agrees with cause and effect, and a hart's events are in
///      the order of its operations.
/// - S2 No operation waits for the reader: an event that finds no room is dropped and counted, and the stream shows its
///      place.
/// - S3 Counters beside the events count every operation, including those whose event is dropped or left out of the
///      sample. They start at 0 while every per-hart cache is closed and no hart puts events, and are final when stop
///      has returned.
/// - S4 Until a stream is over, its sources keep their numbers, and the reader can look up what events refer to.
/// - S5 The rings are allocated at the start and freed at the end of the stream; its figures stay.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/trace/live_trace.hpp>
#include <qm/wire/stream.hpp>

namespace qm::trace {

struct StreamOptions {
  std::string_view pattern = "*";  ///< a name or a glob; matching sources that are created later join
  std::size_t minimum_bytes = 0;   ///< caches of smaller objects and smaller segments are left out
  std::size_t sample_bytes = 0;    ///< 0: every event; otherwise see wire::is_sampled()
};

/// Default size of each hart's ring, in bytes.
inline constexpr std::size_t kRingBytes = 32768;
inline constexpr std::size_t kMaxRingBytes = std::size_t{1} << 26;

/// Sets the size of the rings, rounded down to a power of two of entries.
/// @returns kBusy: a stream is on, or the reader has not ended it; kInvalid: too small or too large.
Status set_ring_bytes(std::size_t bytes) noexcept;

/// Starts a stream. If it returns kOk, every later operation puts an event. Otherwise nothing has changed, except that
/// after kTimedOut and kAborted the figures of the previous stream are lost and a stream number is used up.
/// @returns as start(); kBusy also while a stream is on or its reader has not ended it; kNoMemory: no memory for the
///          rings.
/// Context: as start().
CommandResult start_stream(const StreamOptions& options, hal::AbortTest abort = nullptr,
                           std::uint32_t deadline_ms = hal::kBroadcastDeadlineMs) noexcept;

/// Ends the stream. After it has returned kOk, no event is put, and the counters are final.
/// @returns as start(); kNotFound if no stream is on. After kTimedOut and kAborted, try again.
CommandResult stop_stream(hal::AbortTest abort = nullptr,
                          std::uint32_t deadline_ms = hal::kBroadcastDeadlineMs) noexcept;

/// Changes the mode to @p mode on every online hart; each hart puts a note at that place. A hart that comes online
/// later continues in the mode that it had. @returns as stop_stream(). Context: as start().
CommandResult change_stream_mode(wire::StreamMode mode, hal::AbortTest abort = nullptr,
                                 std::uint32_t deadline_ms = hal::kBroadcastDeadlineMs) noexcept;

enum class StreamState : std::uint8_t {
  kOff,
  kOn,
  kEnding,  ///< stopped; the reader has not ended it
};

struct StreamFigures {
  StreamState state = StreamState::kOff;
  std::uint16_t number = 0;  ///< of the last stream, from 1; 0: none yet
  wire::StreamMode mode = wire::StreamMode::kFull;
  wire::StreamMode first_mode = wire::StreamMode::kFull;  ///< at the start
  std::uint64_t boot = 0;  ///< distinguishes this boot from others, with the precision of the clock
  StreamOptions options;
  std::size_t ring_bytes = 0;  ///< of each hart
  std::uint64_t start_ticks = 0;
  std::uint64_t stop_ticks = 0;  ///< kEnding: no event has a later time
  bool from_boot = false;
  std::uint32_t seed = 0;
  std::uint64_t events = 0;  ///< read so far
  std::uint64_t lost = 0;
  std::uint32_t waiting = 0;  ///< entries in all rings
  unsigned sources = 0;
  std::uint32_t unjoined = 0;  ///< sources created meanwhile that could not join, because memory was lacking
};
[[nodiscard]] StreamFigures stream_figures() noexcept;
/// The state alone. Complexity: O(1).
[[nodiscard]] StreamState stream_state() noexcept;

/// Starts a stream that also has the earlier allocations of this boot: the segments that the arenas have allocated
/// before appear as allocations without a stack. The boot calls it, before other harts run.
CommandResult start_stream_at_boot(const StreamOptions& options) noexcept;

// ---- the functions of the reader: one reader at a time --------------------------------------------------------------

/// The number of entries in the ring of @p hart.
[[nodiscard]] std::uint32_t events_waiting(unsigned hart) noexcept;
/// Takes the oldest event or note of @p hart. @returns false if the ring is empty. Complexity: O(1).
[[nodiscard]] bool next_event(unsigned hart, wire::Event& event) noexcept;

/// Fills in the definition of a number. Its texts stay valid until the stream ends. @returns false if nothing has this
/// number.
[[nodiscard]] bool define_source(std::uint32_t number, wire::Definition& definition) noexcept;
[[nodiscard]] bool define_stack(std::uint32_t number, wire::Definition& definition) noexcept;
[[nodiscard]] bool define_call_site(std::uint32_t number, wire::Definition& definition) noexcept;
[[nodiscard]] bool define_context(std::uint32_t number, wire::Definition& definition) noexcept;
/// Notes that a definition is sent. @returns whether it was sent before in this stream; true for numbers without a
/// definition.
[[nodiscard]] bool mark_defined(wire::DefinitionKind kind, std::uint32_t number) noexcept;
/// Forgets which definitions were sent.
void forget_defined() noexcept;
/// The highest number of a source, and of a context; numbers begin at 1.
[[nodiscard]] std::uint32_t last_source() noexcept;
[[nodiscard]] std::uint32_t last_context() noexcept;

/// The counters of hart @p hart, and of source @p number over all harts; exact once the stream has stopped.
[[nodiscard]] wire::Statistic hart_statistic(unsigned hart) noexcept;
/// @returns false if the stream does not have this source.
[[nodiscard]] bool source_statistic(std::uint32_t number, wire::Statistic& statistic) noexcept;

/// Ends the stream, after the reader has emptied the rings, and frees its memory, except after a panic.
/// Context: kEnding.
void end_stream() noexcept;

}  // namespace qm::trace
