#pragma once
/// The capture file: every byte that went over a serial line, the time of each, and the data needed to explain them
/// elsewhere. docs/capture-format.md specifies every byte.
///
///     preamble 24   signature 8 | major, minor, 0 | id 8 | crc 4
///     chunk         mark 1 | type 1 | length 2 | sequence 4 | time 8 | payload | crc 4 (over the id, too)
///
/// Invariants
///  1. Data given to the writer is in the file before the call returns: a killed recorder loses none of the data that
///     it had.
///  2. The reader's memory does not depend on the file's size.
///  3. The reader reports every difference between the written and the read file (bytes changed, cut off, inserted or
///     moved) as a problem, and still delivers the intact chunks before and after it.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <qm/host/error.hpp>

namespace qm::host {

enum class ChunkType : std::uint8_t { kAbout = 1, kReceived = 2, kSent = 3, kImage = 4, kNote = 5, kEnd = 6 };

/// The data that a recorder has before it begins. docs/capture-format.md has the keys.
using CaptureAbout = std::map<std::string, std::string, std::less<>>;

inline constexpr std::size_t kCapturePreambleBytes = 24;
inline constexpr std::size_t kChunkHeaderBytes = 16;
inline constexpr std::size_t kChunkCrcBytes = 4;
inline constexpr std::size_t kMaxChunkPayloadBytes = 65535;

class CaptureWriter {
 public:
  /// Creates or truncates the file @p path and writes @p about.
  /// @throws Error kOpen if it cannot be created or written.
  CaptureWriter(const std::filesystem::path& path, const CaptureAbout& about);
  /// As above, with a given id instead of a random one.
  CaptureWriter(const std::filesystem::path& path, const CaptureAbout& about, std::uint64_t id);
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;
  /// Ends the file if end() was not called.
  ~CaptureWriter();

  /// Each of these writes before it returns. @throws Error kOpen if writing fails, for example because the disk is
  /// full.
  void received(std::string_view bytes);
  void sent(std::string_view bytes);
  void note(std::string_view text);
  /// Adds the ELF file @p elf, compressed. @throws Error kInput if it cannot be read.
  void image(const std::filesystem::path& elf);
  void end(std::string_view why);

  /// Sets the time of all later chunks, for files that are the same each time.
  void set_clock(std::uint64_t microseconds) noexcept { fixed_clock_ = microseconds; }

  [[nodiscard]] std::uint64_t received_bytes() const noexcept { return received_bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  static constexpr std::uint64_t kRunning = ~std::uint64_t{0};

  void put(ChunkType type, std::string_view payload);
  void write_all(std::string_view bytes);
  [[nodiscard]] std::uint64_t now() const noexcept;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t id_;
  std::uint32_t sequence_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t sent_bytes_ = 0;
  Clock::time_point start_ = Clock::now();
  std::uint64_t fixed_clock_ = kRunning;
  bool ended_ = false;
};

/// One intact chunk. The reader owns its payload, which is valid until the next next().
struct Chunk {
  ChunkType type = ChunkType::kNote;
  std::uint32_t sequence = 0;
  std::uint64_t microseconds = 0;
  std::uint64_t offset = 0;   ///< position in the file
  std::uint32_t missing = 0;  ///< number of chunks that are missing before this one
  std::string_view payload;
};

/// Refuses a file that is not regular: a capture is read more than once, and data read from a pipe is gone.
/// @throws Error kInput; the message says what kind of file it is.
void require_regular_file(const std::filesystem::path& path);

class CaptureReader {
 public:
  /// Opens a capture and reads its preamble and its *about* chunk.
  /// @throws Error kInput if it cannot be opened, is not a regular file, is empty, is not a capture, has another
  ///          version, or has a damaged preamble: the message says which.
  explicit CaptureReader(const std::filesystem::path& path);

  /// @returns false after the last chunk; then problems() and complete() are final. The *about* chunk is not delivered.
  [[nodiscard]] bool next(Chunk& chunk);

  [[nodiscard]] const CaptureAbout& about() const noexcept { return about_; }
  /// The problems of the file so far, one line each, in file order; at most 100, then one line with the number of the
  /// others.
  [[nodiscard]] const std::vector<std::string>& problems() const noexcept { return problems_; }
  /// Whether the file was written to its end and has no problems. Valid after the last next().
  [[nodiscard]] bool complete() const noexcept { return problems_.empty() && ended_; }
  [[nodiscard]] std::uint64_t unknown_chunks() const noexcept { return unknown_chunks_; }
  [[nodiscard]] const std::string& end_reason() const noexcept { return end_reason_; }
  /// The position in the file, for a progress bar.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return file_bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  [[nodiscard]] bool fill(std::size_t wanted);
  void consume(std::size_t count) noexcept;
  [[nodiscard]] std::size_t chunk_at_front();
  [[nodiscard]] bool skip_to_chunk();
  void take_rest();
  [[nodiscard]] bool preamble_at_front();
  void finish();
  void check_order(Chunk& chunk);
  void take_end(std::string_view payload);
  void problem(std::string text);
  [[nodiscard]] std::string_view window() const noexcept { return std::string_view(buffer_).substr(begin_); }

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::string buffer_;
  std::size_t begin_ = 0;
  bool at_end_ = false;
  std::uint64_t offset_ = 0;  // position of the window's first byte
  std::uint64_t file_bytes_ = 0;
  std::size_t delivered_ = 0;  // bytes of the chunk that next() returned last
  std::uint64_t id_ = 0;
  std::uint32_t expected_ = 0;
  std::uint64_t last_time_ = 0;
  std::uint64_t received_bytes_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::uint64_t unknown_chunks_ = 0;
  std::uint64_t more_problems_ = 0;
  CaptureAbout about_;
  std::vector<std::string> problems_;
  std::string end_reason_;
  bool ended_ = false;
  bool finished_ = false;
};

/// Restores the ELF file in a capture.
/// @returns whether the capture holds a complete ELF file, which is then in @p to; a file larger than *about* says, or
///          than 1 GiB, does not count.
/// @throws Error kInput if the capture cannot be read, kOpen if @p to cannot be written.
bool extract_image(const std::filesystem::path& capture, const std::filesystem::path& to);

}  // namespace qm::host
