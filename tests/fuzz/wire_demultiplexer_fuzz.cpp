// The demultiplexer with damaged streams: text and frames, armoured or raw, in a random mixture, then with bytes
// changed, lost, doubled and inserted. In all cases the resulting text was in the stream, in that order; each resulting
// frame is one that was sent; and the next line and the next frame are received, where frames are raw after one frame
// that may be lost.
//
// Compiled with -fsanitize=fuzzer (clang), it is a libFuzzer target; else it runs a fixed number of seeded streams.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <qm/test/seed.hpp>
#include <qm/wire/demultiplexer.hpp>

namespace {

using namespace qm::wire;

constexpr std::size_t kPayloadRoom = 64;

[[noreturn]] void fail(const char* what, const std::string& stream) {
  std::fprintf(stderr, "%s; the stream:\n", what);
  for (const char byte : stream) std::fprintf(stderr, "%02x ", static_cast<std::uint8_t>(byte));
  std::fprintf(stderr, "\n");
  std::abort();
}

std::string frame(const std::string& payload, bool raw = false) {
  const Frame sent{FrameType::kRequest, 1, 5, as_bytes(payload)};
  std::string line(armoured_size(payload.size()), ' ');
  line.resize(raw ? encode_raw(sent, line) : encode(sent, line));
  return line;
}

/// @returns the frame that announces raw frames.
std::string announcement() {
  const auto payload = pack(LineForm{true});
  std::string line(armoured_size(payload.size()), ' ');
  line.resize(encode({FrameType::kForm, 0, 0, payload}, line));
  return line;
}

/// Pushes @p stream and checks the output. @param[in] sent the payloads of all frames in it; nullptr: not
/// known.
/// @param[in] raw raw frames have been announced.
void check(const std::string& stream, const std::vector<std::string>* sent, bool raw) {
  std::vector<std::uint8_t> buffer(Demultiplexer::buffer_bytes(kPayloadRoom));
  Demultiplexer demultiplexer(buffer);
  if (raw) {
    for (const char byte : announcement()) (void)demultiplexer.push(static_cast<std::uint8_t>(byte));
  }
  std::size_t place = 0;  // everything before it was counted as text, or skipped
  std::string text;
  bool last_was_frame = false;
  const auto take = [&](const Demultiplexer::Step& step) {
    last_was_frame = step.frame;
    if (step.frame && (step.broken != Broken::kNone || step.text_count != 0))
      fail("a frame and more in one step", stream);
    if (step.frame && sent != nullptr) {
      const std::string payload(as_text(demultiplexer.frame().payload));
      if (std::find(sent->begin(), sent->end(), payload) == sent->end()) fail("a frame that nobody sent", stream);
    }
    for (unsigned i = 0; i < step.text_count; ++i) {
      place = stream.find(static_cast<char>(step.text[i]), place);
      if (place++ == std::string::npos) fail("text that was not in the stream", stream);
      text += static_cast<char>(step.text[i]);
    }
  };
  for (const char byte : stream) take(demultiplexer.push(static_cast<std::uint8_t>(byte)));
  place = 0;
  const std::string end =
      (demultiplexer.raw() ? frame("x", true) : "") + "\rnext\r" + frame("last", demultiplexer.raw());
  const auto take_end = [&](const Demultiplexer::Step& step) {
    last_was_frame = step.frame;
    text.append(reinterpret_cast<const char*>(step.text), step.text_count);
  };
  for (const char byte : end) take_end(demultiplexer.push(static_cast<std::uint8_t>(byte)));
  if (!text.ends_with("\rnext\r")) fail("the next line was lost", stream);
  if (!last_was_frame || as_text(demultiplexer.frame().payload) != "last") fail("the next frame was lost", stream);
}

void damage(std::string& stream, qm::test::Random& random) {
  static constexpr char kLikely[] = "\x1b\\Pm=\r\n\x03\xff";  // and its 00
  for (std::uint64_t n = random.below(4); n > 0 && !stream.empty(); --n) {
    const std::size_t place = random.below(stream.size());
    const char byte = random.chance(50) ? kLikely[random.below(sizeof kLikely)] : static_cast<char>(random.below(256));
    switch (random.below(5)) {
      case 0: stream[place] = byte; break;
      case 1: stream.erase(place, 1 + random.below(3)); break;
      case 2: stream.insert(place, 1, stream[place]); break;
      case 3: stream.insert(place, 1, byte); break;
      default: stream[place] = static_cast<char>(stream[place] ^ 1 << random.below(8)); break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const bool raw : {false, true}) check(std::string(reinterpret_cast<const char*>(data), size), nullptr, raw);
  return 0;
}

#ifndef QM_LIBFUZZER
int main(int count, char** arguments) {
  const std::uint64_t streams = count > 1 ? std::strtoull(arguments[1], nullptr, 0) : 300'000;
  const char* seed = std::getenv("QM_SEED");
  qm::test::Random random(seed == nullptr ? 1 : std::strtoull(seed, nullptr, 0));
  for (std::uint64_t i = 0; i < streams; ++i) {
    std::string stream;
    std::vector<std::string> sent;
    const bool raw = random.chance(50);
    for (std::uint64_t parts = random.between(1, 6); parts > 0; --parts) {
      std::string bytes;
      for (std::uint64_t n = random.below(20); n > 0; --n) bytes += static_cast<char>(random.below(256));
      if (random.chance(60)) {
        sent.push_back(bytes);
        stream += frame(bytes, raw && random.chance(80));
      } else {
        stream += bytes;
      }
    }
    damage(stream, random);
    check(stream, &sent, raw);
  }
  std::printf("%llu streams\n", static_cast<unsigned long long>(streams));
  return 0;
}
#endif
