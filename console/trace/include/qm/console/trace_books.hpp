#pragma once
/// The trace under a console: its commands, the event stream over the line, stacks in reports.
///
///     static console::Console console(line, {...});
///     static console::TraceBooks books(console);   // slab_trace, slab_stacks, mark and the like are there
///     console.start();
///
/// An image that makes none has neither these commands nor, of the layer trace/, anything that it does not use itself.

#include <cstdint>

#include <qm/console/books.hpp>
#include <qm/console/console.hpp>
#include <qm/console/stream_server.hpp>

namespace qm::console {

class TraceBooks final : public Books {
 public:
  /// Between two tries to end a stop that a hart has not answered.
  static constexpr std::uint64_t kStopRetryMs = 200;
  static constexpr std::uint32_t kStopPatienceMs = 10;  ///< how long such a try holds the console up

  /// Becomes the books of @p console, which it must not outlive by a call of the console's. Context: as Console's
  /// constructor.
  explicit TraceBooks(Console& console) noexcept;

  bool send(std::uint64_t now_ms) noexcept override { return stream_.pump(now_ms); }
  bool finish(std::uint64_t now_ms) noexcept override;
  [[nodiscard]] bool waiting() const noexcept override;
  [[nodiscard]] unsigned poll_ms() const noexcept override { return stream_.busy() ? 5 : 100; }  // rings fill meanwhile
  void answer(const wire::Ask& ask) noexcept override { stream_.answer(ask); }

  /// Complexity: O(stacks) and O(records), without a lock; nothing where nobody may wait, as in an interrupt handler.
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
