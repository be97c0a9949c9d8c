#include <qm/host/stream_reader.hpp>

#include <algorithm>
#include <utility>

#include <qm/host/counted.hpp>
#include <qm/host/elf_image.hpp>

#include "stream_merge.hpp"

namespace qm::host {
namespace {

constexpr std::size_t kMostProblems = 100;
// Each look-ahead reads the whole capture.
constexpr unsigned kMostLooksAhead = 64;

EventKind kind_of(wire::SourceKind kind) noexcept {
  switch (kind) {
    case wire::SourceKind::kCache: return EventKind::kCache;
    case wire::SourceKind::kArena: return EventKind::kArena;
    default: return EventKind::kHeap;
  }
}

bool is_arena(wire::SourceKind kind) noexcept {
  return kind == wire::SourceKind::kArena || kind == wire::SourceKind::kHeapArena;
}

StreamHeader header_of(const wire::StreamPrefix& prefix, const wire::StreamHeader& from) {
  StreamHeader header;
  header.schema_major = from.major;
  header.schema_minor = from.minor;
  header.stream = prefix.stream;
  header.boot = from.boot;
  header.pointer_bytes = from.pointer_bytes;
  header.big_endian = from.big_endian;
  header.harts = static_cast<std::uint16_t>(std::min<std::uint32_t>(from.harts, kMostHarts));
  header.ticks_per_second = from.tick_rate;
  header.start_ticks = from.start_ticks;
  header.from_boot = from.from_boot;
  header.mode = static_cast<StreamMode>(from.mode);
  header.sample_bytes = from.sample_bytes;
  header.minimum_bytes = from.minimum_bytes;
  header.pattern = from.pattern;
  header.ring_bytes = from.ring_bytes;
  header.build_id = build_id_text(from.build_id);
  header.size_classes.assign(from.size_classes.begin(), from.size_classes.end());
  return header;
}

/// Whether a device can have the object of @p definition.
bool is_possible(const wire::Definition& definition) noexcept {
  return definition.kind != wire::DefinitionKind::kSource || definition.number < kMostTraceables;
}

/// @param[in] replace whether numbers that are defined already get a new meaning from here on.
void define(Definitions& definitions, const wire::Definition& from, bool replace) {
  switch (from.kind) {
    case wire::DefinitionKind::kSource: {
      if (!replace && definitions.traceables.contains(from.number)) return;
      definitions.traceables[from.number] = {
          from.number,       kind_of(from.source_kind), is_arena(from.source_kind), std::string(from.name),
          from.object_bytes, from.allocated_bytes,      from.outstanding,           from.parent - 1};
      return;
    }
    case wire::DefinitionKind::kStack: {
      if (!replace && definitions.stacks.contains(from.number)) return;
      Stack& stack = definitions.stacks[from.number];
      stack.id = from.id;
      stack.truncated = from.truncated;
      stack.collided = from.collided;
      stack.frames.assign(from.frames, from.frames + from.depth);
      return;
    }
    case wire::DefinitionKind::kCallSite: {
      if (!replace && definitions.call_sites.contains(from.number)) return;
      definitions.call_sites[from.number] = {std::string(from.name), std::string(from.module),
                                             std::string(from.function), from.line};
      return;
    }
    case wire::DefinitionKind::kContext:
      if (replace || !definitions.contexts.contains(from.number)) definitions.contexts[from.number] = from.name;
      return;
  }
}

}  // namespace

/// One stream: its definitions, and its events that are not delivered yet.
struct StreamReader::Stream {
  Stream(EventHandler& handler, std::uint32_t place_of) : merge(handler), place(place_of) {}

