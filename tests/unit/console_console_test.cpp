#include "console_commands.hpp"

#include <qm/console/announcement.hpp>
#include <qm/test/seed.hpp>

namespace console_console_test {

using namespace qm::console;
using qm::test::Bench;
using qm::test::FakeTerminal;
using qm::test::runs;
namespace wire = qm::wire;

// ---- text -----------------------------------------------------------------------------------------------------------

TEST(Console, begins_with_the_banner_and_a_prompt) {
  Bench bench;
  EXPECT_EQ(bench.banner, "Quartermaster 1.2.3 build cafe0123, 4 harts, 128 MiB, formats 2\r\nqm> ");
}

TEST(Console, leaves_out_of_the_banner_what_the_firmware_does_not_say) {
  FakeTerminal terminal;
  qm::console::Console alone(terminal, {.version = "1.0"});
  alone.start();
  EXPECT_EQ(terminal.text.substr(0, terminal.text.find('\r')), "Quartermaster 1.0, 1 hart, formats 2");
}

TEST(Console, runs_a_command_and_prompts_again) {
  Bench bench;
  EXPECT_EQ(bench.type("echo a  b\r"), "echo a  b\r\na|b|\r\nqm> ");
  EXPECT_EQ(bench.type("\r"), "\r\nqm> ");
  EXPECT_EQ(bench.command("version"), "Quartermaster 1.2.3 build cafe0123, 4 harts, 128 MiB, formats 2\r\n");
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
  const std::size_t depart = text.find("depart                answers first\r\n");
  const std::size_t echo = text.find("echo WORD...          says it\r\n");
  const std::size_t help = text.find("help [COMMAND]        this list, or one command in full\r\n");
  EXPECT_NE(depart, std::string::npos) << text;
  EXPECT_LT(depart, echo);
  EXPECT_LT(echo, help);
  EXPECT_NE(help, std::string::npos) << text;
  EXPECT_EQ(bench.command("help echo"), "echo WORD...          says it\r\n");
}

TEST(Console, takes_several_commands_of_a_line_up_to_the_first_that_fails) {
  Bench bench;
  EXPECT_EQ(bench.command("echo a; echo b ;echo c;"), "a|\r\nb|\r\nc|\r\n");
  EXPECT_EQ(bench.command("echo a; nosuch; echo b"), "a|\r\nerror: unknown command \"nosuch\" (try help)\r\n");
  EXPECT_EQ(bench.request("echo a; nosuch; echo b").status, 3u);
  EXPECT_EQ(bench.command(";;"), "");
}

TEST(Console, runs_a_line_of_the_firmwares_shell_without_a_prompt) {
  FakeTerminal terminal;
  Console without_prompt(terminal, {});
  EXPECT_EQ(without_prompt.run("echo a; nosuch"), CommandStatus::kUnknownCommand);
  EXPECT_EQ(terminal.text, "a|\r\nerror: unknown command \"nosuch\" (try help)\r\n");
  EXPECT_EQ(without_prompt.run("echo b"), CommandStatus::kOk);
  EXPECT_EQ(std::string(terminal.text, terminal.text.size() - 4), "b|\r\n");
}

TEST(Console, passes_over_a_comment) {
  Bench bench;
  EXPECT_EQ(bench.command("# a note; echo a"), "");
  EXPECT_EQ(bench.command("echo a # b; echo c"), "a|\r\n");
  EXPECT_EQ(bench.command("echo a#b;#c"), "a#b|\r\n") << "inside a word it is a character";
  EXPECT_EQ(bench.request("# nothing").status, 0u);
}

TEST(Console, a_question_mark_is_help) {
  Bench bench;
  EXPECT_EQ(bench.command("?"), bench.command("help"));
  EXPECT_EQ(bench.command("? echo"), bench.command("help echo"));
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

TEST(Console, completes_the_names_of_functions_after_whatis) {
  Bench bench;
  bench.console.config().symbols = [](Completion& completion) noexcept {
    for (const char* name : {"rx_deliver", "rx_checksum_error", "net_task"}) completion.offer(name);
  };
  EXPECT_EQ(bench.type("whatis \t"), "whatis ") << "no list of all functions";
  EXPECT_EQ(bench.type("r\t"), "rx_");
  EXPECT_EQ(bench.type("\t"), "\r\nrx_deliver  rx_checksum_error\r\nqm> whatis rx_");
  EXPECT_EQ(bench.type("d\t"), "deliver ");
  EXPECT_EQ(bench.type("n\t\t").find("net_task"), std::string::npos) << "whatis takes one word";
}

TEST(Console, a_long_list_says_how_many_more_there_are) {
  Bench bench;
  bench.console.config().symbols = [](Completion& completion) noexcept {
    for (int i = 0; i < 200; ++i) completion.offer("function_" + std::to_string(i + 100));
  };
  EXPECT_EQ(bench.type("whatis f\t"), "whatis function_");
  const std::string list = bench.type("\t");
  EXPECT_NE(list.find("function_163\r\n136 more\r\nqm> whatis function_"), std::string::npos) << list;
  EXPECT_EQ(list.find("function_164"), std::string::npos);
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
  EXPECT_EQ(runs, 63u);  // 1023 bytes are 63 lines and a part of another
  EXPECT_NE(text.find("error: 577 bytes of input lost\r\nqm> "), std::string::npos) << text;
  EXPECT_EQ(bench.command("echo next"), "next|\r\n");
}

TEST(Console, runs_no_part_of_a_line_whose_middle_was_lost) {
  Bench bench;
  runs = 0;
  std::string lines;
  for (int i = 0; i < 146; ++i) lines += "echo 1\r";
  // One byte of the line fits, one is lost, and the rest arrives while the ring is being emptied.
  bench.console.feed(lines + "ec");
  bench.terminal.trickle = true;
  bench.terminal.send("ho part and echo more of it\recho 2\r");
  const std::string text = bench.type("");
  EXPECT_EQ(runs, 147u);
  EXPECT_EQ(text.find("unknown command"), std::string::npos) << text;
  EXPECT_NE(text.find("error: 29 bytes of input lost\r\nqm> "), std::string::npos) << text;
}

/// Polls the console on a silent line until it detects the silence. @returns its output.
std::string pass_silence(Bench& bench) {
  std::string text;
  for (unsigned ms = 0; ms < wire::kSilenceMs; ms += Console::kLookMs) {
    EXPECT_TRUE(bench.console.needs_poll());
    EXPECT_LE(bench.console.poll_ms(), Console::kLookMs);
    bench.terminal.now_ms += Console::kLookMs;
    text += bench.type("");
  }
  return text;
}

TEST(Console, takes_no_pause_of_its_own_for_silence) {
  Bench bench;
  const std::string frame = "\x1bPm";
  bench.type(frame);
  for (unsigned pause = 0; pause < 3; ++pause) {
    bench.terminal.now_ms += 100 * wire::kSilenceMs;
    EXPECT_EQ(bench.type(""), "");
    EXPECT_TRUE(bench.console.needs_poll()) << "the frame's end is waited for";
  }
  bench.type("A");
  pass_silence(bench);
  EXPECT_FALSE(bench.console.needs_poll()) << "a frame that stays without an end is given up";
}

TEST(Console, says_how_much_its_driver_lost) {
  Bench bench;
  bench.type("echo hal");
  bench.terminal.lost = 7;
  EXPECT_EQ(bench.type(""), "\x1b[08D\x1b[K");
  EXPECT_TRUE(bench.console.needs_poll());
  EXPECT_EQ(pass_silence(bench), "\r\nerror: 7 bytes of input lost\r\nqm> ");
  EXPECT_FALSE(bench.console.needs_poll());
  EXPECT_EQ(bench.command("echo next"), "next|\r\n");
}

TEST(Console, drops_the_rest_of_a_line_that_its_driver_lost_a_byte_of_also_when_it_trickles_in) {
  Bench bench;
  runs = 0;
  bench.type("ec");
  bench.terminal.lost = 2;
  bench.type("");
  for (const char c : std::string_view("echo rest")) {
    bench.terminal.now_ms += wire::kSilenceMs - 1;
    bench.type({&c, 1});
  }
  EXPECT_EQ(bench.type("\recho next\r"), "echo next\r\nnext|\r\nerror: 12 bytes of input lost\r\nqm> ");
  EXPECT_EQ(runs, 1u);
}

TEST(Console, runs_no_line_that_began_before_the_prompt_and_those_behind_it) {
  FakeTerminal terminal;
  Console console(terminal, qm::test::test_config());
  terminal.send("ks\recho one\r");  // the boot loader has consumed the beginning
  console.start();
  EXPECT_TRUE(console.needs_poll());
  terminal.text.clear();
  console.poll();
  EXPECT_EQ(terminal.text, "echo one\r\none|\r\nerror: 3 bytes of input lost\r\nqm> ");
  EXPECT_FALSE(console.needs_poll());
}

TEST(Console, takes_a_frame_that_came_before_the_prompt) {
  FakeTerminal terminal;
  Console console(terminal, qm::test::test_config());
  char request[wire::armoured_size(16)];
  const wire::Frame frame{.type = wire::FrameType::kRequest, .request = 7, .payload = wire::as_bytes("echo one")};
  terminal.send(std::string_view(request, wire::encode(frame, request)));
  console.start();
  console.poll();
  ASSERT_EQ(terminal.frames.size(), 2u);
  EXPECT_EQ(terminal.frames[0].payload, "one|\n");
  EXPECT_FALSE(console.needs_poll());
}

// ---- asynchronous input --------------------------------------------------------------------------------------------

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

TEST(Console, announces_in_any_length_on_lines_of_its_own_and_shows_the_line_being_typed_again) {
  Bench bench;
  bench.type("echo part");
  bench.terminal.text.clear();
  std::string lines;
  {
    Announcement announcement(bench.console);
    for (int i = 0; i < 200; ++i) {
      announcement.out().print("line {}\n", i);
      lines += "line " + std::to_string(i) + "\r\n";
    }
    announcement.out().print("{}", std::string(300, 'x').c_str());
  }
  EXPECT_EQ(bench.terminal.text, "\r\n" + lines + std::string(300, 'x') + "\r\nqm> echo part");
  EXPECT_EQ(bench.type("\r"), "\r\npart|\r\nqm> ");
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

}  // namespace console_console_test
