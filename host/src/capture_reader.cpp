#include <qm/host/capture.hpp>

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include "capture_bytes.hpp"

namespace qm::host {
namespace {

constexpr std::size_t kReadBytes = std::size_t{1} << 18;
constexpr std::size_t kMostChunkBytes = kChunkHeaderBytes + kMaxChunkPayloadBytes + kChunkCrcBytes;
constexpr std::size_t kMostProblems = 100;
// A compressed chunk expands to at most about a thousand times its size, so the size of the image needs a bound.
constexpr std::uint64_t kMostImageBytes = std::uint64_t{1} << 30;

std::string count_of(std::uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

CaptureAbout parse_about(std::string_view text) {
  CaptureAbout about;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos) about[std::string(line.substr(0, space))] = line.substr(space + 1);
  }
  return about;
}

/// @returns the largest permitted size of the image in a capture: the size in *about*, if there is one, but at most
///          kMostImageBytes.
std::uint64_t image_bytes(const CaptureAbout& about) {
  std::uint64_t bytes = kMostImageBytes;
  const auto told = about.find("image-bytes");
  if (told != about.end()) std::from_chars(told->second.data(), told->second.data() + told->second.size(), bytes);
  return std::min(bytes, kMostImageBytes);
}

}  // namespace

void require_regular_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  const auto refuse = [&](const std::string& why) { throw Error(Fault::kInput, path.string() + ": " + why); };
  if (!std::filesystem::status_known(status) || !std::filesystem::exists(status)) refuse(error.message());
  if (std::filesystem::is_directory(status)) refuse("a directory, no file");
  if (!std::filesystem::is_regular_file(status))
    refuse("a pipe or a device: it is read more than once, so put it into a file first");
}

CaptureReader::CaptureReader(const std::filesystem::path& path) : path_(path) {
  const auto refuse = [&](const std::string& why) { throw Error(Fault::kInput, path_.string() + ": " + why); };
  require_regular_file(path_);
  file_.reset(std::fopen(path.c_str(), "rbe"));
  if (file_ == nullptr) refuse(std::strerror(errno));
  std::error_code ignored;
  file_bytes_ = std::filesystem::file_size(path_, ignored);
  if (ignored) file_bytes_ = 0;
  if (!fill(kCapturePreambleBytes)) {
    if (window().empty()) refuse("empty, no capture");
    if (!kCaptureSignature.starts_with(window().substr(0, kCaptureSignature.size()))) refuse("no capture");
    refuse("cut short: " + count_of(window().size(), "byte") + " of a capture's " +
           std::to_string(kCapturePreambleBytes) + " first");
  }
  const std::string_view preamble = window().substr(0, kCapturePreambleBytes);
  if (!preamble.starts_with(kCaptureSignature)) refuse("no capture");
  if (!preamble_at_front()) refuse("a damaged capture: its first 24 bytes are not intact");
  if (static_cast<std::uint8_t>(preamble[8]) != kCaptureMajor) {
    refuse("a capture of format version " + std::to_string(static_cast<std::uint8_t>(preamble[8])) +
           ", this program reads " + std::to_string(kCaptureMajor));
  }
  id_ = number_at(preamble, 12, 8);
  consume(kCapturePreambleBytes);
  if (const std::size_t bytes = chunk_at_front();
      bytes != 0 && static_cast<ChunkType>(window()[1]) == ChunkType::kAbout) {
    about_ = parse_about(window().substr(kChunkHeaderBytes, bytes - kChunkHeaderBytes - kChunkCrcBytes));
    Chunk first;
    first.sequence = static_cast<std::uint32_t>(number_at(window(), 4, 4));
    check_order(first);
    consume(bytes);
  }
}

