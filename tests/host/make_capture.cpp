// make_capture EVENTS FILE [STACKS [LIVE [LOST]]]: a capture of an invented run. LOST: events that a hart dropped. For
// measurements and for the tests of programs that read captures.

#include <cstdio>
#include <cstdlib>

#include "capture_encoder.hpp"
#include "synthetic.hpp"

int main(int count, char** arguments) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s EVENTS FILE [STACKS [LIVE [LOST]]]\n", arguments[0]);
    return 2;
  }
  const auto number = [&](int index, std::uint64_t otherwise) {
    return count > index ? std::strtoull(arguments[index], nullptr, 10) : otherwise;
  };
  qm::test::SyntheticOptions options;
  options.events = number(1, 0);
  options.stacks = static_cast<std::uint32_t>(number(3, 300));
  options.live = static_cast<std::uint32_t>(number(4, 1000));
  const std::uint64_t lost = number(5, 0), from = options.events / 2;
  qm::host::CaptureWriter writer(arguments[2], {{"recorder", "make_capture"}}, 1);
  writer.set_clock(0);
  qm::test::Defects defects;
  if (lost != 0) defects.overrun = [=](std::uint64_t event) { return event >= from && event < from + lost; };
  qm::test::CaptureEncoder encoder(writer, defects);
  qm::test::Synthetic(options).deliver(encoder);
  writer.end("made");
  return 0;
}