  Definitions definitions;
  StreamMerge merge;
  std::uint32_t place;  // place in the capture, from 1 on
  std::uint32_t expected_frame = 0;
  std::uint64_t lost_frames = 0;
  bool has_header = false;
  bool ended = false;
  bool looked_ahead = false;
  std::uint64_t undefined_events = 0;
  std::uint64_t impossible = 0;  // events and definitions with numbers of caches and arenas that no device has
  std::uint32_t sample_seed = 0;
  Statistics statistics;  // of the snapshot that is being received
  std::uint32_t snapshot = 0;
  bool snapshot_whole = false;
  bool final_seen = false;
};

StreamReader::StreamReader(EventHandler& handler) : handler_(handler) {}
StreamReader::~StreamReader() = default;

bool StreamReader::running() const noexcept { return !streams_.empty() && !streams_.back()->ended; }

bool StreamReader::take(const wire::Frame& frame) {
  switch (frame.type) {
    case wire::FrameType::kStreamHeader: take_header(frame); return true;
    case wire::FrameType::kDefinitions: take_definitions(frame); return true;
    case wire::FrameType::kEvents: take_events(frame); return true;
    case wire::FrameType::kStatistics: take_statistics(frame); return true;
    case wire::FrameType::kStreamEnd: take_end(frame); return true;
    default: return false;
  }
}

void StreamReader::begin_stream(std::uint16_t number) {
  if (!streams_.empty()) end_stream();
  streams_.push_back(std::make_unique<Stream>(handler_, static_cast<std::uint32_t>(streams_.size() + 1)));
  streams_.back()->definitions.header.stream = number;
}

/// @returns the stream that a frame belongs to: the current one, or a new one.
StreamReader::Stream& StreamReader::stream_of(const wire::StreamPrefix& prefix, bool is_header) {
  const bool known = !streams_.empty() && streams_.back()->definitions.header.stream == prefix.stream;
  if (known) return *streams_.back();
  begin_stream(prefix.stream);
  Stream& stream = *streams_.back();
  if (!is_header) {
    wants_definitions_ = true;
    handler_.on_header(stream.definitions);
  }
  return stream;
}

/// Checks a frame's number. @returns false if a frame with that number has come before.
bool StreamReader::number(Stream& stream, std::uint32_t frame_number) {
  if (frame_number < stream.expected_frame) {
    problem(&stream, "frame " + std::to_string(frame_number) + " came twice, or out of order");
    return false;
  }
  const std::uint32_t lost = frame_number - stream.expected_frame;
  stream.expected_frame = frame_number + 1;
  if (lost != 0) {
    stream.lost_frames += lost;
    lost_frames_ += lost;
    wants_definitions_ = true;
    problem(&stream, counted(lost, "frame is", "frames are") + " missing before frame " + std::to_string(frame_number));
  }
  return true;
}

void StreamReader::take_header(const wire::Frame& frame) {
  wire::StreamPrefix prefix;
  wire::StreamHeader header;
  std::uint32_t skipped = 0;
  if (unpack(frame.payload, prefix, header, skipped) != wire::Decoded::kOk) {
    if (frame.payload.size() > 6 && frame.payload[6] != wire::kSchemaMajor) {
      return problem(nullptr, "a stream of schema version " + std::to_string(frame.payload[6]) +
                                  ", this program reads " + std::to_string(wire::kSchemaMajor));
    }
    return malformed("header");
  }
  end_.unknown += skipped;
  // The same number in another boot is another stream.
  if (!streams_.empty() && streams_.back()->has_header && streams_.back()->definitions.header.stream == prefix.stream &&
      streams_.back()->definitions.header.boot != header.boot) {
    begin_stream(prefix.stream);
  }
  const std::size_t before = streams_.size();
  Stream& stream = stream_of(prefix, true);
  const bool first = streams_.size() != before || (stream.expected_frame == 0 && !stream.has_header);
  if (!number(stream, prefix.number) || stream.has_header) return;
  stream.has_header = true;
  stream.sample_seed = header.sample_seed;
  stream.definitions.header = header_of(prefix, header);
  stream.merge.set_harts(stream.definitions.header.harts, header.ring_bytes);
  stream.merge.set_mode(header.mode, header.sample_bytes);
  if (first) handler_.on_header(stream.definitions);
}

void StreamReader::take_definitions(const wire::Frame& frame) {
  wire::StreamPrefix prefix;
  wire::DefinitionDecoder decoder;
  if (decoder.begin(frame.payload, prefix) != wire::Decoded::kOk) return malformed("definitions");
  Stream& stream = stream_of(prefix, false);
  if (!number(stream, prefix.number)) return;
  wire::Definition definition;
  wire::Decoded result;
  while ((result = decoder.next(definition)) == wire::Decoded::kOk) {
    if (is_possible(definition)) {
      define(stream.definitions, definition, true);
    } else {
      ++stream.impossible;
    }
  }
  if (result == wire::Decoded::kMalformed) malformed("definitions", &stream);
  end_.unknown += decoder.skipped();
}

void StreamReader::adopt(const wire::Frame& frame) {
  wire::StreamPrefix prefix;
  wire::DefinitionDecoder decoder;
  if (streams_.empty() || frame.type != wire::FrameType::kDefinitions) return;
  Stream& stream = *streams_.back();
  if (decoder.begin(frame.payload, prefix) != wire::Decoded::kOk || prefix.stream != stream.definitions.header.stream)
    return;
  for (wire::Definition definition; decoder.next(definition) == wire::Decoded::kOk;) {
    if (is_possible(definition)) define(stream.definitions, definition, false);
  }
}

void StreamReader::take_events(const wire::Frame& frame) {
  wire::EventDecoder decoder;
  if (decoder.begin(frame.payload) != wire::Decoded::kOk) return malformed("events");
  Stream& stream = stream_of({decoder.stream(), decoder.number()}, false);
  if (!number(stream, decoder.number())) return;
  if (decoder.hart() >= kMostHarts) return problem(&stream, "an event of hart " + std::to_string(decoder.hart()));
  const std::map<std::uint32_t, Traceable>& known = stream.definitions.traceables;
  const auto defined = [&](std::uint32_t number) {
    if (known.contains(number)) return true;
    if (!std::exchange(stream.looked_ahead, true) && look_ahead_ && looks_ahead_++ < kMostLooksAhead) look_ahead_();
    return known.contains(number);
  };
  stream.merge.begin_frame(decoder.hart(), decoder.hart_number());
  wire::Event event;
  wire::Decoded result;
  while ((result = decoder.next(event)) == wire::Decoded::kOk) {
    if (event.source >= kMostTraceables || event.new_source >= kMostTraceables) {
      ++stream.impossible;
      continue;
    }
    const bool is_note = event.operation == wire::Operation::kLost || event.operation == wire::Operation::kMode;
    if (!is_note &&
        (!defined(event.source) || (event.operation == wire::Operation::kReallocate && !defined(event.new_source)))) {
      ++stream.undefined_events;
      wants_definitions_ = true;
    }
    stream.merge.put(event, stream.definitions);
  }
  if (result == wire::Decoded::kMalformed) malformed("events", &stream);
  end_.unknown += decoder.skipped();
  stream.merge.deliver();
}

void StreamReader::take_statistics(const wire::Frame& frame) {
  wire::StreamPrefix prefix;
  wire::StatisticsHead head;
  wire::StatisticsDecoder decoder;
  if (decoder.begin(frame.payload, prefix, head) != wire::Decoded::kOk) return malformed("statistics");
  Stream& stream = stream_of(prefix, false);
  const std::uint64_t lost_before = stream.lost_frames;
  if (!number(stream, prefix.number)) return;
  if (head.first) {
    stream.statistics = {};
    stream.snapshot = head.snapshot;
    stream.snapshot_whole = true;
  } else if (head.snapshot != stream.snapshot || stream.lost_frames != lost_before) {
    stream.snapshot_whole = false;
  }
  stream.statistics.ticks = head.ticks;
  stream.statistics.final = head.final;
  wire::Statistic entry;
  wire::Decoded result;
  while ((result = decoder.next(entry)) == wire::Decoded::kOk) {
    if (entry.of_hart) {
      stream.statistics.harts[entry.number] = {entry.events, entry.lost};
    } else {
      stream.statistics.traceables[entry.number] = {entry.allocations,     entry.frees,           entry.reallocations,
                                                    entry.requested_bytes, entry.allocated_bytes, entry.freed_bytes};
    }
  }
  if (result == wire::Decoded::kMalformed) {
    stream.snapshot_whole = false;
    malformed("statistics", &stream);
  }
  end_.unknown += decoder.skipped();
  if (!head.last || !stream.snapshot_whole) return;
  if (head.final) {
    stream.final_seen = true;
    stream.merge.settle(stream.statistics);
  }
  handler_.on_statistics(stream.statistics);
}

void StreamReader::take_end(const wire::Frame& frame) {
  wire::StreamPrefix prefix;
  wire::StreamEnd end;
  std::uint32_t skipped = 0;
  if (unpack(frame.payload, prefix, end, skipped) != wire::Decoded::kOk) return malformed("end");
  end_.unknown += skipped;
  Stream& stream = stream_of(prefix, false);
  if (!number(stream, prefix.number)) return;
  stream.ended = true;
  stream.merge.flush();
  handler_.on_stream_end(stream.definitions.header.schema_minor != 0 ? end.ticks : 0);
}

/// Completes and checks the current stream, which has no further frames.
void StreamReader::end_stream() {
  Stream& stream = *streams_.back();
  stream.merge.flush();
  if (!stream.has_header) problem(&stream, "its header is missing: the recording began after it, or lost it");
  if (!stream.ended) problem(&stream, "no end: it was not stopped (kmemtrace stop), or the recording ended before it");
  if (stream.ended && !stream.final_seen) problem(&stream, "the device's last statistics are missing");
  if (stream.undefined_events != 0) {
    problem(&stream, counted(stream.undefined_events, "event") +
                         " of caches or arenas whose definition is missing: their sizes are not known");
  }
  if (stream.impossible != 0) {
    problem(&stream, std::to_string(stream.impossible) +
                         " events or definitions of caches or arenas with a number above " +
                         std::to_string(kMostTraceables - 1) + ", which no device has: they are left out");
  }
  if (stream.merge.misplaced() != 0) {
    problem(&stream, counted(stream.merge.misplaced(), "event") + " whose number does not follow those of their hart");
  }
  for (const auto& [hart, lost] : stream.merge.overruns()) {
    problem(&stream, "hart " + std::to_string(hart) + " lost " + counted(lost, "event") +
                         " for want of room (overruns): see docs/qm.md");
  }
  for (const auto& [hart, lost] : stream.merge.missing()) {
    problem(&stream, counted(lost, "event") + " of hart " + std::to_string(hart) + " did not arrive");
  }
  stream.merge.close();
}

void StreamReader::finish(CaptureEnd end) {
  if (streams_.empty()) {
    problem(nullptr, "no event stream: was it started (kmemtrace start) while it was recorded?");
  } else {
    end_stream();
  }
  end.unknown += end_.unknown;
  end.notes.insert(end.notes.end(), end_.notes.begin(), end_.notes.end());
  end.problems.insert(end.problems.end(), end_.problems.begin(), end_.problems.end());
  if (more_problems_ != 0) end.problems.push_back({"and " + counted(more_problems_, "more problem")});
  end.complete = end.complete && end.problems.empty();
  handler_.on_end(end);
}

void StreamReader::malformed(const char* what, const Stream* of) {
  problem(of, std::string("a frame of ") + what + " is intact, but malformed");
}

void StreamReader::problem(const Stream* of, std::string text) {
  if (end_.problems.size() >= kMostProblems) {
    ++more_problems_;
  } else if (of == nullptr) {
    end_.problems.push_back({std::move(text)});
  } else {
    end_.problems.push_back({"stream " + std::to_string(of->place) + ": " + text, of->place});
  }
}

}  // namespace qm::host
