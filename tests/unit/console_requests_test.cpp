// Requests of a host on the line: frames, armoured and raw.

#include "console_commands.hpp"

namespace console_requests_test {

using namespace qm::console;
using qm::test::Bench;
using qm::test::FakeTerminal;
using qm::test::last_words;
using qm::test::runs;
namespace wire = qm::wire;

TEST(ConsoleRequests, answers_a_request_in_frames_alone) {
  Bench bench;
  const auto answer = bench.request("echo one two");
  EXPECT_EQ(answer.output, "one|two|\n");
  EXPECT_EQ(answer.status, 0u);
  EXPECT_EQ(bench.terminal.broken, 0u);
}

TEST(ConsoleRequests, has_a_status_for_each_outcome) {
  Bench bench;
  EXPECT_EQ(bench.request("echo fail").status, 1u);
  EXPECT_EQ(bench.request("echo fail").output, "error: fail went wrong\n");
  EXPECT_EQ(bench.request("echo").status, 2u);
  EXPECT_EQ(bench.request("frob").status, 3u);
  EXPECT_EQ(bench.request("frob").output, "error: unknown command \"frob\" (try help)\n");
  bench.terminal.on_yield = [](FakeTerminal& terminal) { terminal.send("\x03"); };
  EXPECT_EQ(bench.request("lines 5").status, 4u);
  bench.terminal.on_yield = nullptr;
  EXPECT_EQ(bench.request("   ").status, 0u);
}

TEST(ConsoleRequests, sends_long_output_in_several_frames) {
  Bench bench;
  const auto answer = bench.request("lines 500");
  std::string expected;
  for (int i = 0; i < 500; ++i) expected += "line " + std::to_string(i) + "\n";
  EXPECT_EQ(answer.output, expected + "lines 500: complete\n");
  EXPECT_GT(answer.frames, 8u);
  for (std::size_t i = 1; i < bench.terminal.frames.size(); ++i) {
    EXPECT_EQ(bench.terminal.frames[i].sequence, bench.terminal.frames[i - 1].sequence + 1);
  }
}

TEST(ConsoleRequests, does_not_hold_the_output_of_a_slow_command_back) {
  Bench bench;
  bench.terminal.on_yield = [](FakeTerminal& terminal) { terminal.now_ms += 30; };
  const auto answer = bench.request("lines 20");
  EXPECT_GE(answer.frames, 5u);
  EXPECT_LE(answer.frames, 9u);
}

TEST(ConsoleRequests, answers_before_it_acts_where_a_command_says_so) {
  Bench bench;
  const auto answer = bench.request("depart");
  EXPECT_EQ(answer.status, 0u);
  EXPECT_EQ(answer.output.substr(0, 6), "going\n");
}

TEST(ConsoleRequests, a_request_waits_for_the_typed_command_and_a_second_is_refused) {
  static Bench* self;
  Bench bench;
  self = &bench;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 1) {
      terminal.send(self->frame(wire::FrameType::kRequest, 5, "echo five"));
      terminal.send(self->frame(wire::FrameType::kRequest, 6, "echo six"));
    }
    if (terminal.yields == 2) {
      EXPECT_EQ(terminal.frames.size(), 1u) << "the refusal alone";
    }
  };
  EXPECT_EQ(bench.command("lines 3"), "line 0\r\nline 1\r\nline 2\r\nlines 3: complete\r\n");
  ASSERT_EQ(bench.terminal.frames.size(), 3u);
  const auto& refusal = bench.terminal.frames[0];
  EXPECT_EQ(refusal.type, wire::FrameType::kError);
  EXPECT_EQ(refusal.request, 6u);
  EXPECT_EQ(refusal.payload[0], 6);
  EXPECT_EQ(bench.terminal.frames[1].payload, "five|\n");
  EXPECT_EQ(bench.terminal.frames[1].request, 5u);
}

TEST(ConsoleRequests, a_waiting_request_leaves_the_running_one_alone) {
  static Bench* self;
  Bench bench;
  self = &bench;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 1) terminal.send(self->frame(wire::FrameType::kRequest, 6, "late second"));
  };
  bench.type(bench.frame(wire::FrameType::kRequest, 5, "late first"));
  ASSERT_EQ(bench.terminal.frames.size(), 4u);
  EXPECT_EQ(bench.terminal.frames[0].payload, "first\n");
  EXPECT_EQ(bench.terminal.frames[0].request, 5u);
  EXPECT_EQ(bench.terminal.frames[2].payload, "second\n");
  EXPECT_EQ(bench.terminal.frames[2].request, 6u);
}

