// Wrong input of a person, and noise on the line: the console prints one clear error or nothing, and the next command
// works.

#include "machine.hpp"

#include <string>

#include <qm/test/seed.hpp>

namespace console_input_test {

using qm::test::Machine;
using qm::test::MachineTest;

class Input : public MachineTest {};

TEST_F(Input, an_unknown_command_is_named) {
  EXPECT_EQ(machine().type_line("frobnicate now"), "error: unknown command \"frobnicate\" (try help)\n");
  expect_it_still_works();
}

TEST_F(Input, an_empty_line_says_nothing) {
  EXPECT_EQ(machine().type_line(""), "");
  EXPECT_EQ(machine().type_line("   "), "");
}

TEST_F(Input, the_longest_line_is_taken_and_one_more_character_refused) {
  EXPECT_EQ(machine().type_line("x" + std::string(254, 'y')),
            "error: unknown command \"x" + std::string(254, 'y') + "\" (try help)\n");
  EXPECT_EQ(machine().type_line(std::string(256, 'y')), "error: line longer than 255 characters\n");
  EXPECT_EQ(machine().type_line("version " + std::string(700, 'y')), "error: line longer than 255 characters\n");
  expect_it_still_works();
}

TEST_F(Input, a_line_ends_in_cr_or_lf_or_both) {
  for (const char* end : {"\r", "\n", "\r\n"}) {
    machine().clear();
    machine().send("nonsense" + std::string(end));
    machine().settle();
    const std::string& text = machine().text();
    const std::size_t first = text.find("error: unknown command");
    ASSERT_NE(first, std::string::npos) << text;
    EXPECT_EQ(text.find("error", first + 1), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("qm> ")) << text;
  }
}

TEST_F(Input, ctrl_c_abandons_a_line_and_ctrl_u_empties_it) {
  machine().clear();
  machine().send("frobnicate\x03");
  machine().settle();
  EXPECT_EQ(machine().text().find("error"), std::string::npos) << machine().text();
  machine().send("frobnicate\x15");
  EXPECT_TRUE(machine().type_line("version").starts_with("Quartermaster "));
  machine().send("versioXX\x7f\x08");
  EXPECT_TRUE(machine().type_line("n").starts_with("Quartermaster "));
}

TEST_F(Input, each_control_character_alone_breaks_nothing) {
  for (int byte = 0; byte < 256; ++byte) {
    if (byte >= 0x20 && byte < 0x7f) continue;
    machine().send(std::string(1, static_cast<char>(byte)));
  }
  expect_it_still_works();
}

TEST_F(Input, a_byte_that_is_no_ascii_matches_no_name) {
  const std::string printed = machine().type_line("vers\xc3\xb6n");
  EXPECT_TRUE(printed.starts_with("error: unknown command ")) << printed;
  expect_it_still_works();
}

TEST_F(Input, noise_of_any_kind_leaves_a_console_that_works) {
  qm::test::Random random;
  for (unsigned burst = 0; burst < 40; ++burst) {
    SCOPED_TRACE("burst " + std::to_string(burst));
    std::string noise;
    const std::uint64_t length = random.between(1, 400);
    const bool framing = random.chance(50);  // half of the bursts have many bytes that begin or end frames
    for (std::uint64_t at = 0; at < length; ++at) {
      static constexpr char kFraming[] = {'\x1b', 'P', 'm', '\\', 'A', '=', '\r', '\x03'};
      noise +=
          framing && random.chance(40) ? kFraming[random.below(sizeof kFraming)] : static_cast<char>(random.below(256));
    }
    machine().send(noise);
    machine().settle(std::chrono::milliseconds(250));
    machine().clear();
    expect_it_still_works();
    if (HasFailure()) return;
  }
}

// The boot loader and the set-up of the receiver may consume a part of a line that is typed while the board boots: that
// line must run completely or not at all, and the lines after it must run.
TEST(EarlyInput, a_line_typed_while_the_board_boots_is_run_whole_or_told_as_lost) {
  for (int delay = 0; delay <= 700; delay += 100) {
    SCOPED_TRACE("sent after " + std::to_string(delay) + " ms");
    Machine machine(qm::test::demo(), "marks\rallocinfo top 1 sort calls\rversion\r", std::chrono::milliseconds(delay));
    ASSERT_TRUE(machine.wait_for_text("qm> version")) << machine.text();
    machine.settle();
    const std::string& text = machine.text();
    EXPECT_EQ(text.find("unknown command"), std::string::npos) << text;
    EXPECT_NE(text.find("allocinfo - version"), std::string::npos) << text;
    EXPECT_EQ(text.find("qm> marks\r\n") == std::string::npos, text.find("bytes of input lost") != std::string::npos)
        << text;
    EXPECT_EQ(machine.type_line("marks"), "marks 0 of 8: complete\n");
    if (HasFailure()) return;
  }
}

TEST_F(Input, what_does_not_fit_the_receive_ring_is_counted) {
  // Typed while a command runs: 16 lines of 128 characters, twice the size of the ring.
  machine().clear();
  machine().send("workload run churn 100000000\r");
  ASSERT_TRUE(machine().wait_for_text("churn 100000000\r\n"));
  std::string lines;
  for (char mark = 'a'; mark < 'q'; ++mark) lines += std::string(127, mark) + "\r";
  machine().send(lines);
  machine().settle(std::chrono::milliseconds(1500));
  // The abort drops the input typed ahead, but the loss is still reported.
  machine().send("\x03");
  ASSERT_TRUE(machine().wait_for_text(" bytes of input lost")) << machine().text();
  machine().settle();
  expect_it_still_works();
}

TEST_F(Input, every_command_refuses_surplus_words_with_its_usage_from_help) {
  const std::string help = machine().type_line("help");
  unsigned commands = 0;
  for (std::size_t at = 0; at < help.size(); at = help.find('\n', at) + 1) {
    const std::string line = help.substr(at, help.find('\n', at) - at);
    if (line.starts_with(' ')) continue;  // the second line of an entry
    const std::string usage = line.substr(0, line.find("  "));
    const std::string name = usage.substr(0, usage.find(' '));
    if (name == "slab_trace") continue;  // it has a fixed text of its own, which has its own test
    EXPECT_EQ(machine().type_line(name + " a b c d e f g h i j"), "error: usage: " + usage + "\n");
    ++commands;
  }
  EXPECT_GE(commands, 6u) << help;
  expect_it_still_works();
}

}  // namespace console_input_test
