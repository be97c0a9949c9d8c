#include <qm/console/line_editor.hpp>

#include <cstring>
#include <utility>

namespace qm::console {
namespace {

constexpr std::uint8_t control_key(char letter) noexcept { return static_cast<std::uint8_t>(letter & 0x1f); }

constexpr std::uint8_t kBackspace = 0x08;
constexpr std::uint8_t kDelete = 0x7f;
constexpr std::uint8_t kEscapeByte = 0x1b;
constexpr std::string_view kEraseToEnd = "\x1b[K";
constexpr std::string_view kClearScreen = "\x1b[H\x1b[2J";
constexpr std::string_view kAskWidth = "\x1b[999C\x1b[6n\r";  // move to the last column and ask for the position
// The parameter of an arrow key with Alt (`1;3`) and with Ctrl (`1;5`), without its separator.
constexpr unsigned kWithAlt = 13;
constexpr unsigned kWithControl = 15;
constexpr std::size_t kScrollStep = 20;  // columns that the view scrolls by; a narrow view scrolls by half its width
constexpr unsigned kMaxParameter = 99;
constexpr unsigned kMaxLast = 9999;
constexpr unsigned kLeastWidth = 20;  // a smaller number belongs to F3 with a modifier key
constexpr std::string_view kBeforeWanted = "find ";
constexpr std::string_view kBehindWanted = ": ";
constexpr std::size_t kLeastView = 8;  // columns that a search leaves to the line

}  // namespace

// ---- history --------------------------------------------------------------------------------------------------------

void History::add(std::string_view line) noexcept {
  bool blank = true;
  for (const char c : line) blank = blank && (c == ' ' || c == '\t');
  if (blank || line.size() > kMaxLine || line == (*this)[0]) return;
  std::memcpy(lines_[next_], line.data(), line.size());
  lengths_[next_] = static_cast<std::uint8_t>(line.size());
  next_ = (next_ + 1) % kLines;
  if (count_ < kLines) ++count_;
}

std::string_view History::operator[](std::size_t age) const noexcept {
  if (age >= count_) return {};
  const std::size_t index = (next_ + kLines - 1 - age) % kLines;
  return {lines_[index], lengths_[index]};
}

// ---- bytes in -------------------------------------------------------------------------------------------------------

LineEditor::Event LineEditor::push(std::uint8_t byte) noexcept {
  const bool line_feed_of_pair = byte == '\n' && after_cr_;
  after_cr_ = byte == '\r';
  if (line_feed_of_pair) return Event::kNone;
  const bool tab_again = byte == '\t' && after_tab_;
  after_tab_ = byte == '\t';
  if (escape_ != Escape::kNone) {
    if (byte >= 0x20 && (byte != kDelete || escape_ == Escape::kRest)) {
      escape_sequence(byte);
      return Event::kNone;
    }
    escape_ = Escape::kNone;
  }
  if (searching_ && search_key(byte)) return Event::kNone;
  if (byte == '\t') return tab_again ? Event::kList : Event::kComplete;
  if (byte < 0x20 || byte == kDelete) return control(byte);
  insert_character(byte < kDelete ? static_cast<char>(byte) : kUnprintable);
  return Event::kNone;
}

LineEditor::Event LineEditor::control(std::uint8_t byte) noexcept {
  switch (byte) {
    case '\r':
    case '\n': return end_line();
    case control_key('C'):
      echo_.raw("^C\r\n");
      length_ = cursor_ = view_ = excess_ = 0;
      return Event::kAbandoned;
    case kBackspace:
    case kDelete:
      if (excess_ > 0) {
        --excess_;
      } else if (cursor_ > 0) {
        erase(cursor_ - 1, cursor_);
      }
      break;
    case kEscapeByte: escape_ = Escape::kEscape; break;
    case control_key('U'): kill_line(); break;
    case control_key('K'): erase(cursor_, length_); break;
    case control_key('W'): erase_word(); break;
    case control_key('A'): move_to(0); break;
    case control_key('E'): move_to(length_); break;
    case control_key('B'): key('D', 0); break;
    case control_key('F'): key('C', 0); break;
    case control_key('L'):
      echo_.raw(kClearScreen);
      echo_.raw(kAskWidth);
      redraw();
      break;
    case control_key('R'): begin_search(); break;
    case control_key('P'): key('A', 0); break;
    case control_key('N'): key('B', 0); break;
    default: break;
  }
  return Event::kNone;
}

void LineEditor::escape_sequence(std::uint8_t byte) noexcept {
  if (escape_ == Escape::kEscape) {
    // `ESC [` and `ESC O` begin a key's sequence; any other character after ESC is a key with Alt.
    escape_ = byte == '[' || byte == 'O' ? Escape::kSequence : Escape::kNone;
    if (byte == 'b') move_to(word_before());
    if (byte == 'f') move_to(word_behind());
    if (byte == 'd') erase(cursor_, word_behind());
    bare_ = true;
    parameter_ = last_ = 0;
    return;
  }
  if (escape_ == Escape::kRest) {
    if (--rest_ == 0) escape_ = Escape::kNone;
    return;
  }
  const bool bare = std::exchange(bare_, false);
  if (byte >= '0' && byte <= '9') {
    parameter_ = parameter_ * 10 + static_cast<unsigned>(byte - '0');
    if (parameter_ > kMaxParameter) parameter_ = kMaxParameter;
    last_ = last_ * 10 + static_cast<unsigned>(byte - '0');
    if (last_ > kMaxLast) last_ = kMaxLast;
  } else if (byte == ';') {
    last_ = 0;
  } else if (bare && (byte == 'M' || byte == '[')) {
    // X10 mouse reports have a button and a position (3 bytes) after `ESC [ M`. Function keys of the Linux console have
    // a letter after `ESC [ [`.
    rest_ = byte == 'M' ? 3 : 1;
    escape_ = Escape::kRest;
  } else if (byte >= 0x40) {
    escape_ = Escape::kNone;
    if (byte <= 0x7e) key(static_cast<char>(byte), parameter_);
  }
}

void LineEditor::key(char final, unsigned parameter) noexcept {
  const bool by_word = parameter == kWithAlt || parameter == kWithControl;
  switch (final) {
    case 'A': recall(recalled_ + 1); break;
    case 'B':
      if (recalled_ > 0) recall(recalled_ - 1);
      break;
    case 'C': move_to(by_word ? word_behind() : cursor_ < length_ ? cursor_ + 1 : cursor_); break;
    case 'D': move_to(by_word ? word_before() : cursor_ > 0 ? cursor_ - 1 : 0); break;
    case 'H': move_to(0); break;
    case 'F': move_to(length_); break;
    case 'R':
    case 't': set_width(last_); break;
    case '~':
      if (parameter == 1 || parameter == 7) move_to(0);
      if (parameter == 4 || parameter == 8) move_to(length_);
      if (parameter == 3 && cursor_ < length_) erase(cursor_, cursor_ + 1);
      break;
    default: break;
  }
}

/// Sets the terminal's width, and redraws the line if its visible part changes.
void LineEditor::set_width(unsigned columns) noexcept {
  if (columns < kLeastWidth) return;
  if (searching_) end_search();
  const std::size_t usable = columns - 1 < kColumns ? columns - 1 : kColumns;
  if (usable - prompt_.size() == view_columns_) return;
  view_columns_ = usable - prompt_.size();
  view_ = 0;
  draw_row();
}

LineEditor::Event LineEditor::end_line() noexcept {
  echo_.raw("\r\n");
  if (excess_ > 0) {
    length_ = cursor_ = view_ = excess_ = 0;
    return Event::kTooLong;
  }
  history_.add(line());
  return Event::kLine;
}

// ---- the line -------------------------------------------------------------------------------------------------------

void LineEditor::next_line() noexcept {
  length_ = cursor_ = view_ = excess_ = recalled_ = 0;
  redraw();
}

void LineEditor::kill_line() noexcept {
  excess_ = 0;
  recalled_ = 0;
  replace({});
}

void LineEditor::insert(std::string_view text) noexcept {
  for (const char c : text) {
    if (length_ < kMaxLine) insert_character(c);
  }
}

void LineEditor::insert_character(char c) noexcept {
  if (length_ == kMaxLine) {
    ++excess_;
    return;
  }
  const std::size_t old_column = column();
  std::memmove(line_ + cursor_ + 1, line_ + cursor_, length_ - cursor_);
  line_[cursor_] = c;
  ++length_;
  ++cursor_;
  if (cursor_ == length_ && column() <= view_columns_) {
    show(c);
  } else {
    draw_from(old_column);
  }
}

void LineEditor::erase(std::size_t from, std::size_t to) noexcept {
  if (from == to) return;
  const std::size_t old_column = column();
  const bool last_character = to == length_ && from + 1 == to && cursor_ == to && old_column > 0;
  std::memmove(line_ + from, line_ + to, length_ - to);
  length_ -= to - from;
  cursor_ = from;
  if (last_character && (view_ == 0 || column() > 0)) {
    echo_.raw("\b \b");
  } else {
    draw_from(old_column);
  }
}

std::size_t LineEditor::word_before() const noexcept {
  std::size_t at = cursor_;
  while (at > 0 && line_[at - 1] == ' ') --at;
  while (at > 0 && line_[at - 1] != ' ') --at;
  return at;
}

std::size_t LineEditor::word_behind() const noexcept {
  std::size_t at = cursor_;
  while (at < length_ && line_[at] == ' ') ++at;
  while (at < length_ && line_[at] != ' ') ++at;
  return at;
}

void LineEditor::erase_word() noexcept { erase(word_before(), cursor_); }

void LineEditor::move_to(std::size_t cursor) noexcept {
  const std::size_t old_column = column();
  const bool in_view = cursor >= view_ && cursor - view_ <= view_columns_ && (cursor > view_ || view_ == 0);
  const bool one_right = cursor == cursor_ + 1;
  if (cursor == cursor_) return;
  cursor_ = cursor;
  if (!in_view) {
    draw_from(old_column);
  } else if (one_right && column() <= view_columns_) {
    show(line_[cursor - 1]);
  } else if (column() < old_column) {
    move_left(old_column - column());
  } else {
    for (std::size_t at = view_ + old_column; at < cursor; ++at) show(line_[at]);
  }
}

void LineEditor::recall(std::size_t age) noexcept {
  if (age > history_.size()) return;
  stash();
  recalled_ = age;
  excess_ = 0;
  replace(age == 0 ? std::string_view(stash_, stash_length_) : history_[age - 1]);
}

/// Saves the line being typed, unless a line of the history is shown.
void LineEditor::stash() noexcept {
  if (recalled_ != 0) return;
  std::memcpy(stash_, line_, length_);
  stash_length_ = length_;
}

void LineEditor::replace(std::string_view text) noexcept {
  const std::size_t old_column = column();
  if (text.empty() && length_ == 0) return;
  take(text);
  draw_from(old_column);
}

void LineEditor::take(std::string_view text) noexcept {
  if (!text.empty()) std::memcpy(line_, text.data(), text.size());
  length_ = cursor_ = text.size();
  view_ = 0;
}

// ---- search ---------------------------------------------------------------------------------------------------------

void LineEditor::begin_search() noexcept {
  searching_ = true;
  own_prompt_ = prompt_;
  wanted_length_ = 0;
  excess_ = 0;
  for (const char c : line()) (void)add_wanted(c);
  show_wanted();
  if (wanted_length_ != 0) search(recalled_ + 1);
  draw_row();
}

bool LineEditor::search_key(std::uint8_t byte) noexcept {
  switch (byte) {
    case control_key('R'): search(recalled_ + 1); break;
    case kBackspace:
    case kDelete:
      if (wanted_length_ != 0) --wanted_length_;
      search(1);
      break;
    case control_key('G'):
      if (recalled_ != 0) take({stash_, stash_length_});
      recalled_ = 0;
      end_search();
      return true;
    default:
      if (byte < 0x20 || byte > kDelete) {
        end_search();
        return false;
      }
      if (add_wanted(static_cast<char>(byte)) && !search(recalled_ != 0 ? recalled_ : 1)) --wanted_length_;
      break;
  }
  show_wanted();
  draw_row();
  return true;
}

/// Shows the newest line of the history, from @p age on, that contains the wanted text and differs from the shown line.
bool LineEditor::search(std::size_t age) noexcept {
  const std::string_view wanted(prompt_of_search_ + kBeforeWanted.size(), wanted_length_);
  for (; age <= history_.size(); ++age) {
    const std::string_view older = history_[age - 1];
    if (!contains(older, wanted) || (age > recalled_ && recalled_ != 0 && older == line())) continue;
    stash();
    recalled_ = age;
    take(older);
    return true;
  }
  return false;
}

/// @returns false if there is no room.
bool LineEditor::add_wanted(char c) noexcept {
  const std::size_t usable = view_columns_ + prompt_.size();
  const std::size_t around = kBeforeWanted.size() + kBehindWanted.size() + kLeastView;
  if (c == kUnprintable || wanted_length_ == kMostWanted || usable <= around + wanted_length_) return false;
  prompt_of_search_[kBeforeWanted.size() + wanted_length_++] = c;
  return true;
}

void LineEditor::show_wanted() noexcept {
  std::memcpy(prompt_of_search_, kBeforeWanted.data(), kBeforeWanted.size());
  const std::size_t end = kBeforeWanted.size() + wanted_length_;
  std::memcpy(prompt_of_search_ + end, kBehindWanted.data(), kBehindWanted.size());
  set_prompt({prompt_of_search_, end + kBehindWanted.size()});
}

void LineEditor::end_search() noexcept {
  searching_ = false;
  set_prompt(own_prompt_);
  draw_row();
}

// ---- the terminal ---------------------------------------------------------------------------------------------------

void LineEditor::redraw() noexcept {
  echo_.raw(prompt_);
  const std::size_t end = choose_view();
  for (std::size_t at = view_; at < end; ++at) show(line_[at]);
  move_left(end - view_ - column());
}

void LineEditor::draw_row() noexcept {
  echo_.raw("\r");
  echo_.raw(kEraseToEnd);
  redraw();
}

/// Changes the prompt; the width of the row stays. The caller redraws.
void LineEditor::set_prompt(std::string_view prompt) noexcept {
  view_columns_ = view_columns_ + prompt_.size() - prompt.size();
  prompt_ = prompt;
  view_ = 0;
}

void LineEditor::show(char c) noexcept {
  const char shown = c == kUnprintable ? '?' : c;
  echo_.raw({&shown, 1});
}

void LineEditor::move_left(std::size_t columns) noexcept {
  if (columns == 1) {
    echo_.raw("\b");
  } else if (columns > 1) {
    const char tens = static_cast<char>('0' + columns / 10);
    const char ones = static_cast<char>('0' + columns % 10);
    const char sequence[] = {'\x1b', '[', tens, ones, 'D'};
    echo_.raw({sequence, sizeof sequence});
  }
}

/// Scrolls the view so that it contains the cursor. @returns the end of the view in the line.
std::size_t LineEditor::choose_view() noexcept {
  const std::size_t step = view_columns_ < 2 * kScrollStep ? view_columns_ / 2 : kScrollStep;
  if (cursor_ > view_ + view_columns_) view_ = cursor_ - view_columns_ + step;
  if (cursor_ <= view_ && view_ > 0) view_ = cursor_ > step ? cursor_ - step : 0;
  return length_ - view_ > view_columns_ ? view_ + view_columns_ : length_;
}

/// Redraws the view. The terminal's cursor is at @p old_column.
void LineEditor::draw_from(std::size_t old_column) noexcept {
  move_left(old_column);
  const std::size_t end = choose_view();
  for (std::size_t at = view_; at < end; ++at) show(line_[at]);
  echo_.raw(kEraseToEnd);
  move_left(end - view_ - column());
}

}  // namespace qm::console