TEST(ConsoleRequests, takes_input_that_its_terminal_feeds_while_it_yields) {
  static Console* console;
  Bench bench;
  console = &bench.console;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 1) console->feed(std::string_view("echo fed\r"));
    if (terminal.yields == 3) console->feed(std::string_view("\x03"));
    EXPECT_FALSE(console->poll()) << "poll() does nothing while a command runs";
  };
  EXPECT_EQ(bench.command("lines 9"), "line 0\r\nline 1\r\nline 2\r\nlines 3: aborted\r\n");
}

TEST(ConsoleRequests, keeps_the_order_of_lines_and_requests) {
  Bench bench;
  bench.terminal.raw.clear();
  bench.type("echo a\r" + bench.frame(wire::FrameType::kRequest, 5, "echo b") + "echo c\r");
  const std::string& raw = bench.terminal.raw;
  const std::size_t frame = raw.find("\x1bP");
  EXPECT_LT(raw.find("a|"), frame);
  EXPECT_GT(raw.find("c|"), frame);
}

TEST(ConsoleRequests, leaves_the_line_being_typed_alone_while_requests_run) {
  Bench bench;
  bench.type("echo who");
  EXPECT_EQ(bench.request("echo x").output, "x|\n");
  EXPECT_EQ(bench.type("le\r"), "le\r\nwhole|\r\nqm> ");
}

TEST(ConsoleRequests, ctrl_c_during_a_request_abandons_the_line_too) {
  Bench bench;
  bench.type("echo who");
  bench.terminal.on_yield = [](FakeTerminal& terminal) { terminal.send("\x03"); };
  EXPECT_EQ(bench.type(bench.frame(wire::FrameType::kRequest, 5, "lines 9")), "^C\r\nqm> ");
}

TEST(ConsoleRequests, answers_hello_but_not_its_own) {
  Bench bench;
  const std::string hello = std::string("\x02\x00\x00\x04\x00", 5) + "qm host";
  EXPECT_EQ(bench.type(bench.frame(wire::FrameType::kHello, 9, hello)), "");
  ASSERT_EQ(bench.terminal.frames.size(), 1u);
  EXPECT_EQ(bench.terminal.frames[0].type, wire::FrameType::kHello);
  EXPECT_EQ(bench.terminal.frames[0].request, 9u);
  wire::HelloPayload payload;
  ASSERT_TRUE(wire::unpack(wire::as_bytes(bench.terminal.frames[0].payload), payload));
  EXPECT_EQ(payload.version, wire::kProtocolVersion);
  EXPECT_EQ(payload.max_payload_bytes, 255u);
  EXPECT_TRUE(payload.from_target);
  EXPECT_EQ(payload.build_id, "cafe0123");
  EXPECT_EQ(payload.text, "Quartermaster 1.2.3 build cafe0123, 4 harts, 128 MiB, formats 2");
  const std::string own = bench.terminal.raw;
  bench.terminal.frames.clear();
  bench.type(own);
  EXPECT_EQ(bench.terminal.frames.size(), 0u) << "a line that is looped back must not answer itself";
}

struct Refusal {
  std::uint32_t error;
  std::uint32_t request;
};
Refusal refusal_of(Bench& bench, const std::string& bytes) {
  bench.terminal.frames.clear();
  bench.type(bytes);
  EXPECT_EQ(bench.terminal.frames.size(), 1u);
  if (bench.terminal.frames.empty()) return {0, 0};
  EXPECT_EQ(bench.terminal.frames[0].type, wire::FrameType::kError);
  wire::ErrorPayload payload;
  EXPECT_TRUE(wire::unpack(wire::as_bytes(bench.terminal.frames[0].payload), payload));
  EXPECT_FALSE(payload.text.empty());
  return {static_cast<std::uint32_t>(payload.error), bench.terminal.frames[0].request};
}

