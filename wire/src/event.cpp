#include <qm/wire/event.hpp>

#include <qm/wire/stream.hpp>

namespace qm::wire {
namespace {

// The tag has the operation in bits 0 and 1; 3 is a note, with its kind in the other bits. Otherwise the other bits
// are:
constexpr std::uint8_t kContextChanges = 4;
constexpr std::uint8_t kGap = 8;
constexpr std::uint8_t kSized = 16;    // `requested` follows
constexpr std::uint8_t kRare = 32;     // a byte of rare fields follows
constexpr std::uint8_t kStacked = 64;  // the stack follows; else an allocation has its source's last, a free none
constexpr std::uint8_t kSameSource = 128;

// The rare fields.
constexpr std::uint8_t kAllocated = 1;
constexpr std::uint8_t kFlagged = 2;
constexpr std::uint8_t kSited = 4;
constexpr std::uint8_t kMoved = 8;    // in a reallocation: new source, distance of the new address
constexpr std::uint8_t kLater = 128;  // fields of a later minor version: a length and that many bytes
constexpr std::uint8_t kKnownRare = kAllocated | kFlagged | kSited | kMoved | kLater;

constexpr std::uint8_t kNote = 3;
constexpr std::uint8_t kLostNote = 1;
constexpr std::uint8_t kModeNote = 2;

constexpr std::int64_t kUnit = 16;
/// In place of a distance: the address follows in 8 bytes. As a distance this would be 0, which is a multiple of the
/// unit.
constexpr std::uint64_t kAbsolute = 1;
/// Whether a distance that is not a multiple of the unit can be encoded.
constexpr bool is_near(std::int64_t by) noexcept { return to_zigzag(by) >> 63 == 0; }

constexpr bool is_note(Operation operation) noexcept {
  return operation == Operation::kLost || operation == Operation::kMode;
}
constexpr bool has_stack_by_default(Operation operation) noexcept { return operation != Operation::kFree; }
constexpr bool is_moved(const Event& event) noexcept {
  return event.operation == Operation::kReallocate &&
         (event.new_address != event.address || event.new_source != event.source);
}

}  // namespace

// ---- encoder --------------------------------------------------------------------------------------------------------

void EventEncoder::begin(std::span<std::uint8_t> out, std::uint16_t stream, std::uint32_t number,
                         const Event& first) noexcept {
  buffer_ = out;
  out_ = ByteWriter(out);
  memory_.clear();
  count_ = 0;
  context_ = source_ = 0;
  ticks_ = first.ticks;
  global_number_ = first.global_number - 1;
  put_prefix(out_, {stream, number});
  out_.varint(first.hart);
  out_.varint(first.hart_number);
  out_.varint(first.ticks);
  out_.fixed(first.global_number, 4);
  count_at_ = out_.written().size();
  out_.fixed(0, 2);
}

void EventEncoder::distance(EventMemory::Place& place, std::uint64_t address) noexcept {
  const auto by = static_cast<std::int64_t>(address - place.address);
  if (by % kUnit == 0) {
    out_.varint(to_zigzag(by / kUnit) << 1);
  } else if (is_near(by)) {
    out_.varint(to_zigzag(by) << 1 | 1);
  } else {
    out_.varint(kAbsolute);
    out_.fixed(address, 8);
  }
  memory_.moved(place, address);
}

void EventEncoder::add_note(const Event& event) noexcept {
  std::uint8_t body[16];
  ByteWriter writer(body);
  if (event.operation == Operation::kLost) {
    writer.varint(event.lost);
  } else {
    writer.byte(static_cast<std::uint8_t>(event.mode));
    writer.varint(event.sample_bytes);
  }
  out_.byte(static_cast<std::uint8_t>(kNote | (event.operation == Operation::kLost ? kLostNote : kModeNote) << 2));
  out_.varint(writer.written().size());
  out_.bytes(writer.written());
  ++count_;
}

bool EventEncoder::add(const Event& event) noexcept {
  if (out_.room() < kMaxEventBytes || count_ == UINT16_MAX) return false;
  if (is_note(event.operation)) {
    add_note(event);
    return true;
  }
  const bool moved = is_moved(event);
  EventMemory::Place& place = memory_.at(event.source);
  const std::uint32_t gap = event.global_number - global_number_ - 1;
  const bool source_changes = count_ == 0 || event.source != source_;
  const std::uint32_t stack = has_stack_by_default(event.operation) ? place.stack : 0;
  std::uint8_t rare = 0;
  if (event.allocated != kSourceSize) rare |= kAllocated;
  if (event.flags != 0) rare |= kFlagged;
  if (event.call_site != 0) rare |= kSited;
  if (moved) rare |= kMoved;
  auto tag = static_cast<std::uint8_t>(event.operation);
  if (event.context != context_) tag |= kContextChanges;
  if (gap != 0) tag |= kGap;
  if (event.requested != kSourceSize) tag |= kSized;
  if (rare != 0) tag |= kRare;
  if (event.stack != stack) tag |= kStacked;
  if (!source_changes) tag |= kSameSource;

  out_.byte(tag);
  if (rare != 0) out_.byte(rare);
  out_.varint(event.ticks - ticks_);
  if (gap != 0) out_.varint(gap);
  if (event.context != context_) out_.varint(event.context);
  if (source_changes) out_.varint(event.source);
  distance(place, event.address);
  if (event.requested != kSourceSize) out_.varint(event.requested);
  if (event.stack != stack) out_.varint(event.stack);
  if (has_stack_by_default(event.operation)) place.stack = event.stack;
  if (event.allocated != kSourceSize) out_.varint(event.allocated);
  if (event.flags != 0) out_.varint(event.flags);
  if (event.call_site != 0) out_.varint(event.call_site);
  if (moved) {
    out_.varint(event.new_source);
    distance(memory_.at(event.new_source), event.new_address);
  }
  ticks_ = event.ticks;
  global_number_ = event.global_number;
  context_ = event.context;
  source_ = event.source;
  ++count_;
  return true;
}

void EventEncoder::set_number(std::uint32_t number) noexcept { ByteWriter(buffer_.subspan(2)).fixed(number, 4); }

std::span<const std::uint8_t> EventEncoder::finish() noexcept {
  if (count_ == 0) return {};
  buffer_[count_at_] = static_cast<std::uint8_t>(count_);
  buffer_[count_at_ + 1] = static_cast<std::uint8_t>(count_ >> 8);
  return out_.written();
}

// ---- decoder --------------------------------------------------------------------------------------------------------

Decoded EventDecoder::begin(std::span<const std::uint8_t> payload) noexcept {
  in_ = ByteReader(payload);
  memory_.clear();
  context_ = source_ = skipped_ = 0;
  const StreamPrefix prefix = get_prefix(in_);
  stream_ = prefix.stream;
  number_ = prefix.number;
  hart_ = in_.varint32();
  hart_number_ = in_.varint();
  ticks_ = in_.varint();
  global_number_ = static_cast<std::uint32_t>(in_.fixed(4)) - 1;
  left_ = static_cast<std::uint32_t>(in_.fixed(2));
  if (left_ == 0) in_.fail();
  at_start_ = first_ = true;
  return in_.good() ? Decoded::kOk : Decoded::kMalformed;
}

std::uint64_t EventDecoder::distance(EventMemory::Place& place) noexcept {
  const std::uint64_t told = in_.varint();
  const std::int64_t units = from_zigzag(told >> 1);
  std::uint64_t address = 0;
  if (told == kAbsolute) {
    address = in_.fixed(8);
    const auto by = static_cast<std::int64_t>(address - place.address);
    if (by % kUnit == 0 || is_near(by)) in_.fail();
  } else if ((told & 1) == 0) {
    const auto by = static_cast<std::int64_t>(static_cast<std::uint64_t>(units) * kUnit);
    if (by / kUnit != units) in_.fail();
    address = place.address + static_cast<std::uint64_t>(by);
  } else {
    if (units % kUnit == 0) in_.fail();
    address = place.address + static_cast<std::uint64_t>(units);
  }
  memory_.moved(place, address);
  return address;
}

Decoded EventDecoder::note(std::uint8_t tag, Event& event) noexcept {
  ByteReader body(in_.bytes(in_.varint()));
  event.global_number = global_number_ + 1;
  event.ticks = ticks_;
  event.hart_number = hart_number_;
  if (tag >> 2 == kLostNote) {
    event.operation = Operation::kLost;
    event.lost = body.varint();
    if (event.lost == 0) body.fail();
    hart_number_ += event.lost;
  } else if (tag >> 2 == kModeNote) {
    event.operation = Operation::kMode;
    event.mode = static_cast<StreamMode>(body.byte());
    event.sample_bytes = body.varint();
    if (event.mode > StreamMode::kCounters) body.fail();
  } else {
    ++skipped_;
    return in_.good() ? Decoded::kEnd : Decoded::kMalformed;  // an unknown kind of note: skipped
  }
  skipped_ += body.left() != 0 ? 1 : 0;
  if (!body.good()) in_.fail();
  return in_.good() ? Decoded::kOk : Decoded::kMalformed;
}

void EventDecoder::fields(std::uint8_t tag, Event& event) noexcept {
  const std::uint8_t rare = (tag & kRare) != 0 ? in_.byte() : 0;
  if (((tag & kRare) != 0 && rare == 0) || (rare & ~kKnownRare) != 0) in_.fail();
  event.ticks = ticks_ + in_.varint();
  const std::uint32_t gap = (tag & kGap) != 0 ? in_.varint32() : 0;
  event.global_number = global_number_ + 1 + gap;
  event.context = (tag & kContextChanges) != 0 ? in_.varint32() : context_;
  event.source = (tag & kSameSource) != 0 ? source_ : in_.varint32();
  EventMemory::Place& place = memory_.at(event.source);
  event.address = distance(place);
  if ((tag & kSized) != 0) event.requested = in_.varint(kSourceSize - 1);
  const std::uint32_t stack = has_stack_by_default(event.operation) ? place.stack : 0;
  event.stack = (tag & kStacked) != 0 ? in_.varint32() : stack;
  // The first record has the time that the frame gives; and a value that has a shorter encoding is malformed.
  if (at_start_ && (event.ticks != ticks_ || gap != 0)) in_.fail();
  if (((tag & kGap) != 0 && gap == 0) || ((tag & kContextChanges) != 0 && event.context == context_) ||
      ((tag & kSameSource) != 0) == (first_ || event.source != source_) ||
      ((tag & kStacked) != 0 && event.stack == stack)) {
    in_.fail();
  }
  if (has_stack_by_default(event.operation)) place.stack = event.stack;
  if ((rare & kAllocated) != 0) event.allocated = in_.varint(kSourceSize - 1);
  if ((rare & kFlagged) != 0) event.flags = in_.varint32();
  if ((rare & kSited) != 0) event.call_site = in_.varint32();
  if (((rare & kFlagged) != 0 && event.flags == 0) || ((rare & kSited) != 0 && event.call_site == 0)) in_.fail();
  if (event.operation == Operation::kReallocate) {
    event.new_source = event.source;
    event.new_address = event.address;
  }
  if ((rare & kMoved) != 0) {
    event.new_source = in_.varint32();
    event.new_address = distance(memory_.at(event.new_source));
    if (!is_moved(event)) in_.fail();
  }
  if ((rare & kLater) != 0) {
    (void)in_.bytes(in_.varint());
    ++skipped_;
  }
}

Decoded EventDecoder::next(Event& event) noexcept {
  while (in_.good()) {
    if (left_ == 0) {
      if (in_.left() != 0) ++skipped_;
      in_ = ByteReader();
      return Decoded::kEnd;
    }
    --left_;
    event = Event{};
    event.hart = hart_;
    const std::uint8_t tag = in_.byte();
    if ((tag & 3) == kNote) {
      const Decoded result = note(tag, event);
      at_start_ = false;
      if (result == Decoded::kEnd) continue;
      return result;
    }
    event.operation = static_cast<Operation>(tag & 3);
    event.hart_number = hart_number_;
    fields(tag, event);
    if (!in_.good()) break;
    ++hart_number_;
    ticks_ = event.ticks;
    global_number_ = event.global_number;
    context_ = event.context;
    source_ = event.source;
    at_start_ = first_ = false;
    return Decoded::kOk;
  }
  return Decoded::kMalformed;
}

}  // namespace qm::wire
