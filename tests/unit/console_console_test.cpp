#include "console_fixture.hpp"

#include <qm/test/seed.hpp>

namespace {

using namespace qm::console;
using qm::test::Bench;
using qm::test::FakeTerminal;
namespace wire = qm::wire;

// ---- commands of the test's own, registered as an embedder's are ----------------------------------------------------

unsigned runs = 0;
std::string last_words;

CommandStatus run_echo(Invocation& call) noexcept {
  ++runs;
  last_words.clear();
  for (std::size_t i = 1; i < call.words().size(); ++i) last_words += std::string(call.words()[i]) + "|";
  if (call.words()[1] == "fail") return call.fail("{} went wrong", call.words()[1]);
  if (call.words()[1] == "half") {
    call.print("half a line");
    return call.fail("the rest is missing");
  }
  if (call.words()[1] == "usage") return call.usage();
  call.print("{}\n", last_words.c_str());
  return call.ok();
}

/// Prints a line and yields, as often as its argument says.
CommandStatus run_lines(Invocation& call) noexcept {
  std::uint64_t count = 0;
  const Number read = parse_number(call.words()[1], 1'000'000, count);
  if (read != Number::kOk) return call.fail_number(call.words()[1], read);
  for (std::uint64_t i = 0; i < count; ++i) {
    call.print("line {}\n", i);
    if (!call.yield()) {
      call.print("lines {}: aborted\n", i + 1);
      return call.aborted();
    }
  }
  call.print("lines {}: complete\n", count);
  return call.ok();
}

/// Yields before it looks at its words.
CommandStatus run_late(Invocation& call) noexcept {
  if (!call.yield()) return call.aborted();
  call.print("{}\n", call.words()[1]);
  return call.ok();
}

CommandStatus run_depart(Invocation& call) noexcept {
  call.print("going\n");
  call.answer(CommandStatus::kOk);
  call.print("too late\n");
  return CommandStatus::kFailed;
}

void complete_echo(Completion& completion) noexcept {
  for (const char* name : {"packet", "packet_small", "inode"}) completion.offer(name);
}

QM_CONSOLE_COMMAND(echo, {.name = "echo",
                          .usage = "echo WORD...",
                          .summary = "says it",
                          .run = run_echo,
                          .min_arguments = 1,
                          .max_arguments = 5,
                          .complete = complete_echo});
QM_CONSOLE_COMMAND(lines, {.name = "lines",
                           .usage = "lines N",
                           .summary = "N lines",
                           .run = run_lines,
                           .min_arguments = 1,
                           .max_arguments = 1});
QM_CONSOLE_COMMAND(late, {.name = "late",
                          .usage = "late WORD",
                          .summary = "says it later",
                          .run = run_late,
                          .min_arguments = 1,
                          .max_arguments = 1});
QM_CONSOLE_COMMAND(depart, {.name = "depart", .usage = "depart", .summary = "answers first", .run = run_depart});

// ---- text -----------------------------------------------------------------------------------------------------------

TEST(Console, begins_with_the_banner_and_a_prompt) {
  Bench bench;
  EXPECT_EQ(bench.banner, "Quartermaster 1.2.3 build cafe0123, 4 harts, 128 MiB, formats 1\r\nqm> ");
}

TEST(Console, runs_a_command_and_prompts_again) {
  Bench bench;
  EXPECT_EQ(bench.type("echo a  b\r"), "echo a  b\r\na|b|\r\nqm> ");
  EXPECT_EQ(bench.type("\r"), "\r\nqm> ");
  EXPECT_EQ(bench.command("version"), "Quartermaster 1.2.3 build cafe0123, 4 harts, 128 MiB, formats 1\r\n");
}

TEST(Console, has_the_error_texts_of_the_contract) {
  Bench bench;
  EXPECT_EQ(bench.command("frob x"), "error: unknown command \"frob\" (try help)\r\n");
  EXPECT_EQ(bench.command("echo"), "error: usage: echo WORD...\r\n");
  EXPECT_EQ(bench.command("echo 1 2 3 4 5 6"), "error: usage: echo WORD...\r\n");
  EXPECT_EQ(bench.command("echo usage"), "error: usage: echo WORD...\r\n");
  EXPECT_EQ(bench.command("echo fail"), "error: fail went wrong\r\n");
  EXPECT_EQ(bench.command("echo half"), "half a line\r\nerror: the rest is missing\r\n");
  EXPECT_EQ(bench.command("lines x"), "error: x is not a number\r\n");
  EXPECT_EQ(bench.command("lines 1000001"), "error: 1000001 is too large\r\n");
  EXPECT_EQ(bench.command("version x"), "error: usage: version\r\n");
  EXPECT_EQ(bench.command("help frob"), "error: unknown command \"frob\" (try help)\r\n");
  EXPECT_EQ(bench.command("help echo help"), "error: usage: help [COMMAND]\r\n");
}

TEST(Console, refuses_an_overlong_line_once_and_takes_the_next) {
  Bench bench;
  const std::string text = bench.type(std::string(1000, 'x') + "\recho ok\r");
  EXPECT_EQ(text.substr(text.find("error")), "error: line longer than 255 characters\r\nqm> echo ok\r\nok|\r\nqm> ");
}

TEST(Console, help_lists_every_command_in_order) {
  Bench bench;
  const std::string text = bench.command("help");
  const std::size_t depart = text.find("depart                              answers first\r\n");
  const std::size_t echo = text.find("echo WORD...                        says it\r\n");
  const std::size_t help = text.find("help [COMMAND]                      this list, or one command in full\r\n");
  EXPECT_NE(depart, std::string::npos) << text;
  EXPECT_LT(depart, echo);
  EXPECT_LT(echo, help);
  EXPECT_NE(help, std::string::npos) << text;
  EXPECT_EQ(bench.command("help echo"), "echo WORD...                        says it\r\n");
}

TEST(Console, prints_unprintable_bytes_as_question_marks) {
  Bench bench;
  EXPECT_EQ(bench.type("fr\xc3\xb6g\r"), "fr??g\r\nerror: unknown command \"fr??g\" (try help)\r\nqm> ");
}

// ---- completion -----------------------------------------------------------------------------------------------------

TEST(Console, completes_commands_and_arguments) {
  Bench bench;
  EXPECT_EQ(bench.type("ec\t"), "echo ");
  EXPECT_EQ(bench.type("pa\t"), "packet");
  EXPECT_EQ(bench.type("\t"), "\r\npacket  packet_small\r\nqm> echo packet");
  EXPECT_EQ(bench.type("_\t"), "_small ");
  EXPECT_EQ(bench.type("zzz\t"), "zzz");
  EXPECT_EQ(bench.type("\t"), "\r\nqm> echo packet_small zzz");
  EXPECT_EQ(bench.type("\x15"
                       "frob x\t\t\x15"),
            std::string("\x1b[21D\x1b[Kfrob x\r\nqm> frob x\x1b[06D\x1b[K"));
}

// ---- while a command runs -------------------------------------------------------------------------------------------

TEST(Console, ctrl_c_aborts_within_a_line) {
  Bench bench;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 3) terminal.send("\x03");
  };
  EXPECT_EQ(bench.command("lines 1000"), "line 0\r\nline 1\r\nline 2\r\nlines 3: aborted\r\n");
  EXPECT_EQ(bench.command("echo next"), "next|\r\n");
}

