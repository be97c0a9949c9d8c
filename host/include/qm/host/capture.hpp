#pragma once
/// The capture file: every byte that went over a line, when it did, and what is needed to explain it elsewhere.
/// docs/capture-format.md fixes every byte.
///
///     preamble 24   signature 8 | major, minor, 0 | id 8 | crc 4
///     chunk         mark 1 | type 1 | length 2 | sequence 4 | time 8 | payload | crc 4 (over the id, too)
///
/// Invariants
///  1. What was given to the writer is in the file before its call returns: a killed recorder loses nothing that it
///     had.
///  2. The reader's memory does not depend on the file's size.
///  3. Every difference between what was written and what is read - bytes changed, cut off, put in, moved - is a
///     problem that the reader names; what is intact before and behind it is delivered nevertheless.

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

/// What a recorder knows before it begins. The keys are those of docs/capture-format.md.
using CaptureAbout = std::map<std::string, std::string, std::less<>>;

inline constexpr std::size_t kCapturePreambleBytes = 24;
inline constexpr std::size_t kChunkHeaderBytes = 16;
inline constexpr std::size_t kChunkCrcBytes = 4;
inline constexpr std::size_t kMaxChunkPayloadBytes = 65535;

class CaptureWriter {
 public:
  /// Begins the file @p path, which is written anew, with @p about.
  /// @throws Error kOpen if it cannot be created or written.
  CaptureWriter(const std::filesystem::path& path, const CaptureAbout& about);
  /// As above; what is random and what is the time is given.
  CaptureWriter(const std::filesystem::path& path, const CaptureAbout& about, std::uint64_t id);
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;
  /// Ends the file if end() was not called.
  ~CaptureWriter();

  /// Each writes before it returns. @throws Error kOpen if the file cannot take it: the disk is full.
  void received(std::string_view bytes);
  void sent(std::string_view bytes);
  void note(std::string_view text);
  /// Puts in the ELF file @p elf, compressed. @throws Error kInput if it cannot be read.
  void image(const std::filesystem::path& elf);
  void end(std::string_view why);

  /// As the times of all later chunks: for files that are the same each time.
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

/// One intact chunk. Its payload is the reader's until the next next().
struct Chunk {
  ChunkType type = ChunkType::kNote;
  std::uint32_t sequence = 0;
  std::uint64_t microseconds = 0;
  std::uint64_t offset = 0;   ///< in the file
  std::uint32_t missing = 0;  ///< chunks that should be before it and are not
  std::string_view payload;
};

/// Refuses what is no regular file: captures are read more than once, and a pipe has lost what was read from it.
/// @throws Error kInput; the message says what it is.
void require_regular_file(const std::filesystem::path& path);

class CaptureReader {
 public:
  /// Opens a capture and reads its preamble and *about*.
  /// @throws Error kInput if it cannot be opened, is no regular file, is empty, is none, is of another version, or its preamble is damaged:
  ///         the message says which.
  explicit CaptureReader(const std::filesystem::path& path);

  /// @returns false after the last chunk; problems() and complete() are final then. The *about* chunk is not delivered.
  [[nodiscard]] bool next(Chunk& chunk);

  [[nodiscard]] const CaptureAbout& about() const noexcept { return about_; }
  /// What is wrong with the file so far, a line each, in the order of the places; at most 100, then one that counts the
  /// rest.
  [[nodiscard]] const std::vector<std::string>& problems() const noexcept { return problems_; }
  /// Whether the file was written to its end and nothing is wrong with it. Valid after the last next().
  [[nodiscard]] bool complete() const noexcept { return problems_.empty() && ended_; }
  [[nodiscard]] std::uint64_t unknown_chunks() const noexcept { return unknown_chunks_; }
  [[nodiscard]] const std::string& end_reason() const noexcept { return end_reason_; }
  /// For a progress bar.
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
  std::uint64_t offset_ = 0;  // of the first byte in the window
  std::uint64_t file_bytes_ = 0;
  std::size_t delivered_ = 0;  // bytes of the chunk that next() has delivered
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

/// Puts the ELF file in a capture together again.
/// @returns whether the capture holds one, whole, which is @p to now; one that is larger than *about* says, or than
///          1 GiB, is none.
/// @throws Error kInput if the capture cannot be read, kOpen if @p to cannot be written.
bool extract_image(const std::filesystem::path& capture, const std::filesystem::path& to);

}  // namespace qm::host
