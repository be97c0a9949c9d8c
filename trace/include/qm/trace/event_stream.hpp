#pragma once
/// The event stream: each allocation and free of the chosen caches and arenas, in the order in which they happen, from
/// rings that the harts fill and one reader empties. What the reader does with the events is its own affair: see
/// console/stream_server.hpp.
///
///     start   HOLD every cell closed on every hart; then HOLD|STREAM: each operation is told
///     stop    clear STREAM; every hart asked, so that none still tells; clear HOLD, the cells open; the reader empties the rings
///
/// Invariants
/// - S1 An operation is told in the masked section that does it: an allocation after the object was taken, a free
///      before it is given back. So the global number agrees with cause and effect, and a hart's order is that of its
///      operations.
/// - S2 Nobody waits for the reader: an event that finds no room is dropped and counted, and its place is told.
/// - S3 Counters beside the events count every operation that is told, dropped or sampled away as well. They begin at 0
///      while every cell is closed and nobody tells, and are whole when stop has answered.
/// - S4 While a stream is not over, its sources keep their numbers, and what events refer to can be looked up.
/// - S5 The rings are taken at the start and given back at the end of the stream; its figures stay.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/trace/live_trace.hpp>
#include <qm/wire/stream.hpp>

namespace qm::trace {

struct StreamOptions {
  std::string_view pattern = "*";  ///< a name or a glob; sources that are made later join if it matches
  std::size_t minimum_bytes = 0;   ///< caches of smaller objects and smaller segments are left out
  std::size_t sample_bytes = 0;    ///< 0: every event; else wire::is_sampled()
};

/// Bytes of each hart's ring, if nobody says anything else.
inline constexpr std::size_t kRingBytes = 32768;
inline constexpr std::size_t kMaxRingBytes = std::size_t{1} << 26;

/// Sets the size of the rings, rounded down to a power of two of entries.
/// @returns kBusy: a stream is on, or its reader has not ended it; kInvalid: too small or too large.
Status set_ring_bytes(std::size_t bytes) noexcept;

/// Starts a stream. Everything is told from the moment it answers, or nothing has changed; but after kTimedOut and
/// kAborted the figures of the stream before are gone, and a number is taken.
/// @returns as start(); kBusy also while a stream is on or not at its end; kNoMemory: for the rings.
/// Context: as start().
CommandResult start_stream(const StreamOptions& options, hal::AbortTest abort = nullptr,
                           std::uint32_t deadline_ms = hal::kRoundDeadlineMs) noexcept;

/// Ends the stream. When it answers kOk, nothing is told any more, and the counters are whole.
/// @returns as start(); kNotFound if none is on. After kTimedOut and kAborted try again.
CommandResult stop_stream(hal::AbortTest abort = nullptr, std::uint32_t deadline_ms = hal::kRoundDeadlineMs) noexcept;

/// Goes over to @p mode on every hart that is online, each telling so in its place; one that comes online later goes on
/// in the mode that it had. @returns as stop_stream(). Context: as start().
CommandResult change_stream_mode(wire::StreamMode mode, hal::AbortTest abort = nullptr,
                                 std::uint32_t deadline_ms = hal::kRoundDeadlineMs) noexcept;

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
  std::uint64_t boot = 0;                                 ///< tells this boot from others, as far as times can
  StreamOptions options;
  std::size_t ring_bytes = 0;  ///< of each hart
  std::uint64_t start_ticks = 0;
  std::uint64_t stop_ticks = 0;  ///< kEnding: no event is younger
  bool from_boot = false;
  std::uint32_t seed = 0;
  std::uint64_t events = 0;  ///< read so far
  std::uint64_t lost = 0;
  std::uint32_t waiting = 0;  ///< entries in all rings
  unsigned sources = 0;
  std::uint32_t unjoined = 0;  ///< sources made meanwhile that could not join, for want of memory
};
[[nodiscard]] StreamFigures stream_figures() noexcept;
/// The state alone. O(1).
[[nodiscard]] StreamState stream_state() noexcept;

/// Remembers that the stream about to be started has what was allocated before as well: what the arenas had given out
/// is told as allocations without a stack. To be called by the boot, before other harts run.
CommandResult start_stream_at_boot(const StreamOptions& options) noexcept;

// ---- the reader's part: one at a time -------------------------------------------------------------------------------

/// Entries that wait in the ring of @p hart.
[[nodiscard]] std::uint32_t events_waiting(unsigned hart) noexcept;
/// Takes the oldest event or note of @p hart. @returns false if none waits. Complexity: O(1).
[[nodiscard]] bool next_event(unsigned hart, wire::Event& event) noexcept;

/// Fills in what a number means. Texts stay until the stream is ended. @returns false if nothing has that number.
[[nodiscard]] bool define_source(std::uint32_t number, wire::Definition& definition) noexcept;
[[nodiscard]] bool define_stack(std::uint32_t number, wire::Definition& definition) noexcept;
[[nodiscard]] bool define_call_site(std::uint32_t number, wire::Definition& definition) noexcept;
[[nodiscard]] bool define_context(std::uint32_t number, wire::Definition& definition) noexcept;
/// Notes that a definition is sent. @returns whether it was sent already in this stream; all numbers without a meaning
/// were.
[[nodiscard]] bool mark_defined(wire::DefinitionKind kind, std::uint32_t number) noexcept;
/// Forgets that any was sent.
void forget_defined() noexcept;
/// Highest number of a source, and of a context; numbers begin at 1.
[[nodiscard]] std::uint32_t last_source() noexcept;
[[nodiscard]] std::uint32_t last_context() noexcept;

/// The counters of hart @p hart, and of source @p number over all harts; exact once the stream has stopped.
[[nodiscard]] wire::Statistic hart_statistic(unsigned hart) noexcept;
/// @returns false if the source is none of the stream's.
[[nodiscard]] bool source_statistic(std::uint32_t number, wire::Statistic& statistic) noexcept;

/// The rings are empty and all has been told: the stream is over, and its memory is given back, unless after a panic.
/// Context: kEnding.
void end_stream() noexcept;

}  // namespace qm::trace