bool CaptureReader::next(Chunk& chunk) {
  consume(std::exchange(delivered_, 0));
  while (!finished_) {
    std::size_t bytes = chunk_at_front();
    if (ended_ && bytes == 0) {
      take_rest();
      break;
    }
    if (bytes == 0) {
      if (!skip_to_chunk()) break;
      bytes = chunk_at_front();
    }
    if (ended_) problem("a chunk at byte " + std::to_string(offset_) + " comes after the end of the capture");
    const std::string_view at = window();
    chunk.type = static_cast<ChunkType>(at[1]);
    chunk.sequence = static_cast<std::uint32_t>(number_at(at, 4, 4));
    chunk.microseconds = number_at(at, 8, 8);
    chunk.offset = offset_;
    chunk.payload = at.substr(kChunkHeaderBytes, bytes - kChunkHeaderBytes - kChunkCrcBytes);
    const bool in_order = chunk.sequence >= expected_;
    check_order(chunk);
    // A chunk that is out of order is reported and skipped: its bytes would be taken for later ones.
    if (!in_order) {
      consume(bytes);
      continue;
    }
    if (chunk.microseconds < last_time_)
      problem("chunk " + std::to_string(chunk.sequence) + " is older than the one before it");
    last_time_ = chunk.microseconds;
    switch (chunk.type) {
      case ChunkType::kReceived: received_bytes_ += chunk.payload.size(); break;
      case ChunkType::kSent: sent_bytes_ += chunk.payload.size(); break;
      case ChunkType::kAbout: problem("a second beginning in chunk " + std::to_string(chunk.sequence)); break;
      case ChunkType::kEnd: take_end(chunk.payload); break;
      case ChunkType::kImage:
      case ChunkType::kNote: break;
      default: ++unknown_chunks_; break;
    }
    delivered_ = bytes;
    return true;
  }
  finish();
  return false;
}

/// Reads on until the window has @p wanted bytes. @returns false if the file ends before that.
bool CaptureReader::fill(std::size_t wanted) {
  while (buffer_.size() - begin_ < wanted && !at_end_) {
    if (begin_ != 0) {
      buffer_.erase(0, begin_);
      begin_ = 0;
    }
    const std::size_t had = buffer_.size();
    const std::uint64_t left = file_bytes_ > offset_ + had ? file_bytes_ - offset_ - had : 1;
    const std::size_t asked = file_bytes_ == 0 ? kReadBytes : std::min<std::uint64_t>(kReadBytes, left);
    buffer_.resize(had + asked);
    const std::size_t count = std::fread(buffer_.data() + had, 1, asked, file_.get());
    buffer_.resize(had + count);
    if (count != 0) continue;
    at_end_ = true;
    if (std::ferror(file_.get()) != 0) throw Error(Fault::kInput, path_.string() + ": " + std::strerror(errno));
  }
  return buffer_.size() - begin_ >= wanted;
}

void CaptureReader::consume(std::size_t count) noexcept {
  begin_ += count;
  offset_ += count;
}

/// @returns the length of the intact chunk at the beginning of the window; 0 if there is none.
std::size_t CaptureReader::chunk_at_front() {
  if (!fill(kChunkHeaderBytes) || static_cast<std::uint8_t>(window()[0]) != kChunkMark) return 0;
  // A time above two thousand years is impossible. Without this check, a run of marks would be searched once for each
  // of its bytes.
  if (window()[kChunkHeaderBytes - 1] != 0) return 0;
  const std::size_t bytes = kChunkHeaderBytes + number_at(window(), 2, 2) + kChunkCrcBytes;
  if (!fill(bytes)) return 0;
  const std::string_view chunk = window().substr(0, bytes);
  return chunk_crc(id_, chunk.substr(0, bytes - kChunkCrcBytes)) == number_at(chunk, bytes - kChunkCrcBytes, 4) ? bytes
                                                                                                                : 0;
}

/// Skips bytes that belong to no chunk, and reports them. @returns false if no chunk follows.
bool CaptureReader::skip_to_chunk() {
  const std::uint64_t from = offset_;
  while (fill(1)) {
    (void)fill(kMostChunkBytes);
    if (preamble_at_front()) {
      problem("a second capture begins at byte " + std::to_string(offset_) + ": captures cannot be concatenated");
    }
    if (offset_ != from && chunk_at_front() != 0) break;
    const std::size_t mark = std::min(window().find(static_cast<char>(kChunkMark), 1), window().size());
    consume(std::min(window().substr(0, mark).find(kCaptureSignature[0], 1), mark));
  }
  if (offset_ == from) return false;
  problem(count_of(offset_ - from, "byte") + " from byte " + std::to_string(from) + " on are " +
          (window().empty()
               ? "no whole chunk: the recorder was killed while it wrote, the file was cut short, or they are damaged"
               : "damaged"));
  return !window().empty();
}

