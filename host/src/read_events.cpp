#include <qm/host/stream_reader.hpp>

#include <vector>

#include <qm/host/capture.hpp>
#include <qm/host/counted.hpp>
#include <qm/wire/demultiplexer.hpp>

namespace qm::host {
namespace {

// As long as for the console: after this silence the target has abandoned the frame.
constexpr std::uint64_t kSilenceMicroseconds = std::uint64_t{10} * wire::kSilenceMs * 1000;
constexpr std::uint64_t kProgressBytes = std::uint64_t{1} << 20;

/// The frames in a capture.
class Frames {
 public:
  explicit Frames(const std::filesystem::path& path)
      : reader_(path),
        buffer_(wire::Demultiplexer::buffer_bytes(wire::kMaxPayloadBytes)),
        demultiplexer_(buffer_, wire::Demultiplexer::Side::kHost, 1) {}

  /// Passes each frame to @p take. @returns false at the end of the capture.
  template <class Take>
  bool next_chunk(Take&& take) {
    Chunk chunk;
    if (!reader_.next(chunk)) return false;
    if (chunk.type != ChunkType::kReceived) return true;
    const bool silent = chunk.microseconds > last_ + kSilenceMicroseconds;
    if (demultiplexer_.waiting() && (silent || chunk.missing != 0)) (void)demultiplexer_.timeout();
    last_ = chunk.microseconds;
    for (const char byte : chunk.payload) {
      if (demultiplexer_.push(static_cast<std::uint8_t>(byte)).frame) take(demultiplexer_.frame());
    }
    return true;
  }

  [[nodiscard]] const CaptureReader& reader() const noexcept { return reader_; }
  [[nodiscard]] std::uint32_t broken() const noexcept { return demultiplexer_.broken(); }

 private:
  CaptureReader reader_;
  std::vector<std::uint8_t> buffer_;
  wire::Demultiplexer demultiplexer_;
  std::uint64_t last_ = 0;
};

}  // namespace

void read_events(const std::filesystem::path& capture, EventHandler& handler, const ReadOptions& options) {
  Frames frames(capture);
  StreamReader streams(handler);
  streams.on_unknown([&] {
    // Lost definitions may have been requested again, and may have arrived later.
    Frames later(capture);
    while (later.next_chunk([&](const wire::Frame& frame) { streams.adopt(frame); })) {
    }
  });
  std::uint64_t told = 0;
  while (frames.next_chunk([&](const wire::Frame& frame) { (void)streams.take(frame); })) {
    if (!options.progress || frames.reader().offset() < told + kProgressBytes) continue;
    told = frames.reader().offset();
    options.progress(told, frames.reader().file_bytes());
  }
  CaptureEnd end;
  for (const std::string& problem : frames.reader().problems()) end.problems.push_back({problem});
  end.complete = frames.reader().complete();
  end.unknown = frames.reader().unknown_chunks();
  if (frames.broken() != 0) end.notes.push_back(counted(frames.broken(), "frame") + " arrived broken");
  streams.finish(std::move(end));
}

}  // namespace qm::host
