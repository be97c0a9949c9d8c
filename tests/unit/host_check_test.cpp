// qm check and qm record as a user starts them: accepted and refused input, and messages.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <qm/host/capture.hpp>
#include <qm/test/await_text.hpp>
#include <qm/test/folder.hpp>
#include <qm/test/read_file.hpp>
#include <qm/wire/demultiplexer.hpp>
#include <qm/wire/frame.hpp>

#include "capture_encoder.hpp"
#include "fake_console.hpp"
#include "synthetic.hpp"

namespace host_check_test {

using qm::host::CaptureAbout;
using qm::host::CaptureReader;
using qm::host::CaptureWriter;
using qm::host::Chunk;
using qm::host::ChunkType;
using qm::test::Defects;
using qm::test::read_file;

struct Outcome {
  int status = -1;  // 128 + the signal, if a signal killed it
  std::string text;
};

class Check : public testing::Test {
 protected:
  void SetUp() override { setenv("QM_TRANSCRIPTS", (folder_ / "transcripts").c_str(), 1); }
  void TearDown() override { unsetenv("QM_TRANSCRIPTS"); }

  /// Starts `qm ARGUMENTS` with its output in a file.
  [[nodiscard]] pid_t start(const std::vector<std::string>& arguments) const {
    // The child of a process with threads must not allocate: a thread may hold the allocator's lock.
    const std::filesystem::path said = folder_ / "said";
    std::vector<char*> pointers{const_cast<char*>(QM_TOOL)};
    for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
    pointers.push_back(nullptr);
    const pid_t pid = fork();
    if (pid != 0) return pid;
    const int out = open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(out, 1);
    dup2(out, 2);
    execv(pointers[0], pointers.data());
    _exit(126);
  }
  [[nodiscard]] Outcome wait_for(pid_t pid) const {
    int status = 0;
    waitpid(pid, &status, 0);
    return {WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), read_file(folder_ / "said")};
  }
  [[nodiscard]] Outcome qm(const std::vector<std::string>& arguments) const { return wait_for(start(arguments)); }