TEST(ConsoleRequests, answers_what_is_wrong_with_a_frame_with_one_error_frame) {
  Bench bench;
  runs = 0;
  Refusal refusal = refusal_of(bench, bench.frame(static_cast<wire::FrameType>(13), 8, "x"));
  EXPECT_EQ(refusal.error, 4u);
  EXPECT_EQ(refusal.request, 8u);
  refusal = refusal_of(bench, bench.frame(wire::FrameType::kRequest, 8, "echo\nx"));
  EXPECT_EQ(refusal.error, 5u);
  refusal = refusal_of(bench, bench.frame(wire::FrameType::kRequest, 8, ""));
  EXPECT_EQ(refusal.error, 5u);
  refusal = refusal_of(bench, bench.frame(wire::FrameType::kRequest, 0, "echo x"));
  EXPECT_EQ(refusal.error, 5u);
  refusal = refusal_of(bench, bench.frame(wire::FrameType::kHello, 8, "x"));
  EXPECT_EQ(refusal.error, 5u);
  refusal = refusal_of(bench, bench.frame(wire::FrameType::kRequest, 8, std::string(300, 'x')));
  EXPECT_EQ(refusal.error, 3u);
  EXPECT_EQ(refusal.request, 8u);
  std::string damaged = bench.frame(wire::FrameType::kRequest, 8, "echo x");
  damaged[10] = damaged[10] == 'A' ? 'B' : 'A';
  refusal = refusal_of(bench, damaged);
  EXPECT_EQ(refusal.error, 2u);
  EXPECT_EQ(refusal.request, 0u);
  EXPECT_EQ(runs, 0u);
  EXPECT_EQ(bench.request("echo fine").output, "fine|\n");
}

TEST(ConsoleRequests, names_its_version_to_a_frame_of_another) {
  Bench bench;
  // The inner frame of the example in docs/protocol.md, with version 1 and a matching CRC.
  std::vector<std::uint8_t> inner = {1, 2, 7, 0, 0x34, 0x12, 0, 0, 4, 0, 'h', 'e', 'l', 'p'};
  wire::Crc32 crc;
  crc.add(inner);
  for (int i = 0; i < 4; ++i) inner.push_back(static_cast<std::uint8_t>(crc.value() >> (8 * i)));
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string armoured = "\x1bPm";
  for (std::size_t i = 0; i + 2 < inner.size(); i += 3) {
    const unsigned group = inner[i] << 16 | inner[i + 1] << 8 | inner[i + 2];
    for (int shift = 18; shift >= 0; shift -= 6) armoured += digits[group >> shift & 63];
  }
  armoured += "\x1b\\";
  const Refusal refusal = refusal_of(bench, armoured);
  EXPECT_EQ(refusal.error, 1u);
  EXPECT_EQ(refusal.request, 0x1234u);
  EXPECT_EQ(bench.terminal.frames[0].payload[2], 2);
}

TEST(ConsoleRequests, gives_up_a_frame_at_a_line_end_ctrl_c_and_after_silence) {
  Bench bench;
  bench.type("\x1bPmAQ");
  EXPECT_TRUE(bench.console.needs_poll());
  EXPECT_EQ(bench.type("\recho ok\r").find("ok|") != std::string::npos, true) << bench.terminal.text;
  bench.type("\x1bPmAQ");
  EXPECT_NE(bench.type("\x03").find("^C"), std::string::npos);
  bench.type("\x1bPmAQ");
  EXPECT_EQ(bench.type(""), "");
  for (unsigned ms = 0; ms < wire::kSilenceMs - Console::kLookMs; ms += Console::kLookMs) {
    bench.terminal.now_ms += Console::kLookMs;
    bench.console.poll();
  }
  bench.terminal.now_ms += Console::kLookMs - 1;
  bench.console.poll();
  EXPECT_TRUE(bench.console.needs_poll());
  bench.terminal.now_ms += 1;
  bench.console.poll();
  EXPECT_FALSE(bench.console.needs_poll());
  EXPECT_EQ(bench.command("echo next"), "next|\r\n");
  EXPECT_EQ(bench.terminal.frames.size(), 3u);
}

TEST(ConsoleRequests, erases_the_line_in_which_the_tail_of_a_frame_arrived) {
  Bench bench;
  runs = 0;
  std::string cut = bench.frame(wire::FrameType::kRequest, 8, "echo x").substr(8);
  bench.type(cut);
  EXPECT_EQ(bench.type("echo ok\r").find("error"), std::string::npos) << bench.terminal.text;
  EXPECT_EQ(runs, 1u);
  EXPECT_EQ(last_words, "ok|");
}

