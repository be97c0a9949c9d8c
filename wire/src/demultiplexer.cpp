#include <qm/wire/demultiplexer.hpp>

namespace qm::wire {
namespace {

constexpr std::uint8_t kEsc = 0x1b;
constexpr std::uint8_t kNotBase64 = 0xff;

constexpr bool ends_a_line(std::uint8_t byte) noexcept { return byte == '\r' || byte == '\n' || byte == 0x03; }

/// For the byte after an ESC that ended a broken string: whether the ESC began an escape sequence. Otherwise it is the
/// rest of a terminator.
constexpr bool begins_a_sequence(std::uint8_t byte) noexcept { return !ends_a_line(byte) && byte != kEsc; }

constexpr std::uint8_t base64_value(std::uint8_t character) noexcept {
  if (character >= 'A' && character <= 'Z') return static_cast<std::uint8_t>(character - 'A');
  if (character >= 'a' && character <= 'z') return static_cast<std::uint8_t>(character - 'a' + 26);
  if (character >= '0' && character <= '9') return static_cast<std::uint8_t>(character - '0' + 52);
  if (character == '+') return 62;
  if (character == '/') return 63;
  return kNotBase64;
}

void add_text(Demultiplexer::Step& step, std::uint8_t byte) noexcept { step.text[step.text_count++] = byte; }

}  // namespace

Demultiplexer::Step Demultiplexer::push(std::uint8_t byte) noexcept {
  switch (state_) {
    case State::kText: return text(byte);
    case State::kEscape:
      state_ = State::kText;
      if (byte == 'P') {
        begin(false);
        return {};
      }
      if (byte == '\\') return give_up(Broken::kTail);
      {
        Step step;
        add_text(step, kEsc);
        return then_text(step, byte);
      }
    case State::kIntroducer:
      state_ = State::kBody;
      foreign_ = byte != 'm';
      return foreign_ ? in_body(byte) : Step{};
    case State::kBody:
    case State::kBodyEscape: return in_body(byte);
    case State::kRawBody:
    case State::kRawDone: return in_raw(byte);
    default: return in_end(byte);
  }
}

Demultiplexer::Step Demultiplexer::timeout() noexcept {
  Step step;
  switch (state_) {
    case State::kText: return step;
    case State::kEscape: add_text(step, kEsc); break;
    case State::kIntroducer:
    case State::kBody:
    case State::kBodyEscape:
    case State::kRawBody: step = give_up(Broken::kTimedOut); break;
    case State::kEndIntroducer: break;  // reported already
    case State::kRawDone:
    case State::kEnd:
    case State::kEndEscape: step = give_up(Broken::kUnterminated); break;
    case State::kEndOther:
      step = give_up(Broken::kUnterminated);
      add_text(step, held_);
      break;
  }
  state_ = State::kText;
  return step;
}

Demultiplexer::Step Demultiplexer::text(std::uint8_t byte) noexcept {
  if (raw_ && byte == kRawEnd) return give_up(Broken::kTail);
  if (raw_ && byte == kRawBegin) {
    begin(false);
    state_ = State::kRawBody;
    return {};
  }
  state_ = byte == kEsc ? State::kEscape : State::kText;
  if (ends_a_line(byte)) tail_counted_ = false;
  Step step;
  if (state_ == State::kText) add_text(step, byte);
  return step;
}

/// @p step with @p byte added to its text.
Demultiplexer::Step Demultiplexer::then_text(Step step, std::uint8_t byte) noexcept {
  const Step rest = text(byte);
  if (rest.text_count != 0) add_text(step, rest.text[0]);
  if (step.broken == Broken::kNone) step.broken = rest.broken;
  return step;
}

Demultiplexer::Step Demultiplexer::in_body(std::uint8_t byte) noexcept {
  if (state_ == State::kBodyEscape) {
    if (byte == '\\') return finish();
    Step step = give_up(Broken::kInterrupted);
    if (byte == 'P') {
      begin(true);
      return step;
    }
    if (begins_a_sequence(byte)) add_text(step, kEsc);
    return then_text(step, byte);
  }
  if (raw_ && byte == kRawEnd) return give_up(Broken::kInterrupted);
  if (byte == kEsc) {
    state_ = State::kBodyEscape;
    return {};
  }
  if (ends_a_line(byte)) {
    Step step = give_up(Broken::kInterrupted);
    add_text(step, byte);
    return step;
  }
  decode(byte);
  if (intact()) state_ = State::kEnd;
  return {};
}

/// After the last character of an intact frame: anything but `ESC \` is an error.
Demultiplexer::Step Demultiplexer::in_end(std::uint8_t byte) noexcept {
  if (state_ == State::kEnd && !ends_a_line(byte)) {
    if (raw_ && byte == kRawEnd) return give_up(Broken::kUnterminated);
    held_ = byte;
    state_ = byte == kEsc ? State::kEndEscape : State::kEndOther;
    return {};
  }
  if (state_ == State::kEndEscape && byte == '\\') return finish();
  if (state_ == State::kEndIntroducer) {
    if (byte != 'm') return text(byte);
    state_ = State::kBody;
    return {};
  }
  const State ended_in = state_;
  Step step = give_up(Broken::kUnterminated);
  if (ended_in == State::kEndEscape) {
    if (byte == 'P') {
      begin(false);
      state_ = State::kEndIntroducer;
      return step;
    }
    if (begins_a_sequence(byte)) add_text(step, kEsc);
  } else if (ended_in == State::kEndOther) {
    if (byte == '\\') return step;  // the ESC is damaged: both bytes belong to the terminator
    add_text(step, held_);
  }
  return then_text(step, byte);
}

/// Inside a raw frame: the byte is part of the COBS, or the final 00.
Demultiplexer::Step Demultiplexer::in_raw(std::uint8_t byte) noexcept {
  if (byte == kRawEnd) return finish();
  if (state_ == State::kRawDone) return then_text(give_up(Broken::kUnterminated), byte);
  if (run_ != 0) {
    store(byte);
    --run_;
  } else {
    if (zero_due_) store(0);
    zero_due_ = byte != 0xff;
    run_ = static_cast<std::uint8_t>(byte - 1);
  }
  if (run_ == 0 && intact()) state_ = State::kRawDone;
  return count_ > kMaxFrameBytes ? give_up(Broken::kLength) : Step{};
}

/// Reports a broken frame and returns to text. Counts it unless it is a further piece of a frame that was counted
/// before.
Demultiplexer::Step Demultiplexer::give_up(Broken reason) noexcept {
  Step step;
  state_ = State::kText;
  if (reason != Broken::kVersion && reason != Broken::kTooLong) header_ = {};
  if (reason == Broken::kForeign && inside_another_) return step;
  step.broken = reason;
  if (reason != Broken::kTail || !tail_counted_) ++broken_;
  tail_counted_ = true;
  return step;
}

Demultiplexer::Step Demultiplexer::finish() noexcept {
  const Broken reason = classify();
  if (intact()) read_header();
  if (reason != Broken::kNone) {
    const Step step = give_up(reason);
    tail_counted_ = false;  // this frame had its own terminator: the next one belongs to another frame
    return step;
  }
  frame_ = {static_cast<FrameType>(header_.type), header_.sequence, header_.request,
            buffer_.subspan(kHeaderBytes, announced_ - kHeaderBytes - kCrcBytes)};
  if (LineForm form; side_ == Side::kHost && frame_.type == FrameType::kForm && unpack(frame_.payload, form)) {
    raw_ = form.raw;
  }
  state_ = State::kText;
  tail_counted_ = false;
  ++frames_;
  Step step;
  step.frame = true;
  return step;
}

void Demultiplexer::begin(bool inside_another) noexcept {
  state_ = State::kIntroducer;
  crc_ = {};
  count_ = announced_ = group_ = 0;
  group_count_ = held_ = run_ = 0;
  bad_character_ = padded_ = foreign_ = zero_due_ = false;
  inside_another_ = inside_another;
}

/// Decodes one character of the body. Padding ends the body: any character after it is bad.
void Demultiplexer::decode(std::uint8_t character) noexcept {
  const std::uint8_t value = base64_value(character);
  if (character == '=' && (group_count_ == 3 || (group_count_ == 2 && !padded_)) && !bad_character_) {
    if (group_count_ == 2) {
      if ((group_ & 15) != 0) bad_character_ = true;  // not canonical
      store(static_cast<std::uint8_t>(group_ >> 4));
      group_ = 0;
    } else if (!padded_) {
      if ((group_ & 3) != 0) bad_character_ = true;
      store(static_cast<std::uint8_t>(group_ >> 10));
      store(static_cast<std::uint8_t>(group_ >> 2));
    }
    padded_ = true;
    group_count_ = group_count_ == 2 ? 3 : 0;
    return;
  }
  if (value == kNotBase64 || padded_) {
    bad_character_ = true;
    return;
  }
  group_ = (group_ << 6 | value) & 0xffffff;
  if (++group_count_ < 4) return;
  group_count_ = 0;
  store(static_cast<std::uint8_t>(group_ >> 16));
  store(static_cast<std::uint8_t>(group_ >> 8));
  store(static_cast<std::uint8_t>(group_));
}

void Demultiplexer::store(std::uint8_t byte) noexcept {
  crc_.add(byte);
  if (count_ < buffer_.size()) buffer_[count_] = byte;
  if (count_ != UINT32_MAX) ++count_;
  if (count_ != kHeaderBytes) return;
  announced_ = kHeaderBytes + kCrcBytes + (buffer_[8] | static_cast<std::uint32_t>(buffer_[9]) << 8);
}

/// Whether length and CRC match, at a place where the base64 may end: the frame is complete.
bool Demultiplexer::intact() const noexcept {
  return group_count_ == 0 && !bad_character_ && !foreign_ && count_ >= kHeaderBytes + kCrcBytes &&
         count_ == announced_ && crc_.value() == Crc32::kResidue;
}

Broken Demultiplexer::classify() const noexcept {
  if (foreign_) return Broken::kForeign;
  if (bad_character_) return Broken::kCharacter;
  if (group_count_ != 0 || run_ != 0 || count_ < kHeaderBytes + kCrcBytes || count_ != announced_)
    return Broken::kLength;
  if (crc_.value() != Crc32::kResidue) return Broken::kChecksum;
  if (buffer_[0] < oldest_ || buffer_[0] > kProtocolVersion) return Broken::kVersion;
  if (count_ > buffer_.size()) return Broken::kTooLong;
  return Broken::kNone;
}

void Demultiplexer::read_header() noexcept {
  header_.version = buffer_[0];
  header_.type = buffer_[1];
  header_.sequence = static_cast<std::uint16_t>(buffer_[2] | buffer_[3] << 8);
  header_.request = buffer_[4] | static_cast<std::uint32_t>(buffer_[5]) << 8 |
                    static_cast<std::uint32_t>(buffer_[6]) << 16 | static_cast<std::uint32_t>(buffer_[7]) << 24;
}

}  // namespace qm::wire
