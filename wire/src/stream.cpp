#include <qm/wire/stream.hpp>

#include <qm/wire/frame.hpp>

namespace qm::wire {
namespace {

// Flags of a header.
constexpr std::uint8_t kBigEndian = 1;
constexpr std::uint8_t kFromBoot = 2;
// Flags of a stack.
constexpr std::uint8_t kTruncated = 1;
constexpr std::uint8_t kCollided = 2;
// Flags of a snapshot.
constexpr std::uint8_t kFirst = 1;
constexpr std::uint8_t kLast = 2;
constexpr std::uint8_t kFinal = 4;
// The subject of a statistic.
constexpr std::uint8_t kOfHart = 1;
constexpr std::uint8_t kOfSource = 2;

Decoded ended(const ByteReader& in, std::uint32_t& skipped) noexcept {
  if (!in.good()) return Decoded::kMalformed;
  skipped += in.left() != 0 ? 1 : 0;
  return Decoded::kOk;
}

/// An item with its kind and length in front, so that a decoder can skip unknown kinds.
template <class Body>
[[nodiscard]] bool put_entry(ByteWriter& out, std::uint8_t kind, Body&& body) noexcept {
  const std::size_t before = out.written().size();
  std::uint8_t bytes[kMaxPayloadBytes];
  ByteWriter writer(bytes);
  body(writer);
  out.byte(kind);
  out.varint(writer.written().size());
  out.bytes(writer.written());
  if (writer.fits() && out.fits()) return true;
  out.rewind(before);
  return false;
}

}  // namespace

void put_prefix(ByteWriter& out, const StreamPrefix& prefix) noexcept {
  out.fixed(prefix.stream, 2);
  out.fixed(prefix.number, 4);
}

StreamPrefix get_prefix(ByteReader& in) noexcept {
  StreamPrefix prefix;
  prefix.stream = static_cast<std::uint16_t>(in.fixed(2));
  prefix.number = static_cast<std::uint32_t>(in.fixed(4));
  return prefix;
}

// ---- header ---------------------------------------------------------------------------------------------------------

bool pack(ByteWriter& out, const StreamPrefix& prefix, const StreamHeader& header) noexcept {
  put_prefix(out, prefix);
  out.byte(header.major);
  out.byte(header.minor);
  out.byte(static_cast<std::uint8_t>((header.big_endian ? kBigEndian : 0) | (header.from_boot ? kFromBoot : 0)));
  out.byte(header.pointer_bytes);
  out.varint(header.harts);
  out.varint(header.tick_rate);
  out.varint(header.start_ticks);
  out.varint(header.boot);
  out.byte(static_cast<std::uint8_t>(header.mode));
  out.varint(header.minimum_bytes);
  out.varint(header.sample_bytes);
  out.varint(header.sample_seed);
  out.varint(header.ring_bytes);
  out.varint(header.build_id.size());
  out.bytes(header.build_id);
  out.text(header.pattern);
  out.varint(header.size_classes.size());
  std::uint32_t before = 0;
  for (const std::uint32_t size : header.size_classes) {
    out.varint(size - before);
    before = size;
  }
  return out.fits();
}

Decoded unpack(std::span<const std::uint8_t> payload, StreamPrefix& prefix, StreamHeader& header,
               std::uint32_t& skipped) noexcept {
  ByteReader in(payload);
  header = StreamHeader{};
  prefix = get_prefix(in);
  header.major = in.byte();
  header.minor = in.byte();
  if (header.major != kSchemaMajor) in.fail();
  const std::uint8_t flags = in.byte();
  header.big_endian = (flags & kBigEndian) != 0;
  header.from_boot = (flags & kFromBoot) != 0;
  header.pointer_bytes = in.byte();
  if (header.pointer_bytes != 4 && header.pointer_bytes != 8) in.fail();
  header.harts = in.varint32();
  header.tick_rate = in.varint();
  if (header.harts == 0 || header.tick_rate == 0) in.fail();
  header.start_ticks = in.varint();
  header.boot = in.varint();
  header.mode = static_cast<StreamMode>(in.byte());
  if (header.mode > StreamMode::kCounters) in.fail();
  header.minimum_bytes = in.varint();
  header.sample_bytes = in.varint();
  header.sample_seed = in.varint32();
  header.ring_bytes = in.varint32();
  header.build_id = in.bytes(in.varint(StreamHeader::kMaxBuildIdBytes));
  header.pattern = in.text();
  header.class_count = static_cast<std::uint32_t>(in.varint(StreamHeader::kMaxSizeClasses));
  std::uint32_t size = 0;
  for (std::uint32_t i = 0; i < header.class_count; ++i) {
    const auto step = static_cast<std::uint32_t>(in.varint(UINT32_MAX - size));
    if (step == 0) in.fail();
    header.classes[i] = size += step;
  }
  header.size_classes = std::span(header.classes).first(in.good() ? header.class_count : 0);
  return ended(in, skipped);
}

// ---- definitions ----------------------------------------------------------------------------------------------------

void DefinitionEncoder::begin(std::span<std::uint8_t> out, const StreamPrefix& prefix) noexcept {
  out_ = ByteWriter(out);
  count_ = 0;
  put_prefix(out_, prefix);
}

bool DefinitionEncoder::add(const Definition& definition) noexcept {
  const bool fits = put_entry(out_, static_cast<std::uint8_t>(definition.kind), [&](ByteWriter& out) {
    out.varint(definition.number);
    switch (definition.kind) {
      case DefinitionKind::kSource:
        out.byte(static_cast<std::uint8_t>(definition.source_kind));
        out.varint(definition.object_bytes);
        out.varint(definition.allocated_bytes);
        out.varint(definition.outstanding);
        out.varint(definition.parent);
        out.text(definition.name);
        break;
      case DefinitionKind::kStack: {
        out.fixed(definition.id, 4);
        out.byte(
            static_cast<std::uint8_t>((definition.truncated ? kTruncated : 0) | (definition.collided ? kCollided : 0)));
        out.varint(definition.depth);
        std::uint64_t before = 0;
        for (std::uint32_t i = 0; i < definition.depth; ++i) {
          out.zigzag(static_cast<std::int64_t>(definition.frames[i] - before));
          before = definition.frames[i];
        }
        break;
      }
      case DefinitionKind::kCallSite:
        out.varint(definition.line);
        out.text(definition.name);
        out.text(definition.module);
        out.text(definition.function);
        break;
      case DefinitionKind::kContext: out.text(definition.name); break;
    }
  });
  count_ += fits ? 1 : 0;
  return fits;
}

Decoded DefinitionDecoder::begin(std::span<const std::uint8_t> payload, StreamPrefix& prefix) noexcept {
  in_ = ByteReader(payload);
  skipped_ = 0;
  prefix = get_prefix(in_);
  if (in_.left() == 0) in_.fail();
  return in_.good() ? Decoded::kOk : Decoded::kMalformed;
}

namespace {

void read_source(ByteReader& in, Definition& definition) noexcept {
  definition.source_kind = static_cast<SourceKind>(in.byte());
  if (definition.source_kind > SourceKind::kHeapArena) in.fail();
  definition.object_bytes = in.varint();
  definition.allocated_bytes = in.varint();
  definition.outstanding = in.varint();
  definition.parent = in.varint32();
  definition.name = in.text();
}

void read_stack(ByteReader& in, Definition& definition) noexcept {
  definition.id = static_cast<std::uint32_t>(in.fixed(4));
  const std::uint8_t flags = in.byte();
  definition.truncated = (flags & kTruncated) != 0;
  definition.collided = (flags & kCollided) != 0;
  definition.depth = static_cast<std::uint32_t>(in.varint(kMaxStackFrames));
  std::uint64_t frame = 0;
  for (std::uint32_t i = 0; i < definition.depth; ++i) {
    definition.frames[i] = frame += static_cast<std::uint64_t>(in.zigzag());
  }
}

void read_call_site(ByteReader& in, Definition& definition) noexcept {
  definition.line = in.varint32();
  definition.name = in.text();
  definition.module = in.text();
  definition.function = in.text();
}

}  // namespace

Decoded DefinitionDecoder::next(Definition& definition) noexcept {
  while (in_.good() && in_.left() != 0) {
    definition = Definition{};
    const std::uint8_t kind = in_.byte();
    ByteReader body(in_.bytes(in_.varint()));
    if (!in_.good()) break;
    definition.kind = static_cast<DefinitionKind>(kind);
    if (kind != 0) definition.number = body.varint32();
    switch (definition.kind) {
      case DefinitionKind::kSource: read_source(body, definition); break;
      case DefinitionKind::kStack: read_stack(body, definition); break;
      case DefinitionKind::kCallSite: read_call_site(body, definition); break;
      case DefinitionKind::kContext: definition.name = body.text(); break;
      default: ++skipped_; continue;
    }
    if (ended(body, skipped_) == Decoded::kOk) return Decoded::kOk;
    in_.fail();
  }
  return in_.good() ? Decoded::kEnd : Decoded::kMalformed;
}

// ---- statistics -----------------------------------------------------------------------------------------------------

void StatisticsEncoder::begin(std::span<std::uint8_t> out, const StreamPrefix& prefix,
                              const StatisticsHead& head) noexcept {
  buffer_ = out;
  out_ = ByteWriter(out);
  put_prefix(out_, prefix);
  out_.byte(static_cast<std::uint8_t>((head.first ? kFirst : 0) | (head.last ? kLast : 0) | (head.final ? kFinal : 0)));
  out_.varint(head.snapshot);
  out_.varint(head.ticks);
}

bool StatisticsEncoder::add(const Statistic& statistic) noexcept {
  return put_entry(out_, statistic.of_hart ? kOfHart : kOfSource, [&](ByteWriter& out) {
    out.varint(statistic.number);
    if (statistic.of_hart) {
      out.varint(statistic.events);
      out.varint(statistic.lost);
      return;
    }
    out.varint(statistic.allocations);
    out.varint(statistic.frees);
    out.varint(statistic.reallocations);
    out.varint(statistic.requested_bytes);
    out.varint(statistic.allocated_bytes);
    out.varint(statistic.freed_bytes);
  });
}

std::span<const std::uint8_t> StatisticsEncoder::finish(bool last) noexcept {
  if (last) buffer_[6] |= kLast;  // the flags follow the prefix
  return out_.written();
}

Decoded StatisticsDecoder::begin(std::span<const std::uint8_t> payload, StreamPrefix& prefix,
                                 StatisticsHead& head) noexcept {
  in_ = ByteReader(payload);
  skipped_ = 0;
  prefix = get_prefix(in_);
  const std::uint8_t flags = in_.byte();
  head.first = (flags & kFirst) != 0;
  head.last = (flags & kLast) != 0;
  head.final = (flags & kFinal) != 0;
  head.snapshot = in_.varint32();
  head.ticks = in_.varint();
  return in_.good() ? Decoded::kOk : Decoded::kMalformed;
}

Decoded StatisticsDecoder::next(Statistic& statistic) noexcept {
  while (in_.good() && in_.left() != 0) {
    statistic = Statistic{};
    const std::uint8_t kind = in_.byte();
    ByteReader body(in_.bytes(in_.varint()));
    if (!in_.good()) break;
    if (kind != kOfHart && kind != kOfSource) {
      ++skipped_;
      continue;
    }
    statistic.of_hart = kind == kOfHart;
    statistic.number = body.varint32();
    if (statistic.of_hart) {
      statistic.events = body.varint();
      statistic.lost = body.varint();
    } else {
      statistic.allocations = body.varint();
      statistic.frees = body.varint();
      statistic.reallocations = body.varint();
      statistic.requested_bytes = body.varint();
      statistic.allocated_bytes = body.varint();
      statistic.freed_bytes = body.varint();
    }
    if (ended(body, skipped_) == Decoded::kOk) return Decoded::kOk;
    in_.fail();
  }
  return in_.good() ? Decoded::kEnd : Decoded::kMalformed;
}

// ---- end, and what a host sends -------------------------------------------------------------------------------------

bool pack(ByteWriter& out, const StreamPrefix& prefix, const StreamEnd& end) noexcept {
  put_prefix(out, prefix);
  out.varint(end.ticks);
  out.varint(end.events);
  out.varint(end.lost);
  return out.fits();
}

Decoded unpack(std::span<const std::uint8_t> payload, StreamPrefix& prefix, StreamEnd& end,
               std::uint32_t& skipped) noexcept {
  ByteReader in(payload);
  prefix = get_prefix(in);
  end.ticks = in.varint();
  end.events = in.varint();
  end.lost = in.varint();
  if (end.lost > end.events) in.fail();
  return ended(in, skipped);
}

bool pack(ByteWriter& out, const Ask& ask) noexcept {
  out.byte(ask.kind);
  out.varint(ask.count);
  for (std::uint32_t i = 0; i < ask.count; ++i) out.varint(ask.numbers[i]);
  return out.fits();
}

Decoded unpack(std::span<const std::uint8_t> payload, Ask& ask) noexcept {
  ByteReader in(payload);
  ask.kind = in.byte();
  ask.count = static_cast<std::uint32_t>(in.varint(Ask::kMaxNumbers));
  for (std::uint32_t i = 0; i < ask.count; ++i) ask.numbers[i] = in.varint32();
  return in.good() ? Decoded::kOk : Decoded::kMalformed;
}

}  // namespace qm::wire