// ---- raw frames -----------------------------------------------------------------------------------------------------

/// Requests a form and checks the answer. @returns whether the next answer of the console is a raw frame.
bool answers_raw(Bench& bench) {
  bench.terminal.raw.clear();
  EXPECT_EQ(bench.request("echo x").output, "x|\n");
  return static_cast<std::uint8_t>(bench.terminal.raw[0]) == wire::kRawBegin;
}

bool ask_form(Bench& bench, bool raw, std::uint32_t request = 9) {
  bench.terminal.frames.clear();
  bench.type(bench.frame(wire::FrameType::kAskForm, request, raw ? std::string(1, '\x01') : std::string(1, '\0')));
  EXPECT_EQ(bench.terminal.frames.size(), 1u);
  EXPECT_EQ(bench.terminal.frames[0].type, wire::FrameType::kForm);
  EXPECT_EQ(bench.terminal.frames[0].request, request);
  wire::LineForm form;
  EXPECT_TRUE(wire::unpack(wire::as_bytes(bench.terminal.frames[0].payload), form));
  return form.raw;
}

TEST(ConsoleRequests, sends_raw_frames_to_who_asks_and_text_as_before) {
  Bench bench;
  EXPECT_FALSE(answers_raw(bench));
  EXPECT_TRUE(ask_form(bench, true));
  EXPECT_TRUE(answers_raw(bench));
  EXPECT_EQ(bench.command("echo typed"), "typed|\r\n");
  EXPECT_FALSE(ask_form(bench, false));
  EXPECT_FALSE(answers_raw(bench));
  EXPECT_EQ(bench.terminal.broken, 0u);
}

TEST(ConsoleRequests, a_form_frame_that_comes_back_changes_nothing_of_what_is_typed) {
  Bench bench;
  EXPECT_EQ(bench.type(bench.frame(wire::FrameType::kForm, 9, "\x01")), "");
  const std::string typed = bench.type(
      "\xff"
      "echo typed\r");
  EXPECT_EQ(typed, Bench().type("\xff"
                                "echo typed\r"));
  EXPECT_NE(typed.find("unknown command"), std::string::npos) << typed;
  EXPECT_EQ(bench.command("echo next"), "next|\r\n");
}

TEST(ConsoleRequests, goes_back_to_armour_when_nobody_says_that_he_is_there) {
  Bench bench;
  ASSERT_TRUE(ask_form(bench, true));
  for (int beat = 0; beat < 5; ++beat) {
    bench.terminal.now_ms += wire::kHeartbeatLostMs;
    EXPECT_TRUE(answers_raw(bench));
    EXPECT_TRUE(ask_form(bench, true, 0));
  }
  bench.terminal.now_ms += wire::kHeartbeatLostMs + 1;
  bench.terminal.frames.clear();
  bench.terminal.raw.clear();
  bench.type(bench.frame(wire::FrameType::kRequest, 7, "echo x"));
  EXPECT_EQ(bench.terminal.raw[0], '\x1b');
  EXPECT_EQ(bench.terminal.frames.size(), 3u);
  // The frame that announces the form comes first.
  EXPECT_EQ(bench.terminal.frames[0].type, wire::FrameType::kForm);
  EXPECT_EQ(bench.terminal.frames[0].payload[0], '\0');
  EXPECT_TRUE(ask_form(bench, true));
  EXPECT_TRUE(answers_raw(bench));
}

TEST(ConsoleRequests, forgets_the_form_that_another_host_has_asked_for) {
  Bench bench;
  ASSERT_TRUE(ask_form(bench, true));
  bench.terminal.raw.clear();
  bench.type(bench.frame(wire::FrameType::kHello, 3, std::string("\x02\x00\x00\x04\x00qm", 7)));
  EXPECT_EQ(bench.terminal.raw[0], '\x1b');
  EXPECT_FALSE(answers_raw(bench));
}

TEST(ConsoleRequests, refuses_a_form_that_it_does_not_know) {
  Bench bench;
  const Refusal refusal = refusal_of(bench, bench.frame(wire::FrameType::kAskForm, 8, "\x02"));
  EXPECT_EQ(refusal.error, 5u);
  EXPECT_FALSE(answers_raw(bench));
}

}  // namespace console_requests_test
