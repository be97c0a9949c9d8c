// Frames of event streams that are intact and have wrong contents: the reader must end, deliver each hart's events in
// order, and never report a stream as complete that it could not read.
//
//     input   frames, each: u8 type (16 to 20 by its low bits), u16 bytes, payload

#include <algorithm>
#include <memory>
#include <string>

#include <qm/host/model.hpp>
#include <qm/host/stream_reader.hpp>

#include "mutation.hpp"

namespace {

using namespace qm;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

class Handler : public host::EventHandler {
 public:
  void on_header(const host::Definitions& definitions) override { model_ = std::make_unique<host::Model>(definitions); }
  void on_event(const host::Event& event) override {
    if (model_ == nullptr) fail("an event before a header");
    (void)model_->apply(event);
    ++events;
  }
  void on_gap(const host::Gap& gap) override {
    if (gap.events == 0) fail("an empty gap");
  }
  void on_end(const host::CaptureEnd& end) override {
    if (end.complete != end.problems.empty()) fail("problems, and complete");
    ++ends;
  }
  std::uint64_t events = 0;
  int ends = 0;

 private:
  std::unique_ptr<host::Model> model_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Handler handler;
  host::StreamReader reader(handler);
  std::size_t most = 0;
  while (size >= 3) {
    const std::size_t bytes = std::min<std::size_t>((data[1] | data[2] << 8) % (wire::kMaxPayloadBytes + 1), size - 3);
    const auto type = static_cast<wire::FrameType>(16 + data[0] % 5);
    if (!reader.take({type, 0, 0, {data + 3, bytes}})) fail("a frame of a stream was not taken");
    data += 3 + bytes;
    size -= 3 + bytes;
    most += bytes;
  }
  reader.finish({});
  if (handler.ends != 1) fail("not one end");
  if (handler.events > most) fail("more events than bytes");
  return 0;
}

#ifndef QM_LIBFUZZER
int main(int count, char** arguments) {
  return qm::test::fuzz(count, arguments, {QM_CORPUS "/stream"}, 20'000, LLVMFuzzerTestOneInput);
}
#endif
