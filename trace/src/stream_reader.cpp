// The functions for the reader of the event stream: events from the rings, the definitions of their numbers, and the
// counters.

#include <qm/detail/call_sites.hpp>

#include "selection.hpp"
#include "stream.hpp"

namespace qm::trace {
namespace {

static_assert(kStackDepth <= wire::kMaxStackFrames);

constexpr std::uint32_t bit32(std::uint32_t number) noexcept { return std::uint32_t{1} << number % 32; }

SourceStream* source_numbered(std::uint32_t number, TracedSource*& one) noexcept {
  one = number != 0 && number <= tracer.cache_limit() ? tracer.source_numbered(number) : nullptr;
  // acquire: pairs with the release in enroll().
  return one != nullptr && one->stream_number.load(std::memory_order_acquire) == stream.number ? stream_of(*one)
                                                                                               : nullptr;
}

/// The full time for the low word in a ring: the latest such time that is not in the future.
std::uint64_t whole_ticks(std::uint32_t low, std::uint64_t before) noexcept {
  const std::uint64_t now = hal::Port::ticks();
  const std::uint64_t whole = now - static_cast<std::uint32_t>(static_cast<std::uint32_t>(now) - low);
  return whole > before ? whole : before;
}

/// The stack's number for an event; 0 if the depot was full.
std::uint32_t stack_number(std::uint32_t packed) noexcept {
  const StackHandle handle = Record::stack_in(packed);
  return handle >= kFirstHandle ? handle : 0;
}

std::uint32_t context_number(std::uint32_t packed) noexcept { return (packed & ~Record::kMark) >> kStackHandleBits; }

/// Puts the call site and the sizes into an event, except sizes that the source's definition has.
void fill_sizes(const RingEntry& entry, wire::Event& event) noexcept {
  TracedSource* one = nullptr;
  const SourceStream* of = source_numbered(entry.source(), one);
  if ((entry.what & RingEntry::kBytes) != 0) {
    event.allocated = entry.beside;
  } else {
    event.call_site = entry.beside;
    if ((entry.what & RingEntry::kQuantumMore) != 0 && of != nullptr) {
      const std::uint32_t quantum = of->object_bytes;
      event.allocated = wire::segment_bytes(entry.requested, quantum, of->allocated_bytes) + quantum;
    }
  }
  if (of == nullptr || of->is_arena() || entry.requested != of->object_bytes) event.requested = entry.requested;
}

void begin_note(unsigned hart, wire::Operation operation, wire::Event& event) noexcept {
  const EventStream::Taken& taken = stream.taken[hart];
  event = wire::Event{};
  event.operation = operation;
  event.hart = hart;
  event.hart_number = taken.numbers;
  event.global_number = taken.global_number;
  event.ticks = taken.ticks;
}

void take_lost(unsigned hart, std::uint32_t count, wire::Event& event) noexcept {
  begin_note(hart, wire::Operation::kLost, event);
  event.lost = count;
  stream.taken[hart].numbers += count;
}

void take_mode(unsigned hart, wire::Event& event) noexcept {
  begin_note(hart, wire::Operation::kMode, event);
  event.mode = stream.rings[hart].mode();
  event.sample_bytes = stream.options.sample_bytes;
}

void take_note(unsigned hart, const RingEntry& entry, wire::Event& event) noexcept {
  if (entry.operation() == wire::Operation::kLost) return take_lost(hart, entry.stack_context, event);
  take_mode(hart, event);
  event.mode = static_cast<wire::StreamMode>(entry.stack_context);
}

/// Makes a note of the drops or the mode that no note in the ring has. Called when no hart puts events.
/// @returns false if there are none.
bool take_unsaid(unsigned hart, wire::Event& event) noexcept {
  if (stream.state.load(std::memory_order_acquire) != StreamState::kEnding) return false;
  EventRing& ring = stream.rings[hart];
  if (const std::uint32_t lost = ring.take_unsaid(); lost != 0) {
    take_lost(hart, lost, event);
    return true;
  }
  if (!ring.take_unsaid_mode()) return false;
  take_mode(hart, event);
  return true;
}

}  // namespace

std::uint32_t events_waiting(unsigned hart) noexcept { return stream.rings[hart].waiting(); }

bool next_event(unsigned hart, wire::Event& event) noexcept {
  EventRing& ring = stream.rings[hart];
  if (stream.state.load(std::memory_order_acquire) == StreamState::kOff) return false;
  if (ring.waiting() == 0) return take_unsaid(hart, event);
  const RingEntry& entry = ring.peek();
  if (entry.operation() == wire::Operation::kLost || entry.operation() == wire::Operation::kMode) {
    take_note(hart, entry, event);
    ring.drop(1);
    return true;
  }
  EventStream::Taken& taken = stream.taken[hart];
  event = wire::Event{};
  event.operation = entry.operation();
  event.hart = hart;
  event.hart_number = taken.numbers++;
  event.global_number = entry.number;
  event.ticks = whole_ticks(entry.ticks, taken.ticks);
  event.context = context_number(entry.stack_context);
  event.source = entry.source();
  event.address = entry.address;
  std::uint32_t entries = 1;
  const RingEntry* sized = &entry;
  if (entry.operation() == wire::Operation::kReallocate) {
    if (entry.is_moved()) sized = &ring.peek(entries++);
    event.new_source = sized->source();
    event.new_address = sized->address;
  }
  if (entry.operation() != wire::Operation::kFree) {
    event.stack = stack_number(sized->stack_context);
    event.flags = entry.flags();
    fill_sizes(*sized, event);
  }
  ring.drop(entries);
  ++taken.events;
  taken.ticks = event.ticks;
  taken.global_number = event.global_number + 1;
  return true;
}

// ---- definitions ----------------------------------------------------------------------------------------------------

bool define_source(std::uint32_t number, wire::Definition& definition) noexcept {
  TracedSource* one = nullptr;
  const SourceStream* of = source_numbered(number, one);
  if (of == nullptr) return false;
  definition = wire::Definition{};
  definition.kind = wire::DefinitionKind::kSource;
  definition.number = number;
  definition.source_kind = of->kind;
  definition.object_bytes = of->object_bytes;
  definition.allocated_bytes = of->allocated_bytes;
  definition.outstanding = of->outstanding;
  definition.parent = of->parent;
  definition.name = characters(of->name);
  return true;
}

bool define_stack(std::uint32_t number, wire::Definition& definition) noexcept {
  const StackEntry* entry = tracer.stacks.find_entry(number);
  if (entry == nullptr) return false;
  definition = wire::Definition{};
  definition.kind = wire::DefinitionKind::kStack;
  definition.number = number;
  definition.id = entry->id;
  definition.truncated = entry->truncated();
  definition.collided = (entry->flags & StackEntry::kCollided) != 0;
  definition.depth = entry->depth;
  for (unsigned i = 0; i < entry->depth; ++i) definition.frames[i] = tracer.pc_of(entry->frames()[i]);
  return true;
}

bool define_context(std::uint32_t number, wire::Definition& definition) noexcept {
  if (number == 0 || number > tracer.contexts.capacity()) return false;
  definition = wire::Definition{};
  definition.kind = wire::DefinitionKind::kContext;
  definition.number = number;
  definition.name = tracer.contexts.text(number);
  return !definition.name.empty();
}

bool define_call_site(std::uint32_t number, wire::Definition& definition) noexcept {
  if constexpr (kCallSites) {
    const CallSite* site = number != 0 && number <= call_sites::count() ? call_sites::row(number - 1).site : nullptr;
    if (site == nullptr) return false;
    definition = wire::Definition{};
    definition.kind = wire::DefinitionKind::kCallSite;
    definition.number = number;
    definition.line = site->line;
    definition.name = characters(site->file);
    if (site->module != nullptr) definition.module = characters(site->module);
    definition.function = characters(site->function);
    return true;
  }
  return false;
}

bool mark_defined(wire::DefinitionKind kind, std::uint32_t number) noexcept {
  if (number == 0) return true;
  std::uint32_t* word = nullptr;
  if (kind == wire::DefinitionKind::kSource) {
    TracedSource* one = nullptr;
    SourceStream* of = source_numbered(number, one);
    if (of == nullptr) return true;
    const bool was = of->defined;
    of->defined = true;
    return was;
  }
  if (kind == wire::DefinitionKind::kCallSite && stream.defined_sites != nullptr)
    word = &stream.defined_sites[number / 32];
  if (kind == wire::DefinitionKind::kStack && stream.defined_stacks != nullptr)
    word = &stream.defined_stacks[number / 32];
  if (kind == wire::DefinitionKind::kContext) word = &stream.defined_contexts[number / 32];
  if (word == nullptr) return true;
  const bool was = (*word & bit32(number)) != 0;
  *word |= bit32(number);
  return was;
}

void forget_defined() noexcept {
  if (stream.state.load(std::memory_order_relaxed) == StreamState::kOff && stream.memory == nullptr) return;
  for (std::size_t i = 0; i <= tracer.config().stack_bytes / 8 / 32; ++i) stream.defined_stacks[i] = 0;
  for (std::uint32_t& word : stream.defined_contexts) word = 0;
  if constexpr (kCallSites) {
    for (std::size_t i = 0; i <= call_sites::count() / 32; ++i) stream.defined_sites[i] = 0;
  }
  for (std::uint32_t number = 1; number <= tracer.cache_limit(); ++number) {
    TracedSource* one = nullptr;
    if (SourceStream* of = source_numbered(number, one); of != nullptr) of->defined = false;
  }
}

std::uint32_t last_source() noexcept { return tracer.cache_limit(); }
std::uint32_t last_context() noexcept { return tracer.contexts.capacity(); }

// ---- figures --------------------------------------------------------------------------------------------------------

wire::Statistic hart_statistic(unsigned hart) noexcept {
  wire::Statistic statistic;
  statistic.of_hart = true;
  statistic.number = hart;
  statistic.events = stream.taken[hart].events;
  statistic.lost = stream.rings[hart].lost();
  return statistic;
}

bool source_statistic(std::uint32_t number, wire::Statistic& statistic) noexcept {
  TracedSource* one = nullptr;
  SourceStream* of = source_numbered(number, one);
  if (of == nullptr) return false;
  statistic = wire::Statistic{};
  statistic.number = number;
  const auto value = [](const std::atomic<Word>& counter) {
    return std::uint64_t{counter.load(std::memory_order_relaxed)};
  };
  std::uint64_t given_back = 0;  // in objects
  for (unsigned hart = 0; hart < tracer.harts(); ++hart) {
    const StreamCounts& counts = of->harts()[hart];
    statistic.allocations += value(counts.allocations);
    statistic.frees += value(counts.frees);
    statistic.reallocations += value(counts.reallocations);
    statistic.requested_bytes += value(counts.requested);
    statistic.allocated_bytes += value(counts.allocated);
    statistic.freed_bytes += value(counts.freed);
    given_back += value(counts.frees) + value(counts.reallocations) - value(counts.moved_in) + value(counts.moved_out);
  }
  if (!of->is_arena()) {
    statistic.allocated_bytes += (statistic.allocations + statistic.reallocations) * of->allocated_bytes;
    statistic.freed_bytes += given_back * of->allocated_bytes;
  }
  return true;
}

StreamState stream_state() noexcept { return stream.state.load(std::memory_order_acquire); }

StreamFigures stream_figures() noexcept {
  StreamFigures figures;
  figures.state = stream_state();
  figures.number = stream.number;
  figures.mode = stream.mode;
  figures.first_mode = stream.first_mode;
  figures.boot = stream.boot;
  figures.options = stream.options;
  figures.ring_bytes = stream.ring_bytes;
  figures.start_ticks = stream.start_ticks;
  figures.stop_ticks = stream.stop_ticks;
  figures.from_boot = stream.from_boot;
  figures.seed = stream.seed;
  figures.unjoined = stream.unjoined.load(std::memory_order_relaxed);
  if (!tracer.ready() || stream.number == 0) return figures;
  for (unsigned hart = 0; hart < tracer.harts(); ++hart) {
    figures.events += stream.taken[hart].events;
    figures.lost += stream.rings[hart].lost();
    figures.waiting += stream.rings[hart].waiting();
  }
  TracedSource* one = nullptr;
  for (std::uint32_t number = 1; number <= tracer.cache_limit(); ++number) {
    figures.sources += source_numbered(number, one) != nullptr ? 1 : 0;
  }
  return figures;
}

void end_stream() noexcept {
  // After a panic the memory stays as it is.
  if (!hal::in_panic()) stream.give_memory();
  stream.state.store(StreamState::kOff, std::memory_order_release);
}

}  // namespace qm::trace