/// Reports data after the end of the capture, without searching it.
void CaptureReader::take_rest() {
  if (!fill(1)) return;
  if (preamble_at_front()) {
    problem("a second capture begins at byte " + std::to_string(offset_) + ": captures cannot be concatenated");
  } else {
    problem("there is more after the end of the capture, from byte " + std::to_string(offset_) + " on");
  }
}

bool CaptureReader::preamble_at_front() {
  return fill(kCapturePreambleBytes) && window().starts_with(kCaptureSignature) &&
         crc_of(window().substr(0, 20)) == number_at(window(), 20, 4);
}

void CaptureReader::check_order(Chunk& chunk) {
  if (chunk.sequence < expected_) {
    problem("chunk " + std::to_string(chunk.sequence) + " at byte " + std::to_string(offset_) +
            " is out of order or a repetition: chunk " + std::to_string(expected_) + " was to come");
    return;
  }
  chunk.missing = chunk.sequence - expected_;
  if (chunk.missing != 0) {
    problem(count_of(chunk.missing, "chunk") + " missing before byte " + std::to_string(offset_) + ", from chunk " +
            std::to_string(expected_) + " on");
  }
  expected_ = chunk.sequence + 1;
}

void CaptureReader::take_end(std::string_view payload) {
  ended_ = true;
  if (payload.size() < 16) return problem("the end of the capture is too short");
  end_reason_ = payload.substr(16);
  const std::uint64_t received = number_at(payload, 0, 8), sent = number_at(payload, 8, 8);
  if (received != received_bytes_ || sent != sent_bytes_) {
    problem("the recorder got " + std::to_string(received) + " bytes and sent " + std::to_string(sent) + ", but " +
            std::to_string(received_bytes_) + " and " + std::to_string(sent_bytes_) + " are here");
  }
}

void CaptureReader::finish() {
  if (finished_) return;
  finished_ = true;
  if (expected_ == 0) problem("not one chunk");
  if (!ended_) problem("no end: the recorder was killed, or the file was cut short");
  if (more_problems_ != 0) problems_.push_back("and " + count_of(more_problems_, "more problem"));
}

void CaptureReader::problem(std::string text) {
  if (problems_.size() < kMostProblems) {
    problems_.push_back(std::move(text));
  } else {
    ++more_problems_;
  }
}

bool extract_image(const std::filesystem::path& capture, const std::filesystem::path& to) {
  CaptureReader reader(capture);
  const std::uint64_t most = image_bytes(reader.about());
  std::uint64_t written = 0;
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) throw Error(Fault::kInput, "zlib cannot be started");
  const std::unique_ptr<z_stream, decltype(&inflateEnd)> release(&stream, &inflateEnd);
  std::ofstream out;
  std::vector<char> room(std::size_t{1} << 18);
  int status = Z_OK;
  for (Chunk chunk; status == Z_OK && reader.next(chunk);) {
    if (chunk.type != ChunkType::kImage) continue;
    if (!out.is_open()) out.open(to, std::ios::binary | std::ios::trunc);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(chunk.payload.data()));
    stream.avail_in = static_cast<uInt>(chunk.payload.size());
    while (status == Z_OK && stream.avail_in != 0) {
      stream.next_out = reinterpret_cast<Bytef*>(room.data());
      stream.avail_out = static_cast<uInt>(room.size());
      status = inflate(&stream, Z_NO_FLUSH);
      const std::size_t count = room.size() - stream.avail_out;
      if (count > most - written) return false;
      written += count;
      out.write(room.data(), static_cast<std::streamsize>(count));
    }
  }
  if (out.is_open() && !out.flush())
    throw Error(Fault::kOpen, "cannot write " + to.string() + ": " + std::strerror(errno));
  return status == Z_STREAM_END;
}

}  // namespace qm::host