  [[nodiscard]] std::string capture(const Defects& defects = {}, const CaptureAbout& about = {},
                                    std::uint8_t pointer_bytes = 8) const {
    const std::filesystem::path path = folder_ / "capture";
    CaptureWriter writer(path, about);
    qm::test::CaptureEncoder encoder(writer, defects);
    qm::test::Synthetic({.events = 5000, .pointer_bytes = pointer_bytes}).deliver(encoder);
    writer.end("done");
    return path.string();
  }
  /// @returns the path of a file with the bytes that were received in the capture @p path.
  [[nodiscard]] std::string line_of(const std::string& path) const {
    std::string bytes;
    CaptureReader reader(path);
    for (Chunk chunk; reader.next(chunk);) {
      if (chunk.type == ChunkType::kReceived) bytes += chunk.payload;
    }
    return file("line-bytes", bytes);
  }
  [[nodiscard]] std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return (folder_ / name).string();
  }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }

  /// @returns a line with a fake console at its end.
  [[nodiscard]] std::string serve(std::thread& server) const {
    const std::string path = (folder_ / "line").string();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    server = std::thread([this, listener] {
      const int line = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      qm::test::FakeConsole console(line);
      (void)console.serve();
      asks_ = console.asks();
      close(line);
      close(listener);
    });
    return "unix:" + path;
  }
  /// Passes each frame of one direction in the capture @p path to @p take.
  template <class Take>
  static void for_each_frame(const std::filesystem::path& path, ChunkType direction, Take take) {
    std::vector<std::uint8_t> room(qm::wire::Demultiplexer::buffer_bytes(qm::wire::kMaxPayloadBytes));
    qm::wire::Demultiplexer demultiplexer(room);
    CaptureReader reader(path);
    for (Chunk chunk; reader.next(chunk);) {
      for (const char byte : chunk.type == direction ? chunk.payload : std::string_view()) {
        if (demultiplexer.push(static_cast<std::uint8_t>(byte)).frame) take(demultiplexer.frame());
      }
    }
  }
  /// @returns the commands that were sent as requests.
  [[nodiscard]] static std::vector<std::string> requests_in(const std::filesystem::path& path) {
    std::vector<std::string> commands;
    for_each_frame(path, ChunkType::kSent, [&](const qm::wire::Frame& frame) {
      if (frame.type == qm::wire::FrameType::kRequest) commands.emplace_back(qm::wire::as_text(frame.payload));
    });
    return commands;
  }
  /// Waits until @p count requests have been answered.
  [[nodiscard]] static bool answers(const std::filesystem::path& path, int count) {
    for (int tries = 0; tries < 1000; ++tries) {
      int found = 0;
      if (std::filesystem::exists(path) && std::filesystem::file_size(path) > qm::host::kCapturePreambleBytes) {
        for_each_frame(path, ChunkType::kReceived,
                       [&](const qm::wire::Frame& frame) { found += frame.type == qm::wire::FrameType::kStatus; });
      }
      if (found >= count) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
  /// Waits until the received bytes in the capture contain @p needle.
  [[nodiscard]] static bool holds(const std::filesystem::path& path, const std::string& needle) {
    for (int tries = 0; tries < 1000; ++tries) {
      if (std::filesystem::exists(path) && read_file(path).find(needle) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }

 protected:
  mutable int asks_ = 0;  // of the console that the server thread has run; valid after join()

 private:
  qm::test::TemporaryFolder folder_;
};

TEST_F(Check, of_a_whole_capture_ends_with_status_0) {
  const Outcome outcome = qm({"check", capture()});
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("stream 1: 5000 events of 4 harts"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("equal to the device's statistics"), std::string::npos) << outcome.text;
  EXPECT_NE(outcome.text.find("capture: complete\n"), std::string::npos) << outcome.text;
  EXPECT_EQ(outcome.text.find('\x1b'), std::string::npos) << "colour in a file";
}

TEST_F(Check, finds_one_event_that_was_taken_out_however_well_the_rest_is_repaired) {
  for (const std::uint64_t place : {0u, 1u, 2500u, 4998u, 4999u}) {
    const Outcome outcome = qm({"check", capture({.omit = [&](std::uint64_t event) { return event == place; }})});
    EXPECT_EQ(outcome.status, 1) << place << outcome.text;
    EXPECT_EQ(outcome.text.find("equal to"), std::string::npos) << outcome.text;
  }
}

TEST_F(Check, compares_with_a_device_of_32_bit_words_modulo_what_they_hold) {
  const Defects wrapped{.too_much = std::uint64_t{7} << 32};
  const Outcome narrow = qm({"check", capture(wrapped, {}, 4)});
  EXPECT_EQ(narrow.status, 0) << narrow.text;
  EXPECT_NE(narrow.text.find("equal to the device's statistics"), std::string::npos) << narrow.text;
  EXPECT_EQ(qm({"check", capture(wrapped)}).status, 1);
  EXPECT_EQ(qm({"check", capture({.too_much = 1}, {}, 4)}).status, 1);
}

TEST_F(Check, says_how_many_events_of_which_hart_were_dropped) {
  const Outcome outcome =
      qm({"check", capture({.overrun = [](std::uint64_t event) { return event >= 1000 && event < 1100; }})});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.text.find("incomplete"), std::string::npos) << outcome.text;
  std::uint64_t sum = 0;
  for (std::size_t at = 0; (at = outcome.text.find("problem: stream 1: hart ", at)) != std::string::npos;) {
    at = outcome.text.find(" lost ", at) + 6;
    sum += std::stoull(outcome.text.substr(at));
  }
  EXPECT_EQ(sum, 100u) << outcome.text;
}

TEST_F(Check, tells_lost_frames_and_a_missing_end) {
  const Outcome lost = qm({"check", capture({.lose = [](std::uint32_t frame) { return frame == 50; }})});
  EXPECT_EQ(lost.status, 1);
  EXPECT_NE(lost.text.find("did not arrive"), std::string::npos) << lost.text;
  const Outcome unended = qm({"check", capture({.unended = true})});
  EXPECT_EQ(unended.status, 1);
  EXPECT_NE(unended.text.find("no end"), std::string::npos) << unended.text;
}

TEST_F(Check, refuses_what_is_no_capture_with_status_1_and_wrong_usage_with_2) {
  const std::string good = read_file(capture());
  EXPECT_EQ(qm({"check", file("none", "")}).status, 1);
  EXPECT_EQ(qm({"check", file("text", "hello\n")}).status, 1);
  EXPECT_EQ(qm({"check", (folder() / "nothing").string()}).status, 1);
  EXPECT_EQ(qm({"check", folder().string()}).status, 1);
  const Outcome cut = qm({"check", file("cut", good.substr(0, good.size() / 2))});
  EXPECT_EQ(cut.status, 1);
  EXPECT_NE(cut.text.find("the file was cut short"), std::string::npos) << cut.text;
  const Outcome twice = qm({"check", file("twice", good + good)});
  EXPECT_EQ(twice.status, 1);
  EXPECT_NE(twice.text.find("captures cannot be concatenated"), std::string::npos) << twice.text;
  EXPECT_EQ(qm({"check"}).status, 2);
  EXPECT_EQ(qm({"check", "a", "b"}).status, 2);
  EXPECT_EQ(qm({"record"}).status, 2);
  EXPECT_EQ(qm({"console"}).status, 2);
}

/// @returns an ELF file of 64 bits for @p machine with one note section, which has the build id @p id.
std::string elf(unsigned machine, const std::string& id) {
  const auto number = [](std::uint64_t value, unsigned bytes) {
    std::string text;
    for (; bytes-- != 0; value >>= 8) text += static_cast<char>(value & 0xff);
    return text;
  };
  const std::string note = number(4, 4) + number(id.size(), 4) + number(3, 4) + std::string("GNU\0", 4) + id;
  std::string header(
      "\x7f"
      "ELF\x02\x01\x01",
      7);
  header.resize(16, 0);
  header += number(2, 2) + number(machine, 2) + number(1, 4) + number(0, 8) + number(0, 8) +
            number(64 + note.size(), 8) + number(0, 4) + number(64, 2) + number(0, 2) + number(0, 2) + number(64, 2) +
            number(1, 2) + number(0, 2);
  const std::string section = number(0, 4) + number(7, 4) + number(0, 8) + number(0, 8) + number(64, 8) +
                              number(note.size(), 8) + number(0, 4) + number(0, 4) + number(4, 8) + number(0, 8);
  return header + note + section;
}

TEST_F(Check, refuses_an_image_of_another_build_unless_forced) {
  const std::string good = capture();
  std::string id("\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff\x00\x11\x22\x33", 20);
  EXPECT_EQ(qm({"check", "--image", file("same", elf(243, id)), good}).status, 0);
  id[0] = 1;
  const std::string other = file("other", elf(243, id));
  const Outcome refused = qm({"check", "--image", other, good});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.text.find("of build 0111"), std::string::npos) << refused.text;
  EXPECT_EQ(qm({"check", "--image", other, "--force", good}).status, 0);
  for (const auto& [name, bytes, why] : std::vector<std::array<std::string, 3>>{
           {"x86", elf(62, id), "not for RISC-V"},
           {"text", "#!/bin/sh\n", "no ELF file"},
           {"void", "", "empty"},
           {"torn", elf(243, id).substr(0, 100), "damaged ELF file"},
       }) {
    const Outcome outcome = qm({"check", "--image", file(name, bytes), good});
    EXPECT_EQ(outcome.status, 1) << name;
    EXPECT_NE(outcome.text.find(why), std::string::npos) << name << ": " << outcome.text;
  }
}

TEST_F(Check, record_ends_cleanly_at_ctrl_c) {
  std::thread server;
  const std::string line = serve(server);
  const std::filesystem::path path = folder() / "recorded";
  const pid_t pid = start({"record", "-o", path.string(), "--start", "echo recorded", line});
  ASSERT_TRUE(holds(path, "target fake console"));
  kill(pid, SIGINT);
  const Outcome outcome = wait_for(pid);
  server.join();
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("recorded " + path.string()), std::string::npos) << outcome.text;
  CaptureReader reader(path);
  for (Chunk chunk; reader.next(chunk);) {
  }
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.about().at("line"), line);
}

