#pragma once
/// Common parts of the commands that change state words: the sources that a command applies to, and the broadcasts that
/// make a change take effect.

#include <qm/detail/glob.hpp>
#include <qm/trace/characters.hpp>

#include "tracer.hpp"
#include "defect.hpp"

namespace qm::trace {

inline constexpr unsigned kBatch = 16;  // sources a visit

constexpr hal::HartMask bit(unsigned hart) { return hal::HartMask{1} << hart; }

inline Traceable& source_of(const TracedSource& one) noexcept { return *one.source.load(std::memory_order_relaxed); }

/// The sources that a command applies to, chained through their TracedSource.
class Selection {
 public:
  enum class Missing : std::uint8_t { kMake, kSkip };
  enum class Kind : std::uint8_t { kAll, kCaches };

  /// Finds the sources that @p pattern matches.
  /// @param[in] missing whether a source without a trace gets one or is left out. If it is left out, sources with a
  ///                    trace are found even during a destroy, since the destroy may still be refused.
  /// @param[in] kind    all sources, or caches only; then arenas are treated as sources that cannot be traced.
  Selection(std::string_view pattern, Missing missing, CommandResult& result, Kind kind = Kind::kAll) noexcept {
    RegistryCursor<Traceable> sources;
    bool found = false;
    while (Traceable* source = sources.next()) {
      if (!names(pattern, characters(source->name()))) continue;
      found = true;
      if (!source->traceable() || (kind == Kind::kCaches && source->kind() != RegistryKind::kCache)) {
        ++result.skipped;
        if (!names_many(pattern)) result.status = Status::kRefused;
        continue;
      }
      ++result.caches;
      TracedSource* one = traced_source(*source);
      if (one == nullptr && missing == Missing::kMake && (one = tracer.ensure_source(*source)) == nullptr) {
        result.status = Status::kNoMemory;
        return;
      }
      if (one != nullptr) add(one);
    }
    for (TracedSource* one = missing == Missing::kSkip ? tracer.source_after(0) : nullptr; one != nullptr;
         one = tracer.source_after(one->number)) {
      if (one->selected || !names(pattern, characters(source_of(*one).name()))) continue;
      found = true;
      ++result.caches;
      add(one);
    }
    if (!found) result.status = Status::kNotFound;
  }
  ~Selection() {
    for (TracedSource* one = first_; one != nullptr; one = one->next_selected) one->selected = false;
  }
  Selection(const Selection&) = delete;
  Selection& operator=(const Selection&) = delete;

  [[nodiscard]] TracedSource* first() const noexcept { return first_; }

 private:
  void add(TracedSource* one) noexcept {
    one->next_selected = nullptr;
    one->selected = true;
    one->changing = false;
    (last_ != nullptr ? last_->next_selected : first_) = one;
    last_ = one;
  }

  TracedSource* first_ = nullptr;
  TracedSource* last_ = nullptr;
};

/// The cache, whose per-hart caches have to follow the word; nullptr for an arena: each of its operations reads the
/// word.
inline Cache* hart_caches_of(const TracedSource& one) noexcept {
  Traceable& source = source_of(one);
  return source.kind() == RegistryKind::kCache ? static_cast<Cache*>(&source) : nullptr;
}

/// How long a broadcast waits.
struct Patience {
  hal::AbortTest abort;
  std::uint32_t deadline_ms;
};

/// Runs a broadcast. While this hart is alone it only masks interrupts, which is possible at boot too. Each file has
/// its own copy, because a test builds one file with a defect.
static inline bool ask(hal::HartMask harts, hal::BroadcastFunction function, void* argument, const Patience& patience,
                       CommandResult& result) noexcept {
  if constexpr (kDefect == Defect::kNoAcknowledgement) return true;
  if (!hal::in_panic()) {
    const hal::InterruptGuard masked;
    const unsigned self = hal::Port::hart_index();
    if ((hal::online_harts() & ~bit(self)) == 0) {
      function(self, argument);
      return true;
    }
  }
  const hal::BroadcastResult answer =
      hal::run_on_harts(harts, function, argument, patience.deadline_ms, patience.abort);
  result.hart = answer.hart;
  if (!answer.ok()) result.status = status_of(answer.status);
  return answer.ok();
}

/// Up to kBatch of the selected sources, for one visit of each hart.
struct Batch {
  TracedSource* sources[kBatch];
  unsigned count = 0;

  /// Takes the next sources from @p one on. @returns the source to continue with.
  TracedSource* fill(TracedSource* one) noexcept {
    for (count = 0; one != nullptr && count < kBatch; one = one->next_selected) {
      if (one->changing) sources[count++] = one;
    }
    return one;
  }
};

/// Changes the state word and clears kOwned if it may not stay. @returns the previous word.
inline std::uint32_t change(Traceable& source, std::uint32_t set, std::uint32_t clear) noexcept {
  const TracedSource* one = traced_source(source);
  const bool is_plain = one != nullptr && one->unit == 8;  // the condition of plain_code()
  std::uint32_t word = source.state().load(std::memory_order_relaxed);
  // seq_cst: pairs with open_hart_cache(), which publishes its hart's bit and then reads the word again.
  for (std::uint32_t next = 0;;) {
    using namespace trace_state;
    next = (word & ~clear) | set;
    if (!is_plain || (next & (kStream | kStreamHold | kRecord | kCounts | kQuarantine)) != kRecord) next &= ~kOwned;
    if (source.state().compare_exchange_weak(word, next, std::memory_order_seq_cst)) break;
  }
  return word;
}

inline void close_hart_caches(unsigned hart, void* argument) noexcept {
  const Batch& batch = *static_cast<const Batch*>(argument);
  for (unsigned i = 0; i < batch.count; ++i) {
    Cache* cache = hart_caches_of(*batch.sources[i]);
    if (cache == nullptr) continue;
    cache->close(hart);
    cache->open_hart_cache(hart);
  }
}

}  // namespace qm::trace
