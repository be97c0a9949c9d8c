#pragma once
/// All bytes of a line, in a file for people to read after a failure:
///
///        0.102431 < Quartermaster 0.1.0 build 5f0c, 4 harts, 128 MiB, formats 2\r\n
///       0.102519 > \e\Pm...\e\\                      bytes sent
///        0.102520 * sent request 1: help              remarks
///
/// The number is seconds since the beginning; `<` marks bytes from the target, `>` bytes to it. Control characters,
/// bytes above 0x7e and the backslash are escaped (\r \n \t \e \\ \xNN); a line of the file ends after each \n of the
/// stream.
///
/// A full file is renamed to NAME.older.transcript, which replaces the previous one, and a new file begins. So the end
/// is kept: at least kMostBytes of it, at most twice as many.

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <qm/host/error.hpp>

namespace qm::host {

class Transcript {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;  ///< of one file

  /// Creates a new file in the directory that the environment variable QM_TRANSCRIPTS names, else in
  /// `quartermaster-UID` in the directory for temporary files. It removes the oldest files of the directory, so that at
  /// most 200 remain.
  /// @throws Error kOpen if the file cannot be created.
  Transcript();

  /// Creates the file @p path. @param[in] most_bytes of one file.
  /// @throws Error kOpen if it cannot be created.
  explicit Transcript(const std::filesystem::path& path, std::size_t most_bytes = kMostBytes);

  /// @returns a transcript without a file, which keeps nothing: for a line that is recorded in another way.
  static Transcript none() { return Transcript(nullptr); }

  void received(std::string_view bytes) { bytes_passed('<', bytes); }
  void sent(std::string_view bytes) { bytes_passed('>', bytes); }

  /// Writes @p text as a remark on a line of its own; control characters are escaped.
  void note(std::string_view text);

  /// @returns the file; empty if there is none.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };

  explicit Transcript(std::nullptr_t) {}

  void bytes_passed(char mark, std::string_view bytes);
  void begin_line(char mark);
  void put(std::string_view text);
  void begin_another();

  std::filesystem::path path_;
  std::size_t most_bytes_ = kMostBytes;
  std::size_t bytes_ = 0;                   // bytes in the file
  std::unique_ptr<std::FILE, Close> file_;  // nullptr: nothing is kept
  Clock::time_point start_ = Clock::now();
  char open_mark_ = 0;  // mark of the line that is not yet ended; 0: there is none
};

/// @returns @p bytes with control characters, bytes above 0x7e and backslashes escaped.
[[nodiscard]] std::string escaped(std::string_view bytes);

}  // namespace qm::host
