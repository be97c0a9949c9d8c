#include <qm/host/capture.hpp>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>

#include "capture_bytes.hpp"

namespace qm::host {
namespace {

std::uint64_t random_id() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

/// @returns a value of *about* as one line, whatever characters it has.
std::string one_line(std::string_view value) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char byte : value) {
    const auto code = static_cast<unsigned char>(byte);
    if (code >= 0x20 && code != 0x7f && byte != '\\') {
      out += byte;
    } else {
      out += {'\\', 'x', kHex[code >> 4], kHex[code & 15]};
    }
  }
  return out;
}

}  // namespace

CaptureWriter::CaptureWriter(const std::filesystem::path& path, const CaptureAbout& about)
    : CaptureWriter(path, about, random_id()) {}

CaptureWriter::CaptureWriter(const std::filesystem::path& path, const CaptureAbout& about, std::uint64_t id)
    : path_(path), descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)), id_(id) {
  if (descriptor_ < 0)
    throw Error(Fault::kOpen, "cannot create the capture " + path_.string() + ": " + std::strerror(errno));
  std::string preamble(kCaptureSignature);
  preamble += {static_cast<char>(kCaptureMajor), static_cast<char>(kCaptureMinor), 0, 0};
  append(preamble, id_, 8);
  append(preamble, crc_of(preamble), 4);
  write_all(preamble);
  std::string text;
  for (const auto& [key, value] : about) text += key + " " + one_line(value) + "\n";
  put(ChunkType::kAbout, std::string_view(text).substr(0, kMaxChunkPayloadBytes));
}

CaptureWriter::~CaptureWriter() {
  try {
    if (!ended_) end("the recorder gave up");
  } catch (const Error&) {  // the file is cut short; a reader will report that
  }
  close(descriptor_);
}

void CaptureWriter::received(std::string_view bytes) {
  received_bytes_ += bytes.size();
  put(ChunkType::kReceived, bytes);
}

void CaptureWriter::sent(std::string_view bytes) {
  sent_bytes_ += bytes.size();
  put(ChunkType::kSent, bytes);
}

void CaptureWriter::note(std::string_view text) { put(ChunkType::kNote, text.substr(0, kMaxChunkPayloadBytes)); }

void CaptureWriter::image(const std::filesystem::path& elf) {
  std::ifstream file(elf, std::ios::binary);
  if (!file) throw Error(Fault::kInput, "cannot read the image " + elf.string() + ": " + std::strerror(errno));
  z_stream stream{};
  if (deflateInit(&stream, Z_DEFAULT_COMPRESSION) != Z_OK) throw Error(Fault::kOpen, "zlib cannot be started");
  const std::unique_ptr<z_stream, decltype(&deflateEnd)> release(&stream, &deflateEnd);
  std::vector<char> in(std::size_t{1} << 18), out(kMaxChunkPayloadBytes);
  int status = Z_OK;
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  while (status != Z_STREAM_END) {
    if (stream.avail_in == 0 && file) {
      file.read(in.data(), static_cast<std::streamsize>(in.size()));
      stream.next_in = reinterpret_cast<Bytef*>(in.data());
      stream.avail_in = static_cast<uInt>(file.gcount());
    }
    status = deflate(&stream, file ? Z_NO_FLUSH : Z_FINISH);
    if (stream.avail_out != 0 && status != Z_STREAM_END) continue;
    put(ChunkType::kImage, {out.data(), out.size() - stream.avail_out});
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
  }
}

void CaptureWriter::end(std::string_view why) {
  std::string payload;
  append(payload, received_bytes_, 8);
  append(payload, sent_bytes_, 8);
  payload += why.substr(0, 1000);
  put(ChunkType::kEnd, payload);
  ended_ = true;
}

void CaptureWriter::put(ChunkType type, std::string_view payload) {
  do {
    const std::string_view piece = payload.substr(0, kMaxChunkPayloadBytes);
    payload.remove_prefix(piece.size());
    std::string chunk;
    chunk.reserve(kChunkHeaderBytes + piece.size() + kChunkCrcBytes);
    chunk += {static_cast<char>(kChunkMark), static_cast<char>(type)};
    append(chunk, piece.size(), 2);
    append(chunk, sequence_++, 4);
    append(chunk, type == ChunkType::kAbout ? 0 : now(), 8);
    chunk += piece;
    append(chunk, chunk_crc(id_, chunk), 4);
    write_all(chunk);
  } while (!payload.empty());
}

void CaptureWriter::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      throw Error(Fault::kOpen, "cannot write the capture " + path_.string() + ": " + std::strerror(errno));
    }
  }
}

std::uint64_t CaptureWriter::now() const noexcept {
  if (fixed_clock_ != kRunning) return fixed_clock_;
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start_).count());
}

}  // namespace qm::host
