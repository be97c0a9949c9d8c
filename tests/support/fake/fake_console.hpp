#pragma once
// A console for tests of the host's side: it answers as docs/protocol.md specifies, or misbehaves on request.

#include <string>
#include <string_view>
#include <vector>

#include <qm/wire/demultiplexer.hpp>
#include <qm/wire/frame.hpp>

namespace qm::test {

/// The commands of a fake console: `echo TEXT`, `fail`, `poweroff [STATUS]`, `reboot`, `run` (until Ctrl-C), `forms`
/// (how often a form was requested), `send FILE` (the file's frames, numbered from the console's own number on, gaps
/// included), and the misbehaviours below. As on a target, a request that arrives while another runs is refused.
///   die          closes the line in the middle of an output
///   hang         answers nothing
///   slow         stops for 100 ms in the middle of a frame
///   garbage      sends noise, broken frames and text around the answer
///   lose         leaves out one output frame
///   corrupt      damages a byte of an output frame
///   version      answers in a frame of version 2
///   deaf         reports a broken frame, and sends nothing else
///   busy         refuses with the error busy
///   stale        first answers another request
class FakeConsole {
 public:
  explicit FakeConsole(int descriptor) : descriptor_(descriptor), demultiplexer_(buffer_) {}

  /// Prints the banner and the prompt.
  void boot();

  /// Serves until the line closes or a command ends it.
  /// @returns the status of `poweroff`; -1 if the line was closed.
  int serve();
  /// @returns how often definitions were requested.
  [[nodiscard]] int asks() const { return asks_; }

 private:
  struct Ended {
    int status;
  };

  void take(std::uint8_t byte);
  void type(std::uint8_t byte);
  void take_frame(const wire::Frame& frame);
  void run(std::string_view line, std::uint32_t request);
  bool misbehave(std::string_view line, std::uint32_t request);
  void print(std::string_view text);
  void send(wire::FrameType type, std::uint32_t request, std::string_view payload);
  void end(std::uint32_t request, wire::CommandStatus status);
  void refuse(std::uint32_t request, wire::ProtocolError error, std::string_view text);
  [[nodiscard]] std::string encoded(wire::FrameType type, std::uint32_t request, std::string_view payload);

  int descriptor_;
  std::vector<std::uint8_t> buffer_ =
      std::vector<std::uint8_t>(wire::Demultiplexer::buffer_bytes(wire::kMaxCommandBytes));
  wire::Demultiplexer demultiplexer_;
  std::string line_;
  std::uint16_t sequence_ = 65530;
  bool raw_ = false;
  std::uint32_t running_ = 0;  // the request that runs until Ctrl-C
  int forms_ = 0;
  int asks_ = 0;
};

}  // namespace qm::test
