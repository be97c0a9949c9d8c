#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>

#include <qm/console/line_editor.hpp>
#include <qm/test/seed.hpp>

namespace console_editor_test {

using namespace qm::console;
using Event = LineEditor::Event;

/// One row of a terminal, with the functions that the editor uses.
struct Row {
  std::size_t columns = 80;
  std::string cells = std::string(columns, ' ');
  std::size_t cursor = 0;
  std::size_t prompts = 0;
  std::string everything;
  std::string report;  ///< the terminal's answer

  /// Changes the width: columns beyond it are cut off.
  void resize(std::size_t to) {
    columns = to;
    cells.resize(to, ' ');
    cursor = std::min(cursor, to - 1);
  }
  void write(std::string_view bytes) {
    everything += bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const char c = bytes[i];
      if (c == '\r') {
        cursor = 0;
      } else if (c == '\n') {
        cells.assign(columns, ' ');
      } else if (c == '\b') {
        ASSERT_GT(cursor, 0u);
        --cursor;
      } else if (c == '\x1b') {
        ASSERT_EQ(bytes[++i], '[');
        std::size_t number = 0;
        while (bytes[++i] >= '0' && bytes[i] <= '9') number = number * 10 + static_cast<std::size_t>(bytes[i] - '0');
        if (bytes[i] == 'H') {
          cursor = 0;
        } else if (bytes[i] == 'J') {
          cells.assign(columns, ' ');
        } else if (bytes[i] == 'C') {
          cursor = std::min(cursor + number, columns - 1);
        } else if (bytes[i] == 'n') {
          report = "\x1b[24;" + std::to_string(cursor + 1) + "R";
        } else if (bytes[i] == 'K') {
          for (std::size_t at = cursor; at < columns; ++at) cells[at] = ' ';
        } else {
          ASSERT_EQ(bytes[i], 'D');
          ASSERT_GE(cursor, number);
          cursor -= number;
        }
      } else {
        ASSERT_GE(c, ' ');
        ASSERT_LT(cursor, columns - 1) << "the row wrapped";
        cells[cursor++] = c;
      }
    }
  }
};

struct Desk {
  Row row;
  char buffer[256];  // an escape sequence is never split
  Output echo{buffer, Output::Target::kTerminal,
              [](void* context, std::string_view bytes) noexcept { static_cast<Row*>(context)->write(bytes); }, &row};
  LineEditor editor{echo};

  Desk() {
    editor.next_line();
    echo.flush();
    row.everything.clear();
  }
  Event key(std::uint8_t byte) {
    const Event event = editor.push(byte);
    echo.flush();
    return event;
  }
  Event type(std::string_view bytes) {
    Event last = Event::kNone;
    for (const char c : bytes) {
      last = key(static_cast<std::uint8_t>(c));
      if (last == Event::kLine || last == Event::kAbandoned || last == Event::kTooLong) {
        line = editor.line();
        editor.next_line();
        echo.flush();
      }
    }
    return last;
  }
  std::string line;
};

constexpr const char* kUp = "\x1b[A";
constexpr const char* kDown = "\x1b[B";
constexpr const char* kRight = "\x1b[C";
constexpr const char* kLeft = "\x1b[D";

TEST(LineEditor, echoes_what_is_typed_and_nothing_else) {
  Desk desk;
  EXPECT_EQ(desk.type("help\r"), Event::kLine);
  EXPECT_EQ(desk.line, "help");
  EXPECT_EQ(desk.row.everything, "help\r\nqm> ");
}

TEST(LineEditor, ends_a_line_at_cr_lf_and_both) {
  for (const char* end : {"\r", "\n", "\r\n"}) {
    Desk desk;
    desk.type(std::string("a") + end + "b" + end);
    EXPECT_EQ(desk.line, "b");
    EXPECT_EQ(desk.row.everything, "a\r\nqm> b\r\nqm> ");
  }
}

