// Capture files of arbitrary bytes, and of chunks with correct checksums and wrong contents: the reader must end, and
// be complete only if the capture has an end.
//
//     input   u8: even: an unchanged file; odd: chunks follow, each: u8 type, u8 step of the sequence, u8 bytes, payload

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <string>

#include <qm/host/capture.hpp>
#include <qm/host/events.hpp>
#include <qm/host/stream_reader.hpp>

#include "mutation.hpp"

namespace {

using namespace qm;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void append(std::string& out, std::uint64_t value, unsigned bytes) {
  for (; bytes-- != 0; value >>= 8) out += static_cast<char>(value & 0xff);
}

std::uint32_t crc_of(const std::string& bytes) {
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

std::string chunks_of(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kId = 0x0807060504030201;
  std::string file("\x89QMC\r\n\x1a\n\x01\x00\x00\x00", 12);
  append(file, kId, 8);
  append(file, crc_of(file), 4);
  std::uint32_t sequence = 0;
  std::string id;
  append(id, kId, 8);
  while (size >= 3) {
    const std::size_t bytes = std::min<std::size_t>(data[2], size - 3);
    std::string chunk("\xc7");
    append(chunk, data[0] % 8, 1);
    append(chunk, bytes, 2);
    append(chunk, sequence, 4);
    append(chunk, sequence * 1000, 8);
    chunk.append(reinterpret_cast<const char*>(data + 3), bytes);
    append(chunk, crc_of(id + chunk), 4);
    file += chunk;
    sequence += data[1] % 4 == 3 ? data[1] : 1;
    data += 3 + bytes;
    size -= 3 + bytes;
  }
  return file;
}

class Handler : public host::EventHandler {
 public:
  void on_event(const host::Event&) override {}
};

/// A file in memory, reused by all runs.
class MemoryFile {
 public:
  void put(const std::string& bytes) const {
    if (ftruncate(descriptor_, 0) != 0 || pwrite(descriptor_, bytes.data(), bytes.size(), 0) < 0)
      fail("no memory file");
  }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_ = memfd_create("capture", MFD_CLOEXEC);
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MemoryFile file;
  if (size == 0) return 0;
  file.put(data[0] % 2 == 0 ? std::string(reinterpret_cast<const char*>(data + 1), size - 1)
                            : chunks_of(data + 1, size - 1));
  try {
    host::CaptureReader reader(file.path());
    std::uint64_t received = 0;
    host::ChunkType last = host::ChunkType::kNote;
    for (host::Chunk chunk; reader.next(chunk);) {
      received += chunk.payload.size();
      last = chunk.type;
    }
    if (received > size + 1) fail("more than was there");
    if (reader.complete() && last != host::ChunkType::kEnd) fail("complete without an end");
    Handler handler;
    host::read_events(file.path(), handler);
    (void)host::extract_image(file.path(), "/dev/null");
  } catch (const host::Error& error) {
    if (error.fault() != host::Fault::kInput) fail(error.what());
  }
  return 0;
}

#ifndef QM_LIBFUZZER
int main(int count, char** arguments) {
  return qm::test::fuzz(count, arguments, {QM_CORPUS "/capture"}, 5'000, LLVMFuzzerTestOneInput);
}
#endif