TEST(Console, ctrl_c_drops_what_was_typed_before_it) {
  Bench bench;
  runs = 0;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 3)
      terminal.send(
          "echo one\recho tw\x03"
          "echo three\r");
  };
  const std::string text = bench.type("lines 1000\r");
  EXPECT_EQ(text.substr(text.find("lines 3")), "lines 3: aborted\r\nqm> echo three\r\nthree|\r\nqm> ");
  EXPECT_EQ(runs, 1u);
}

TEST(Console, ctrl_c_that_came_with_the_line_aborts_too) {
  Bench bench;
  EXPECT_EQ(bench.type("lines 1000\r\x03"), "lines 1000\r\nline 0\r\nlines 1: aborted\r\nqm> ");
}

TEST(Console, ctrl_c_is_seen_by_waits_that_cannot_yield) {
  static bool before, after;
  Bench bench;
  before = after = true;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields != 1) return;
    before = Console::abort_requested();
    terminal.send("\x03");
    after = Console::abort_requested();
  };
  EXPECT_EQ(bench.command("lines 5"), "line 0\r\nlines 1: aborted\r\n");
  EXPECT_FALSE(before);
  EXPECT_TRUE(after);
  EXPECT_FALSE(Console::abort_requested());
}

TEST(Console, keeps_type_ahead) {
  Bench bench;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 1) terminal.send("echo typed ahead\recho part");
  };
  EXPECT_EQ(
      bench.type("lines 2\r"),
      "lines 2\r\nline 0\r\nline 1\r\nlines 2: complete\r\nqm> echo typed ahead\r\ntyped|ahead|\r\nqm> echo part");
  EXPECT_EQ(bench.type("\r"), "\r\npart|\r\nqm> ");
}