TEST(LineEditor, takes_characters_back_and_the_whole_line) {
  Desk desk;
  desk.type("hexx\b\x7flp\r");
  EXPECT_EQ(desk.line, "help");
  desk.row.everything.clear();
  desk.type("\b\b");
  EXPECT_EQ(desk.row.everything, "") << "nothing is there to take back";
  desk.type("rubbish\x15help\r");
  EXPECT_EQ(desk.line, "help");
  desk.type("slab_trace start\x17stop\r");
  EXPECT_EQ(desk.line, "slab_trace stop");
}

TEST(LineEditor, abandons_the_line_at_ctrl_c) {
  Desk desk;
  EXPECT_EQ(desk.type("poweroff\x03"), Event::kAbandoned);
  EXPECT_EQ(desk.row.everything, "poweroff^C\r\nqm> ");
  EXPECT_EQ(desk.type("x\r"), Event::kLine);
  EXPECT_EQ(desk.line, "x");
}

TEST(LineEditor, edits_in_the_middle) {
  Desk desk;
  desk.type(std::string("ac") + kLeft + "b" + "\x01" + "<" + "\x05" + ">" + "\r");
  EXPECT_EQ(desk.line, "<abc>");
  desk.type(std::string("abc") + kLeft + kLeft + "\x1b[3~" + "\r");
  EXPECT_EQ(desk.line, "ac");
  desk.type(std::string("abc") + kLeft + kLeft + "\x0b" + "\r");
  EXPECT_EQ(desk.line, "a");
  desk.type(std::string("abc\x1b[H") + kRight + "\b" + "\x1bOF" + "d\r");
  EXPECT_EQ(desk.line, "bcd");
}

TEST(LineEditor, remembers_sixteen_lines_without_repeats_and_blanks) {
  Desk desk;
  for (int i = 0; i < 20; ++i) desk.type("line" + std::to_string(i) + "\r");
  desk.type("line19\r   \r\r");
  std::string ups;
  for (int i = 0; i < 15; ++i) ups += kUp;
  desk.type(ups + "\r");
  EXPECT_EQ(desk.line, "line5");
  Desk other;
  for (int i = 0; i < 20; ++i) other.type("line" + std::to_string(i) + "\r");
  other.type(ups + kUp + kUp + kUp + "\r");
  EXPECT_EQ(other.line, "line4") << "the oldest of sixteen";
}

TEST(LineEditor, comes_back_from_history_to_what_was_being_typed) {
  Desk desk;
  desk.type("first\rsecond\r");
  desk.type(std::string("thi") + kUp + kUp + kDown + kDown + kDown + "rd\r");
  EXPECT_EQ(desk.line, "third");
  desk.type(std::string(kUp) + kUp + "!\r");
  EXPECT_EQ(desk.line, "second!") << "a recalled line is a copy";
}

TEST(LineEditor, refuses_a_line_that_is_too_long_as_a_whole) {
  Desk desk;
  EXPECT_EQ(desk.type(std::string(255, 'a') + "\r"), Event::kLine);
  EXPECT_EQ(desk.line, std::string(255, 'a'));
  EXPECT_EQ(desk.type(std::string(256, 'a') + "\r"), Event::kTooLong);
  EXPECT_EQ(desk.line, "");
  EXPECT_EQ(desk.type(std::string(257, 'a') + "\b\b\r"), Event::kLine) << "what was too much was taken back";
  EXPECT_EQ(desk.type("b\r"), Event::kLine);
  EXPECT_EQ(desk.line, "b");
}

TEST(LineEditor, scrolls_a_long_line_sideways) {
  Desk desk;
  std::string line;
  for (int i = 0; i < 200; ++i) line += static_cast<char>('a' + i % 26);
  desk.type(line);
  EXPECT_EQ(desk.editor.line(), line);
  EXPECT_EQ(desk.row.cells.substr(0, 4), "qm> ");
  desk.type("\x01");
  EXPECT_EQ(desk.row.cells.substr(0, 79), "qm> " + line.substr(0, 75));
}

