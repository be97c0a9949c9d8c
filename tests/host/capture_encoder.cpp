#include "capture_encoder.hpp"

#include <string>

namespace qm::test {
namespace {

constexpr std::size_t kEventsTogether = 64;

wire::SourceKind kind_of(const host::Traceable& traceable) {
  if (traceable.kind == host::EventKind::kHeap) {
    return traceable.arena ? wire::SourceKind::kHeapArena : wire::SourceKind::kHeapClass;
  }
  return traceable.arena ? wire::SourceKind::kArena : wire::SourceKind::kCache;
}

}  // namespace

void CaptureEncoder::send(wire::FrameType type, std::span<const std::uint8_t> payload) {
  const std::uint32_t number = frame_number_++;
  const std::uint16_t sequence = sequence_++;
  if (defects_.lose && defects_.lose(number)) return;
  std::string line(wire::armoured_size(payload.size()), ' ');
  line.resize(wire::encode({type, sequence, 0, payload}, line));
  writer_.received(line);
}

void CaptureEncoder::on_header(const host::Definitions& definitions) {
  definitions_ = &definitions;
  const host::StreamHeader& from = definitions.header;
  stream_ = from.stream;
  frame_number_ = 0;
  harts_.clear();
  std::vector<std::uint8_t> build_id;
  for (std::size_t at = 0; at + 1 < from.build_id.size(); at += 2) {
    build_id.push_back(static_cast<std::uint8_t>(std::stoi(from.build_id.substr(at, 2), nullptr, 16)));
  }
  wire::StreamHeader header;
  header.harts = from.harts;
  header.tick_rate = from.ticks_per_second;
  header.start_ticks = from.start_ticks;
  header.boot = from.boot;
  header.mode = static_cast<wire::StreamMode>(from.mode);
  header.from_boot = from.from_boot;
  header.pointer_bytes = from.pointer_bytes;
  header.ring_bytes = 4096;
  header.build_id = build_id;
  header.pattern = from.pattern;
  std::uint8_t room[wire::kMaxPayloadBytes];
  wire::ByteWriter out(room);
  if (pack(out, prefix(), header)) send(wire::FrameType::kStreamHeader, out.written());
  define(definitions);
}

void CaptureEncoder::define(const host::Definitions& definitions) {
  std::vector<wire::Definition> all;
  for (const auto& [number, traceable] : definitions.traceables) {
    wire::Definition& each = all.emplace_back();
    each.kind = wire::DefinitionKind::kSource;
    each.number = number;
    each.source_kind = kind_of(traceable);
    each.object_bytes = traceable.object_bytes;
    each.allocated_bytes = traceable.allocated_bytes;
    each.outstanding = traceable.outstanding;
    each.parent = traceable.parent + 1;
    each.name = traceable.name;
  }
  for (const auto& [number, stack] : definitions.stacks) {
    wire::Definition& each = all.emplace_back();
    each.kind = wire::DefinitionKind::kStack;
    each.number = number;
    each.id = stack.id;
    each.depth = static_cast<std::uint32_t>(stack.frames.size());
    std::copy(stack.frames.begin(), stack.frames.end(), each.frames);
  }
  for (const auto& [number, name] : definitions.contexts) {
    wire::Definition& each = all.emplace_back();
    each.kind = wire::DefinitionKind::kContext;
    each.number = number;
    each.name = name;
  }
  std::uint8_t room[wire::kMaxPayloadBytes];
  wire::DefinitionEncoder encoder;
  encoder.begin(room, prefix());
  for (const wire::Definition& each : all) {
    if (encoder.add(each)) continue;
    send(wire::FrameType::kDefinitions, encoder.finish());
    encoder.begin(room, prefix());
    if (!encoder.add(each)) return;
  }
  if (const auto rest = encoder.finish(); !rest.empty()) send(wire::FrameType::kDefinitions, rest);
}

void CaptureEncoder::on_event(const host::Event& from) {
  const std::uint64_t count = counted_++;
  if (defects_.omit && defects_.omit(count)) return;
  Hart& hart = harts_[from.hart];
  if (defects_.overrun && defects_.overrun(count)) {
    ++hart.overruns;
    ++hart.all_overruns;
    return;
  }
  if (hart.overruns != 0) {
    wire::Event& note = hart.waiting.emplace_back();
    note.operation = wire::Operation::kLost;
    note.hart = from.hart;
    note.hart_number = hart.number;
    note.ticks = from.ticks;
    note.global_number = static_cast<std::uint32_t>(from.number);
    note.lost = hart.overruns;
    hart.number += hart.overruns;
    hart.overruns = 0;
  }
  wire::Event& event = hart.waiting.emplace_back();
  const host::Traceable& traceable = definitions_->traceables.at(from.traceable);
  event.operation = static_cast<wire::Operation>(from.operation);
  event.hart = from.hart;
  event.hart_number = hart.number++;
  event.global_number = static_cast<std::uint32_t>(from.number);
  event.ticks = from.ticks;
  event.context = from.context;
  event.stack = from.stack;
  event.flags = from.flags;
  event.source = from.traceable;
  event.address = from.address;
  if (from.operation == host::Operation::kReallocate) {
    event.source = from.old_traceable;
    event.address = from.old_address;
    event.new_source = from.traceable;
    event.new_address = from.address;
  }
  if (from.operation != host::Operation::kFree && from.requested != traceable.object_bytes)
    event.requested = from.requested;
  const std::uint64_t usual =
      traceable.arena ? wire::segment_bytes(from.requested, traceable.object_bytes, traceable.allocated_bytes)
                      : traceable.allocated_bytes;
  if (from.operation != host::Operation::kFree && from.allocated != usual) event.allocated = from.allocated;
  if (hart.waiting.size() >= kEventsTogether) flush(hart);
}

void CaptureEncoder::flush(Hart& hart) {
  std::uint8_t room[wire::kMaxPayloadBytes];
  wire::EventEncoder encoder;
  bool begun = false;
  for (const wire::Event& event : hart.waiting) {
    if (begun && encoder.add(event)) continue;
    if (begun) send(wire::FrameType::kEvents, encoder.finish());
    encoder.begin(room, stream_, frame_number_, event);
    begun = encoder.add(event);
  }
  if (begun) send(wire::FrameType::kEvents, encoder.finish());
  hart.waiting.clear();
}

void CaptureEncoder::on_statistics(const host::Statistics& statistics) {
  for (auto& [index, hart] : harts_) flush(hart);
  std::vector<wire::Statistic> entries;
  for (const auto& [index, counters] : statistics.harts) {
    wire::Statistic& entry = entries.emplace_back();
    const std::uint64_t lost = harts_[static_cast<std::uint16_t>(index)].all_overruns;
    entry.of_hart = true;
    entry.number = index;
    entry.lost = lost;
    entry.events = counters.events - lost;
  }
  for (const auto& [number, counters] : statistics.traceables) {
    wire::Statistic& entry = entries.emplace_back();
    entry.number = number;
    entry.allocations = counters.allocations + defects_.too_much;
    entry.frees = counters.frees + defects_.too_much;
    entry.reallocations = counters.reallocations + defects_.too_much;
    entry.requested_bytes = counters.requested + defects_.too_much;
    entry.allocated_bytes = counters.allocated + defects_.too_much;
    entry.freed_bytes = counters.freed + defects_.too_much;
  }
  std::uint8_t room[wire::kMaxPayloadBytes];
  wire::StatisticsEncoder encoder;
  wire::StatisticsHead head{statistics.ticks, ++snapshot_, true, false, statistics.final};
  encoder.begin(room, prefix(), head);
  for (const wire::Statistic& entry : entries) {
    if (encoder.add(entry)) continue;
    send(wire::FrameType::kStatistics, encoder.finish(false));
    head.first = false;
    encoder.begin(room, prefix(), head);
    if (!encoder.add(entry)) return;
  }
  send(wire::FrameType::kStatistics, encoder.finish(true));
}

void CaptureEncoder::on_stream_end(std::uint64_t stop_ticks) {
  if (defects_.unended) return;
  std::uint8_t room[wire::kMaxPayloadBytes];
  wire::ByteWriter out(room);
  wire::StreamEnd end;
  end.ticks = stop_ticks;
  for (const auto& [index, hart] : harts_) {
    end.events += hart.number + hart.overruns;
    end.lost += hart.all_overruns;
  }
  if (pack(out, prefix(), end)) send(wire::FrameType::kStreamEnd, out.written());
}

}  // namespace qm::test
