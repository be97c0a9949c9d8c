#include <qm/host/transcript.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <system_error>
#include <vector>

namespace qm::host {
namespace {

constexpr std::size_t kKept = 200;

std::filesystem::path directory() {
  if (const char* named = std::getenv("QM_TRANSCRIPTS"); named != nullptr && *named != 0) return named;
  const char* temporary = std::getenv("TMPDIR");
  const std::filesystem::path base = temporary != nullptr && *temporary != 0 ? temporary : "/tmp";
  return base / ("quartermaster-" + std::to_string(getuid()));
}

/// Removes the oldest files. A file's name begins with the time, so the order of names is the order of age.
void remove_oldest(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> transcripts;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".transcript") transcripts.push_back(entry.path());
  }
  if (transcripts.size() < kKept) return;
  std::sort(transcripts.begin(), transcripts.end());
  for (std::size_t i = 0; i + kKept <= transcripts.size(); ++i) std::filesystem::remove(transcripts[i], ignored);
}

std::filesystem::path new_file() {
  const std::filesystem::path folder = directory();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw Error(Fault::kOpen,
                "cannot create the folder of the transcripts, " + folder.string() + ": " + error.message());
  }
  remove_oldest(folder);
  static unsigned serial = 0;
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char name[80];
  std::snprintf(name, sizeof name, "%04d%02d%02d-%02d%02d%02d-%ld-%u.transcript", local.tm_year + 1900,
                local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, static_cast<long>(getpid()),
                ++serial);
  return folder / name;
}

}  // namespace

std::string escaped(std::string_view bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char byte : bytes) {
    const auto code = static_cast<unsigned char>(byte);
    switch (byte) {
      case '\r': out += "\\r"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\x1b': out += "\\e"; break;
      case '\\': out += "\\\\"; break;
      default:
        if (code >= 0x20 && code < 0x7f) {
          out += byte;
        } else {
          out += "\\x";
          out += kHex[code >> 4];
          out += kHex[code & 15];
        }
    }
  }
  return out;
}

Transcript::Transcript() : Transcript(new_file()) {}

Transcript::Transcript(const std::filesystem::path& path, std::size_t most_bytes)
    : path_(path), most_bytes_(most_bytes), file_(std::fopen(path.c_str(), "we")) {
  if (file_ == nullptr) {
    throw Error(Fault::kOpen, "cannot create the transcript " + path_.string() + ": " + std::strerror(errno));
  }
}

void Transcript::note(std::string_view text) {
  if (file_ == nullptr) return;
  begin_line('*');
  put(escaped(text) + "\n");
  open_mark_ = 0;
  std::fflush(file_.get());
}

void Transcript::bytes_passed(char mark, std::string_view bytes) {
  while (file_ != nullptr && !bytes.empty()) {
    if (bytes_ >= most_bytes_) begin_another();
    if (open_mark_ != mark) begin_line(mark);
    // A frame is a line of text without an end. It is cut into pieces, so that a file can end inside a stream.
    const std::size_t end = std::min({bytes.find('\n'), bytes.size() - 1, most_bytes_ / 8}) + 1;
    put(escaped(bytes.substr(0, end)));
    if (bytes[end - 1] == '\n') {
      put("\n");
      open_mark_ = 0;
    }
    bytes.remove_prefix(end);
  }
  if (file_ != nullptr) std::fflush(file_.get());
}

void Transcript::begin_line(char mark) {
  if (open_mark_ != 0) put("\n");
  const std::chrono::duration<double> since = Clock::now() - start_;
  char text[40];
  std::snprintf(text, sizeof text, "%12.6f %c ", since.count(), mark);
  put(text);
  open_mark_ = mark;
}

void Transcript::put(std::string_view text) {
  if (file_ == nullptr) return;
  std::fwrite(text.data(), 1, text.size(), file_.get());
  bytes_ += text.size();
}

/// Continues in a new file. If it cannot be created, nothing more is kept: the line works without a transcript.
void Transcript::begin_another() {
  std::filesystem::path older = path_;
  older.replace_extension(".older" + path_.extension().string());
  file_.reset();
  std::error_code ignored;
  std::filesystem::rename(path_, older, ignored);
  file_.reset(std::fopen(path_.c_str(), "we"));
  bytes_ = 0;
  open_mark_ = 0;
  note("goes on from " + older.string());
}

}  // namespace qm::host