TEST(LineEditor, ignores_control_characters_and_keeps_a_place_for_other_bytes) {
  Desk desk;
  desk.type(std::string("he\x00\x02\x1c\x1dlp", 8) + "\r");
  EXPECT_EQ(desk.line, "hlpe") << "Ctrl-B moves left";
  desk.type("\x1b[99999999999999999999zx\r");
  EXPECT_EQ(desk.line, "x");
  desk.type("\x1b[1;5Cy\x1bqz\x1b\r");
  EXPECT_EQ(desk.line, "yz");
  desk.type(
      "pack\xff"
      "et\r");
  EXPECT_EQ(desk.line,
            "pack\x7f"
            "et");
}

TEST(LineEditor, ignores_all_bytes_of_a_mouse_and_of_a_function_key) {
  Desk desk;
  desk.type(
      "a\x1b[M !\x7f"
      "b\x1b[M#\xff\xff"
      "c\r");  // X10: button, column, row
  EXPECT_EQ(desk.line, "abc");
  desk.type("\x1b[<0;10;20Md\x1b[32;10;20Me\r");  // SGR and urxvt: the whole report comes before the M
  EXPECT_EQ(desk.line, "de");
  desk.type("\x1b[[Af\x1b[15~g\r");  // F1 of the Linux console, F5
  EXPECT_EQ(desk.line, "fg");
  desk.type("h\x1b[M \ri\r");
  EXPECT_EQ(desk.line, "i") << "a control character ends it";
}

TEST(LineEditor, moves_and_erases_by_words) {
  Desk desk;
  desk.type("slab_trace start packet");
  desk.type("\x1b[1;5D\x1b[1;5D<");  // Ctrl-Left twice
  EXPECT_EQ(desk.editor.line(), "slab_trace <start packet");
  desk.type("\x1b[1;5C>\x1b[1;3C.");  // Ctrl-Right, Alt-Right
  EXPECT_EQ(desk.editor.line(), "slab_trace <start> packet.");
  desk.type(
      "\x1b"
      "b\x1b"
      "b\x1b"
      "b^\x1b"
      "f$");  // Alt-B, Alt-F
  EXPECT_EQ(desk.editor.line(), "^slab_trace$ <start> packet.");
  desk.type(
      "\x1b"
      "d\x1b"
      "d!");  // Alt-D
  EXPECT_EQ(desk.editor.line(), "^slab_trace$!");
  desk.type(
      "\x1b"
      "d\x1b"
      "f\x01\x1b"
      "b\x1b[1;5D");  // nothing to delete
  EXPECT_EQ(desk.editor.line(), "^slab_trace$!");
  EXPECT_EQ(desk.row.cursor, 4u);
}

TEST(LineEditor, clears_the_screen_and_keeps_the_line) {
  Desk desk;
  desk.type(std::string("help me") + kLeft + kLeft);
  desk.row.everything.clear();
  desk.key(0x0c);
  EXPECT_EQ(desk.row.everything, "\x1b[H\x1b[2J\x1b[999C\x1b[6n\rqm> help me\x1b[02D");
  EXPECT_EQ(desk.row.cells.substr(0, 12), "qm> help me ");
  EXPECT_EQ(desk.row.cursor, 9u);
}

TEST(LineEditor, finds_older_lines_with_what_was_typed) {
  Desk desk;
  desk.type("slab_trace start packet\rfree\rslab_trace print packet\rkmemstat\r");
  desk.type("packet\x12");
  EXPECT_EQ(desk.editor.line(), "slab_trace print packet");
  desk.type("\x12");
  EXPECT_EQ(desk.editor.line(), "slab_trace start packet");
  desk.type("\x12");
  EXPECT_EQ(desk.editor.line(), "slab_trace start packet") << "there is no older one";
  desk.type(std::string(kDown) + kDown + kDown + kDown);
  EXPECT_EQ(desk.editor.line(), "packet") << "back to what was typed";
  desk.type("\x15nowhere\x12\r");
  EXPECT_EQ(desk.line, "nowhere");
}