TEST_F(Check, record_stops_the_stream_of_the_target_when_its_terminal_is_gone) {
  std::thread server;
  const std::string line = serve(server);
  const std::filesystem::path path = folder() / "recorded";
  const pid_t pid = start({"record", "-o", path.string(), "--start", "echo recorded", line});
  ASSERT_TRUE(answers(path, 1));
  kill(pid, SIGHUP);
  const Outcome outcome = wait_for(pid);
  server.join();
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(requests_in(path), (std::vector<std::string>{"echo recorded", "kmemtrace stop"}));
}

TEST_F(Check, record_keeps_no_transcript_beside_the_capture) {
  std::thread server;
  const std::string line = serve(server);
  const Outcome outcome =
      qm({"record", "-o", (folder() / "recorded").string(), "--for", "0.2", "--start", "echo recorded", line});
  server.join();
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_FALSE(std::filesystem::exists(folder() / "transcripts"));
}

TEST_F(Check, a_run_that_is_interrupted_stops_its_stream_and_ends_its_capture) {
  const std::string bytes = line_of(capture({.unended = true}));
  std::thread server;
  const std::string line = serve(server);
  const std::filesystem::path path = folder() / "recorded";
  const pid_t pid = start({"run", "--serial", line, "--record", path.string(), "-c", "echo one", "-c", "echo two", "-c",
                           "send " + bytes, "-c", "run", "-c", "echo not"});
  ASSERT_TRUE(answers(path, 1));
  ASSERT_TRUE(qm::test::await_text(folder() / "transcripts", ": run\n"));
  kill(pid, SIGINT);
  const Outcome outcome = wait_for(pid);
  server.join();
  EXPECT_EQ(outcome.status, 130) << outcome.text;
  EXPECT_EQ(requests_in(path),
            (std::vector<std::string>{"echo one", "echo two", "send " + bytes, "run", "kmemtrace stop"}));
  CaptureReader reader(path);
  for (Chunk chunk; reader.next(chunk);) {
  }
  EXPECT_TRUE(reader.complete());
  EXPECT_EQ(reader.end_reason(), "Ctrl-C");
}