TEST(Console, says_how_much_type_ahead_was_lost_and_runs_no_part_of_a_line) {
  Bench bench;
  runs = 0;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 1) {
      for (int i = 0; i < 100; ++i) terminal.send("echo 0123456789\r");  // 16 bytes each
    }
  };
  const std::string text = bench.type("lines 2\r");
  EXPECT_EQ(runs, 63u);  // 1023 bytes are 63 lines and a part of one
  EXPECT_NE(text.find("error: 577 bytes of input lost\r\nqm> "), std::string::npos) << text;
  EXPECT_EQ(bench.command("echo next"), "next|\r\n");
}

TEST(Console, runs_no_part_of_a_line_whose_middle_was_lost) {
  Bench bench;
  runs = 0;
  std::string lines;
  for (int i = 0; i < 146; ++i) lines += "echo 1\r";
  // One byte of the line fits, one is lost, and the rest comes in while the ring is being emptied.
  bench.console.feed(lines + "ec");
  bench.terminal.trickle = true;
  bench.terminal.send("ho part and echo more of it\recho 2\r");
  const std::string text = bench.type("");
  EXPECT_EQ(runs, 147u);
  EXPECT_EQ(text.find("unknown command"), std::string::npos) << text;
  EXPECT_NE(text.find("error: 29 bytes of input lost\r\nqm> "), std::string::npos) << text;
}

TEST(Console, says_how_much_its_driver_lost) {
  Bench bench;
  bench.type("echo hal");
  bench.terminal.lost = 7;
  EXPECT_EQ(bench.type(""), "\x1b[08D\x1b[K\r\nerror: 7 bytes of input lost\r\nqm> ");
  EXPECT_EQ(bench.command("echo next"), "next|\r\n");
}

// ---- what arrives asynchronously ------------------------------------------------------------------------------------

TEST(Console, prints_notices_on_lines_of_their_own_and_the_prompt_again) {
  Bench bench;
  EXPECT_EQ(bench.type("echo h"), "echo h");
  EXPECT_TRUE(bench.console.notify("warning: one\nwarning: two\n"));
  EXPECT_EQ(bench.type(""), "\r\nwarning: one\r\nwarning: two\r\nqm> echo h");
  EXPECT_EQ(bench.type("i\r"), "i\r\nhi|\r\nqm> ");
}

TEST(Console, prints_notices_between_the_lines_of_a_running_command) {
  static Console* console;
  Bench bench;
  console = &bench.console;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 1) console->notify("warning");
  };
  EXPECT_EQ(bench.command("lines 2"), "line 0\r\nline 1\r\nwarning\r\nlines 2: complete\r\n");
}

// ---- frames ---------------------------------------------------------------------------------------------------------

TEST(Console, answers_a_request_in_frames_alone) {
  Bench bench;
  const auto answer = bench.request("echo one two");
  EXPECT_EQ(answer.output, "one|two|\n");
  EXPECT_EQ(answer.status, 0u);
  EXPECT_EQ(bench.terminal.broken, 0u);
}