TEST(LineEditor, finds_older_lines_while_what_is_wanted_is_typed) {
  Desk desk;
  desk.type("slab_trace start packet\rfree\rslab_trace print packet\rkmemstat\r");
  const auto shows = [&](std::string_view text) {
    EXPECT_EQ(desk.row.cells.substr(0, text.size() + 1), std::string(text) + ' ');
  };
  desk.type("mar\x12");
  shows("find mar: mar");
  desk.type("\x08\x08\x08pack");
  shows("find pack: slab_trace print packet");
  desk.type("et x");
  shows("find packet: slab_trace print packet");  // a pattern without a match is not accepted
  desk.type("\x12");
  shows("find packet: slab_trace start packet");
  desk.type("\x07");
  shows("qm> mar");
  EXPECT_EQ(desk.editor.line(), "mar");
  desk.type(
      "\x15\x12"
      "fre\x05");  // Ctrl-E accepts it, and later input belongs to the line
  shows("qm> free");
  desk.type(" -v\r");
  EXPECT_EQ(desk.line, "free -v");
  desk.type("\x12kmem\r");
  EXPECT_EQ(desk.line, "kmemstat");
  desk.type("\x12kmem\x03");
  shows("qm>");
  EXPECT_EQ(desk.editor.line(), "");
}

TEST(LineEditor, a_search_leaves_room_for_the_line_in_a_narrow_window) {
  Desk desk;
  desk.type("slab_trace start packet\r\x1b[24;20R\x12slab_trace start");
  EXPECT_EQ(desk.row.cells.substr(0, 19), "find slab: cket    ");
  desk.type("\x1b[24;80R");
  EXPECT_EQ(desk.row.cells.substr(0, 27), "qm> slab_trace start packet");
}

TEST(LineEditor, a_search_left_by_any_key_leaves_the_line_that_is_shown) {
  qm::test::Random random;
  Desk desk;
  for (int press = 0; press < 20'000; ++press) {
    constexpr std::string_view kKeys = "aabbcc  \x12\x12\x12\x08\x07\x01\x0b\x17\x10\x0e\r\t\x7f";
    desk.type(std::string(1, kKeys[random.below(kKeys.size())]));
    if (random.below(8) != 0) continue;
    desk.type("\x05");  // Ctrl-E
    const std::string line(desk.editor.line());
    if (line.size() < 70) ASSERT_EQ(desk.row.cells, "qm> " + line + std::string(76 - line.size(), ' ')) << press;
  }
}

TEST(LineEditor, tells_the_first_tab_from_the_second) {
  Desk desk;
  EXPECT_EQ(desk.type("h\t"), Event::kComplete);
  EXPECT_EQ(desk.type("\t"), Event::kList);
  EXPECT_EQ(desk.type("e"), Event::kNone);
  EXPECT_EQ(desk.type("\t"), Event::kComplete);
}

TEST(LineEditor, draws_prompt_and_line_again_on_demand) {
  Desk desk;
  desk.type(std::string("help") + kLeft);
  desk.row.write("\r\n");
  desk.editor.redraw();
  desk.echo.flush();
  EXPECT_EQ(desk.row.cells.substr(0, 9), "qm> help ");
  EXPECT_EQ(desk.row.cursor, 7u);
}

// ---- against a model ------------------------------------------------------------------------------------------------

struct Model {
  std::string line;
  std::size_t cursor = 0;
  std::size_t excess = 0;

  void insert(char c) {
    if (line.size() == 255) {
      ++excess;
    } else {
      line.insert(cursor++, 1, c);
    }
  }
  void backspace() {
    if (excess > 0) {
      --excess;
    } else if (cursor > 0) {
      line.erase(--cursor, 1);
    }
  }
};

/// Compares the row with the model's line, in a terminal of @p width columns.
void expect_shown(const Desk& desk, const Model& model, std::size_t width) {
  const std::size_t view = width - 5;
  ASSERT_EQ(desk.row.cells.substr(0, 4), "qm> ");
  ASSERT_GE(desk.row.cursor, 4u);
  const std::size_t column = desk.row.cursor - 4;
  ASSERT_LE(column, std::min(view, model.cursor));
  const std::string visible = model.line.substr(model.cursor - column, view);
  ASSERT_EQ(desk.row.cells.substr(4, view), visible + std::string(view - visible.size(), ' '));
}

