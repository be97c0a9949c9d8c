#pragma once
/// Connects the trace to a console: the trace's commands, the event stream over the serial line, stacks in reports.
///
///     static console::Console console(line, {...});
///     static console::Trace trace(console);   // adds slab_trace, slab_stacks, mark and the other commands
///     console.start();
///
/// An image that makes no Trace does not link these commands, and links of the layer trace/ only the parts that it
/// uses itself.

#include <cstdint>

#include <qm/console/trace_backend.hpp>
#include <qm/console/console.hpp>
#include <qm/console/stream_server.hpp>

namespace qm::console {

class Trace final : public TraceBackend {
 public:
  /// Time between two tries to complete a stop that a hart has not answered.
  static constexpr std::uint64_t kStopRetryMs = 200;
  static constexpr std::uint32_t kStopPatienceMs = 10;  ///< longest time that one such try blocks the console

  /// Makes @p console use this trace. The console must not be called after this object is destroyed. Context: as the
  /// constructor of Console.
  explicit Trace(Console& console) noexcept;

  bool send(std::uint64_t now_ms) noexcept override { return stream_.pump(now_ms); }
  bool finish(std::uint64_t now_ms) noexcept override;
  [[nodiscard]] bool waiting() const noexcept override;
  [[nodiscard]] unsigned poll_ms() const noexcept override { return stream_.busy() ? 5 : 100; }  // rings fill meanwhile
  void answer(const wire::Ask& ask) noexcept override { stream_.answer(ask); }

  /// Complexity: O(stacks) and O(records), without a lock. In a context that may not wait, such as an interrupt
  /// handler, it only sets `status` to kUnsafe.
  void find_holders(Holders& holders) noexcept override;
  void print_stacks(Output& out, const Holders& holders) noexcept override;
  void print_totals(Output& out, const Holders& holders, bool whole) noexcept override;

  void print_deed(Output& out, std::string_view what, std::uint32_t handle) noexcept override;
  void print_record(Output& out, Cache& cache, void* object) noexcept override;
  void print_record(Output& out, Arena& arena, std::uintptr_t start) noexcept override;

 private:
  static void send_frame(void* console, wire::FrameType type, std::span<const std::uint8_t> payload) noexcept;

  Console& console_;
  std::uint64_t stop_tried_ms_ = 0;
  StreamServer stream_;
};

}  // namespace qm::console
