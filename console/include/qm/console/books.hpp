#pragma once
/// What a console asks of the books beside its commands. This class is what an image without the trace has: it knows
/// nothing and does nothing. An image with it makes a TraceBooks (trace_books.hpp), which brings the commands of the
/// trace along.

#include <array>
#include <cstdint>
#include <string_view>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/console/output.hpp>
#include <qm/wire/stream.hpp>

namespace qm::console {

class Books {
 public:
  /// Which stacks held the most when memory ran out.
  struct Holders {
    static constexpr unsigned kStacks = 10;
    struct Stack {
      std::uint32_t handle;
      std::uint32_t objects;
      std::uint32_t bytes;
    };
    Status status = Status::kOk;  ///< kBusy: the stacks were being counted for somebody else; kUnsafe: no time for it
    unsigned count = 0;           ///< of `stacks`
    std::array<Stack, kStacks> stacks{};
    std::uint32_t all = 0;      ///< stacks with objects out
    std::uint64_t objects = 0;  ///< of all of them, and of none
    std::uint64_t bytes = 0;
    std::uint64_t dropped = 0;  ///< allocations without a record
    bool whole = false;         ///< whether what is out is all told
  };

  Books(const Books&) = delete;
  Books& operator=(const Books&) = delete;

  // ---- the event stream and what a hart has not answered; context: the console's task

  /// Sends of the event stream what waits, a few frames at most. @returns whether there was anything.
  virtual bool send(std::uint64_t now_ms) noexcept {
    (void)now_ms;
    return false;
  }
  /// In an idle moment: ends what a hart had not answered. @returns whether that is done, and a notice says so.
  virtual bool finish(std::uint64_t now_ms) noexcept {
    (void)now_ms;
    return false;
  }
  /// Whether time alone gives send() or finish() something to do, and how soon. O(1).
  [[nodiscard]] virtual bool waiting() const noexcept { return false; }
  [[nodiscard]] virtual unsigned poll_ms() const noexcept { return 100; }
  /// Sends again what a host asks for of the event stream.
  virtual void answer(const wire::Ask& ask) noexcept { (void)ask; }

  // ---- reports of exhaustion

  /// Looks up who holds the most now. Context: of ExhaustionConfig::report. Allocates nothing.
  virtual void find_holders(Holders& holders) noexcept { (void)holders; }
  /// Prints their stacks.
  virtual void print_stacks(Output& out, const Holders& holders) noexcept {
    (void)out;
    (void)holders;
  }
  /// Prints the report's last line. @param[in] whole whether the rest of the report is.
  virtual void print_totals(Output& out, const Holders& holders, bool whole) noexcept;

  // ---- what is recorded of an object

  /// Prints what was done by the stack with that handle, as a report of misuse does; nothing if there is none:
  /// `  freed by packet_free+0x3a < rx_deliver+0x12, stack 0x5a31c2e7`.
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

  /// Those of an image without the trace.
  static Books none;

 protected:
  constexpr Books() noexcept = default;
  ~Books() = default;
};

}  // namespace qm::console