TEST_F(Check, a_recorder_that_is_killed_leaves_what_it_got) {
  std::thread server;
  const std::string line = serve(server);
  const std::filesystem::path path = folder() / "recorded";
  const pid_t pid = start({"record", "-o", path.string(), "--start", "", line});
  ASSERT_TRUE(holds(path, "target fake console"));
  kill(pid, SIGKILL);
  EXPECT_EQ(wait_for(pid).status, 128 + SIGKILL);
  server.join();
  CaptureReader reader(path);
  std::string received;
  for (Chunk chunk; reader.next(chunk);) {
    if (chunk.type == ChunkType::kReceived) received += chunk.payload;
  }
  EXPECT_FALSE(reader.complete());
  EXPECT_FALSE(received.empty());
  ASSERT_EQ(reader.problems().size(), 1u);
  EXPECT_NE(reader.problems()[0].find("the recorder was killed"), std::string::npos);
}

TEST_F(Check, record_and_top_end_with_the_error_of_a_stream_that_does_not_start) {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"record", "-o", (folder() / "recorded").string()}, {"top"}}) {
    std::thread server;
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--start", "fail", "--for", "600", serve(server)});
    const Outcome outcome = qm(arguments);
    server.join();
    EXPECT_EQ(outcome.status, 1) << outcome.text;
    EXPECT_NE(outcome.text.find("it was to fail"), std::string::npos) << outcome.text;
    std::filesystem::remove(folder() / "line");
  }
}

TEST_F(Check, record_counts_the_events_that_wait_for_others_when_it_ends) {
  const std::string bytes = line_of(capture({.unended = true}));
  std::thread server;
  const std::string line = serve(server);
  const Outcome outcome =
      qm({"record", "-o", (folder() / "recorded").string(), "--for", "0.5", "--start", "send " + bytes, line});
  server.join();
  EXPECT_NE(outcome.text.find(" 5000 events"), std::string::npos) << outcome.text;
}