TEST(Console, has_a_status_for_each_outcome) {
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

TEST(Console, sends_long_output_in_several_frames) {
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

TEST(Console, does_not_hold_the_output_of_a_slow_command_back) {
  Bench bench;
  bench.terminal.on_yield = [](FakeTerminal& terminal) { terminal.now_ms += 30; };
  const auto answer = bench.request("lines 20");
  EXPECT_GE(answer.frames, 5u);
  EXPECT_LE(answer.frames, 9u);
}

TEST(Console, answers_before_it_acts_where_a_command_says_so) {
  Bench bench;
  const auto answer = bench.request("depart");
  EXPECT_EQ(answer.status, 0u);
  EXPECT_EQ(answer.output.substr(0, 6), "going\n");
}

TEST(Console, a_request_waits_for_the_typed_command_and_a_second_is_refused) {
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

TEST(Console, a_waiting_request_leaves_the_running_one_alone) {
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

TEST(Console, takes_input_that_its_terminal_feeds_while_it_yields) {
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

TEST(Console, keeps_the_order_of_lines_and_requests) {
  Bench bench;
  bench.terminal.raw.clear();
  bench.type("echo a\r" + bench.frame(wire::FrameType::kRequest, 5, "echo b") + "echo c\r");
  const std::string& raw = bench.terminal.raw;
  const std::size_t frame = raw.find("\x1bP");
  EXPECT_LT(raw.find("a|"), frame);
  EXPECT_GT(raw.find("c|"), frame);
}

TEST(Console, leaves_the_line_being_typed_alone_while_requests_run) {
  Bench bench;
  bench.type("echo who");
  EXPECT_EQ(bench.request("echo x").output, "x|\n");
  EXPECT_EQ(bench.type("le\r"), "le\r\nwhole|\r\nqm> ");
}

TEST(Console, ctrl_c_during_a_request_abandons_the_line_too) {
  Bench bench;
  bench.type("echo who");
  bench.terminal.on_yield = [](FakeTerminal& terminal) { terminal.send("\x03"); };
  EXPECT_EQ(bench.type(bench.frame(wire::FrameType::kRequest, 5, "lines 9")), "^C\r\nqm> ");
}

TEST(Console, answers_hello_but_not_its_own) {
  Bench bench;
  const std::string hello = std::string("\x01\x00\x00\x04", 4) + "qm host";
  EXPECT_EQ(bench.type(bench.frame(wire::FrameType::kHello, 9, hello)), "");
  ASSERT_EQ(bench.terminal.frames.size(), 1u);
  EXPECT_EQ(bench.terminal.frames[0].type, wire::FrameType::kHello);
  EXPECT_EQ(bench.terminal.frames[0].request, 9u);
  wire::HelloPayload payload;
  ASSERT_TRUE(wire::unpack(wire::as_bytes(bench.terminal.frames[0].payload), payload));
  EXPECT_EQ(payload.version, wire::kProtocolVersion);
  EXPECT_EQ(payload.max_payload_bytes, 255u);
  EXPECT_EQ(payload.text, "Quartermaster 1.2.3 build cafe0123, 4 harts, 128 MiB, formats 1");
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

TEST(Console, answers_what_is_wrong_with_a_frame_with_one_error_frame) {
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

TEST(Console, names_its_version_to_a_frame_of_another) {
  Bench bench;
  // The inner frame of docs/protocol.md's example, with version 2 and its CRC.
  std::vector<std::uint8_t> inner = {2, 2, 7, 0, 0x34, 0x12, 0, 0, 4, 0, 'h', 'e', 'l', 'p'};
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
  EXPECT_EQ(bench.terminal.frames[0].payload[2], 1);
}

TEST(Console, gives_up_a_frame_at_a_line_end_ctrl_c_and_after_silence) {
  Bench bench;
  bench.type("\x1bPmAQ");
  EXPECT_TRUE(bench.console.needs_poll());
  EXPECT_EQ(bench.type("\recho ok\r").find("ok|") != std::string::npos, true) << bench.terminal.text;
  bench.type("\x1bPmAQ");
  EXPECT_NE(bench.type("\x03").find("^C"), std::string::npos);
  bench.type("\x1bPmAQ");
  EXPECT_EQ(bench.type(""), "");
  bench.terminal.now_ms += 199;
  bench.console.poll();
  EXPECT_TRUE(bench.console.needs_poll());
  bench.terminal.now_ms += 1;
  bench.console.poll();
  EXPECT_FALSE(bench.console.needs_poll());
  EXPECT_EQ(bench.command("echo next"), "next|\r\n");
  EXPECT_EQ(bench.terminal.frames.size(), 3u);
}

TEST(Console, erases_the_line_in_which_the_tail_of_a_frame_arrived) {
  Bench bench;
  runs = 0;
  std::string cut = bench.frame(wire::FrameType::kRequest, 8, "echo x").substr(8);
  bench.type(cut);
  EXPECT_EQ(bench.type("echo ok\r").find("error"), std::string::npos) << bench.terminal.text;
  EXPECT_EQ(runs, 1u);
  EXPECT_EQ(last_words, "ok|");
}

// ---- any bytes ------------------------------------------------------------------------------------------------------

TEST(Console, any_bytes_yield_an_error_or_nothing_and_the_next_command_works) {
  qm::test::Random random;
  Bench bench;
  bench.terminal.on_yield = [](FakeTerminal& terminal) { terminal.now_ms += 1; };
  const std::string request = bench.frame(wire::FrameType::kRequest, 3, "echo fuzz");
  constexpr std::string_view kSpecial = "\x1b[PO\\m\r\t\x03\x15 echo?*A~\b";
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    const std::size_t pieces = random.between(1, 6);
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const std::size_t length = random.below(random.chance(5) ? 2000 : 40);
      switch (random.below(5)) {
        case 0:
          for (std::size_t i = 0; i < length; ++i) bytes += static_cast<char>(random.below(256));
          break;
        case 1: bytes += request.substr(0, random.below(request.size() + 1)); break;
        case 2: bytes += request.substr(random.below(request.size())); break;
        case 3:
          for (std::size_t i = 0; i < length; ++i) bytes += kSpecial[random.below(kSpecial.size())];
          break;
        default: bytes += "help\r"; break;
      }
    }
    bench.type(bytes);
    bench.terminal.raw.clear();
    bench.terminal.now_ms += 250;
    bench.console.poll();
    bench.type("\x03");
    EXPECT_EQ(bench.command("echo next"), "next|\r\n") << "round " << round;
    EXPECT_EQ(bench.request("echo again").output, "again|\n") << "round " << round;
    if (HasFailure()) break;
  }
  EXPECT_EQ(bench.terminal.broken, 0u) << "what the console sends is never broken";
}

// ---- raw frames -----------------------------------------------------------------------------------------------------

/// Asks for a form, and looks at the answer. @returns whether the next answer of the console is a raw frame.
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

TEST(Console, sends_raw_frames_to_who_asks_and_text_as_before) {
  Bench bench;
  EXPECT_FALSE(answers_raw(bench));
  EXPECT_TRUE(ask_form(bench, true));
  EXPECT_TRUE(answers_raw(bench));
  EXPECT_EQ(bench.command("echo typed"), "typed|\r\n");
  EXPECT_FALSE(ask_form(bench, false));
  EXPECT_FALSE(answers_raw(bench));
  EXPECT_EQ(bench.terminal.broken, 0u);
}

TEST(Console, goes_back_to_armour_when_nobody_says_that_he_is_there) {
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
  // It says so first.
  EXPECT_EQ(bench.terminal.frames[0].type, wire::FrameType::kForm);
  EXPECT_EQ(bench.terminal.frames[0].payload[0], '\0');
  EXPECT_TRUE(ask_form(bench, true));
  EXPECT_TRUE(answers_raw(bench));
}

TEST(Console, forgets_the_form_that_another_host_has_asked_for) {
  Bench bench;
  ASSERT_TRUE(ask_form(bench, true));
  bench.terminal.raw.clear();
  bench.type(bench.frame(wire::FrameType::kHello, 3, std::string("\x01\x00\x00\x04qm", 6)));
  EXPECT_EQ(bench.terminal.raw[0], '\x1b');
  EXPECT_FALSE(answers_raw(bench));
}

TEST(Console, refuses_a_form_that_it_does_not_know) {
  Bench bench;
  const Refusal refusal = refusal_of(bench, bench.frame(wire::FrameType::kAskForm, 8, "\x02"));
  EXPECT_EQ(refusal.error, 5u);
  EXPECT_FALSE(answers_raw(bench));
}

}  // namespace