TEST(LineEditor, asks_for_the_width_of_the_terminal_and_keeps_to_it) {
  Desk desk;
  const std::string line(100, 'x');
  desk.row.columns = 40;
  desk.type("\x0c");
  ASSERT_EQ(desk.row.report, "\x1b[24;40R");
  desk.type(desk.row.report);
  desk.row.resize(40);
  desk.type(line);  // the row does not wrap
  EXPECT_EQ(desk.editor.line(), line) << "the answer is not in the line";
  expect_shown(desk, {line, 100, 0}, 40);
  desk.type("\x01");
  EXPECT_EQ(desk.row.cells, "qm> " + line.substr(0, 35) + " ");
  // Reported without a request, when the window has changed: the row shows as much as fits now.
  desk.type("\x05\x08\x08\x08" + std::string(30, '\x08'));
  desk.row.resize(100);
  desk.type("\x1b[8;24;100t");
  EXPECT_EQ(desk.row.cells.substr(0, 80), "qm> " + line.substr(0, 67) + std::string(9, ' '));
  desk.type(line.substr(0, 33) + "\x01");
  EXPECT_EQ(desk.row.cells.substr(0, 80), "qm> " + line.substr(0, 75) + " ");
  desk.row.resize(20);
  desk.type("\x1b[8;24;20t");
  EXPECT_EQ(desk.row.cells, "qm> " + line.substr(0, 15) + " ");
  desk.row.everything.clear();
  desk.type("\x1b[8;24;20t\x1b[1;5R\x1b[0;0R\x1b[R");
  EXPECT_EQ(desk.row.everything, "") << "nothing new, a key, and nonsense";
  desk.type("\r");
  EXPECT_EQ(desk.line, line);
}

void press_any_keys(std::size_t width, int presses);

TEST(LineEditor, shows_what_the_line_is_after_any_keys) { press_any_keys(80, 200'000); }
TEST(LineEditor, shows_what_the_line_is_after_any_keys_in_forty_columns) { press_any_keys(40, 100'000); }
TEST(LineEditor, shows_what_the_line_is_after_any_keys_in_twenty_columns) { press_any_keys(20, 100'000); }

void press_any_keys(std::size_t width, int presses) {
  qm::test::Random random;
  Desk desk;
  Model model;
  desk.row.resize(width);
  desk.type("\x1b[8;24;" + std::to_string(width) + "t");
  for (int i = 0; i < presses; ++i) {
    const unsigned kind = static_cast<unsigned>(random.below(100));
    if (kind < 62) {
      const char c = static_cast<char>(random.between(' ' + 1, '~'));
      desk.key(static_cast<std::uint8_t>(c));
      model.insert(c);
    } else if (kind < 74) {
      desk.key(0x08);
      model.backspace();
    } else if (kind < 82) {
      desk.type(kLeft);
      if (model.cursor > 0) --model.cursor;
    } else if (kind < 90) {
      desk.type(kRight);
      if (model.cursor < model.line.size()) ++model.cursor;
    } else if (kind < 92) {
      desk.key(0x01);
      model.cursor = 0;
    } else if (kind < 95) {
      desk.key(0x05);
      model.cursor = model.line.size();
    } else if (kind < 98) {
      desk.type("\x1b[3~");
      if (model.cursor < model.line.size()) model.line.erase(model.cursor, 1);
    } else if (random.chance(3)) {
      desk.key(0x0b);
      model.line.resize(model.cursor);
    } else if (random.chance(3)) {
      desk.key(0x15);
      model = {};
    }
    ASSERT_EQ(desk.editor.line(), model.line) << "step " << i;
    ASSERT_EQ(desk.editor.excess(), model.excess) << "step " << i;
    expect_shown(desk, model, width);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace console_editor_test