TEST_F(Check, top_shows_what_the_target_counts_and_how_far_the_line_lags) {
  // In two seconds a hart allocated 310,000 packets; only one of the events has arrived.
  const std::string path = (folder() / "busy").string();
  {
    qm::host::Definitions definitions;
    definitions.header.harts = 1;
    definitions.header.stream = 1;
    definitions.header.ticks_per_second = 1000;
    definitions.header.start_ticks = 5000;
    definitions.traceables[1] = {1, qm::host::EventKind::kArena, true, "numbers", 1, 1, 5, 0xffff'ffff};
    definitions.traceables[2] = {2, qm::host::EventKind::kCache, false, "packet", 64, 64, 0, 0xffff'ffff};
    CaptureWriter writer(path, {});
    qm::test::CaptureEncoder encoder(writer, {.unended = true});
    encoder.on_header(definitions);
    qm::host::Event event;
    event.traceable = 2;
    event.number = 1;
    event.ticks = 5500;
    event.address = 0x1000;
    event.requested = event.allocated = 64;
    encoder.on_event(event);
    qm::host::Statistics statistics;
    for (const std::uint64_t second : {1u, 2u}) {
      statistics.ticks = 5000 + 1000 * second;
      statistics.harts[0].events = 620'000 / 2 * second;
      statistics.traceables[1] = {0, second, 0, 0, 0, 96 * second};  // segments from before the stream
      statistics.traceables[2] = {155'000 * second,      154'000 * second,     0, 0,
                                  64 * 155'000 * second, 64 * 154'000 * second};
      encoder.on_statistics(statistics);
    }
  }
  std::thread server;
  const std::string line = serve(server);
  const Outcome outcome = qm({"top", "--for", "0.6", "--every", "0.2", "--start", "send " + line_of(path), line});
  server.join();
  const auto expect = [&](const std::string& text) {
    EXPECT_NE(outcome.text.find(text), std::string::npos) << text << "\n" << outcome.text;
  };
  expect("after 2.0 s: 620000 events, dropped 0, lost on the line 0\n");
  expect("127808 bytes held, +127808 since the stream began; lag 1.5 s; by bytes\n");
  expect("packet                 2000     128000    +128000   155000   154000 ");
  expect("numbers                   3      ~-192       -192        0        1 ");
}

TEST_F(Check, top_asks_for_the_names_of_a_stream_that_began_before) {
  for (const bool whole : {true, false}) {
    std::filesystem::remove(folder() / "capture");
    const std::string bytes = line_of(capture({.lose = [=](std::uint32_t frame) { return !whole && frame == 0; }}));
    std::thread server;
    const std::string line = serve(server);
    const Outcome outcome = qm({"top", "--for", "0.6", "--every", "0.2", "--start", "send " + bytes, line});
    server.join();
    EXPECT_EQ(asks_ == 0, whole) << outcome.text;
    std::filesystem::remove(folder() / "line");
  }
}

TEST_F(Check, of_a_sampled_stream_says_that_it_was_compared_with_nothing) {
  const std::string path = (folder() / "sampled").string();
  {
    CaptureWriter writer(path, {});
    qm::test::CaptureEncoder encoder(writer);
    qm::test::Synthetic({.events = 500, .mode = qm::host::StreamMode::kSampled}).deliver(encoder);
    writer.end("done");
  }
  const Outcome outcome = qm({"check", path});
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_NE(outcome.text.find("sampled: complete, but compared with nothing"), std::string::npos) << outcome.text;
}

TEST_F(Check, record_with_closed_streams_writes_what_it_says_into_no_file_of_its_own) {
  const std::filesystem::path path = folder() / "recorded";
  std::thread server;
  const std::string line = serve(server);
  const pid_t pid = fork();
  if (pid == 0) {
    for (const int stream : {0, 1, 2}) close(stream);
    execl(QM_TOOL, QM_TOOL, "record", "-o", path.c_str(), "--start", "fail", line.c_str(), nullptr);
    _exit(126);
  }
  EXPECT_EQ(wait_for(pid).status, 1);
  server.join();
  const std::string bytes = read_file(path);
  EXPECT_TRUE(bytes.starts_with("\x89QMC"));
  EXPECT_EQ(bytes.find("recorded " + path.string()), std::string::npos);
}

TEST_F(Check, of_a_disk_that_is_full_is_an_error) {
  const std::string good = capture();
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(open("/dev/full", O_WRONLY), 1);
    execl(QM_TOOL, QM_TOOL, "check", good.c_str(), nullptr);
    _exit(126);
  }
  EXPECT_NE(wait_for(pid).status, 0);
}

TEST_F(Check, record_stops_after_its_time) {
  std::thread server;
  const std::string line = serve(server);
  const std::filesystem::path path = folder() / "recorded";
  const Outcome outcome = qm({"record", "-o", path.string(), "--for", "0.2s", "--start", "", line});
  server.join();
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  CaptureReader reader(path);
  for (Chunk chunk; reader.next(chunk);) {
  }
  EXPECT_EQ(reader.end_reason(), "the time was over");
}

}  // namespace host_check_test
