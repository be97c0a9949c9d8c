#pragma once
/// The interface through which a console uses the trace, apart from its commands. An image without the trace uses this
/// class, which does nothing. An image with the trace makes a Trace (trace.hpp), which also links the
/// trace's commands.

#include <array>
#include <cstdint>
#include <string_view>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/console/output.hpp>
#include <qm/wire/stream.hpp>

namespace qm::console {

class TraceBackend {
 public:
  /// The stacks that held the most memory when an allocation failed.
  struct Holders {
    static constexpr unsigned kStacks = 10;
    struct Stack {
      std::uint32_t handle;
      std::uint32_t objects;
      std::uint32_t bytes;
    };
    Status status = Status::kOk;  ///< kBusy: another report was counting stacks; kUnsafe: the context may not wait
    unsigned count = 0;           ///< of `stacks`
    std::array<Stack, kStacks> stacks{};
    std::uint32_t all = 0;      ///< stacks with live objects
    std::uint64_t objects = 0;  ///< live objects with any stack, and those without a stack
    std::uint64_t bytes = 0;    ///< of these objects
    std::uint64_t dropped = 0;  ///< allocations without a record
    bool whole = false;         ///< whether the figures include every live object with its whole stack
  };

  TraceBackend(const TraceBackend&) = delete;
  TraceBackend& operator=(const TraceBackend&) = delete;

  // ---- the event stream, and stops that a hart has not answered; context: the console's task

  /// Sends at most a few frames of the event stream. @returns whether there was anything to send.
  virtual bool send(std::uint64_t now_ms) noexcept {
    (void)now_ms;
    return false;
  }
  /// Retries a stop of the trace that a hart has not answered. To be called when the console is idle. @returns whether
  /// the stop is now complete; a notice has reported it.
  virtual bool finish(std::uint64_t now_ms) noexcept {
    (void)now_ms;
    return false;
  }
  /// Whether send() or finish() may have work without new input. Complexity: O(1).
  [[nodiscard]] virtual bool waiting() const noexcept { return false; }
  /// The longest time until their next call while waiting(), in milliseconds. Complexity: O(1).
  [[nodiscard]] virtual unsigned poll_ms() const noexcept { return 100; }
  /// Sends again the definitions of the event stream that a host asks for.
  virtual void answer(const wire::Ask& ask) noexcept { (void)ask; }

  // ---- reports of exhaustion

  /// Finds the stacks that hold the most now. Allocates nothing. Context: as ExhaustionConfig::report.
  virtual void find_holders(Holders& holders) noexcept { (void)holders; }
  /// Prints the stacks in @p holders.
  virtual void print_stacks(Output& out, const Holders& holders) noexcept {
    (void)out;
    (void)holders;
  }
  /// Prints the report's last line. @param[in] whole whether the rest of the report is complete.
  virtual void print_totals(Output& out, const Holders& holders, bool whole) noexcept;

  // ---- the record of an object

  /// Prints a line of a report of misuse: @p what was done, and the stack with @p handle that did it. Prints nothing if
  /// there is no such stack. Example: `  freed by packet_free+0x3a < rx_deliver+0x12, stack 0x5a31c2e7`.
  virtual void print_deed(Output& out, std::string_view what, std::uint32_t handle) noexcept {
    (void)out;
    (void)what;
    (void)handle;
  }
  /// Prints the record of an object, or of the segment that begins at @p start; nothing if there is none.
  virtual void print_record(Output& out, Cache& cache, void* object) noexcept {
    (void)out;
    (void)cache;
    (void)object;
  }
  virtual void print_record(Output& out, Arena& arena, std::uintptr_t start) noexcept {
    (void)out;
    (void)arena;
    (void)start;
  }

  /// The instance for an image without the trace.
  static TraceBackend none;

 protected:
  constexpr TraceBackend() noexcept = default;
  ~TraceBackend() = default;
};

}  // namespace qm::console
