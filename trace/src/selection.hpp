#pragma once
/// What the commands that change state words share: the sources they apply to, and the rounds that make a change
/// effective.

#include <qm/glob.hpp>
#include <qm/trace/characters.hpp>

#include "books.hpp"
#include "defect.hpp"

namespace qm::trace {

inline constexpr unsigned kBatch = 16;  // sources a visit

constexpr hal::HartMask bit(unsigned hart) { return hal::HartMask{1} << hart; }

inline Traceable& source_of(const SourceBooks& one) noexcept { return *one.source.load(std::memory_order_relaxed); }

/// Sources a command applies to, chained through their books.
class Selection {
 public:
  enum class Missing : std::uint8_t { kMake, kSkip };
  enum class Kind : std::uint8_t { kAll, kCaches };

  /// Finds the sources that @p pattern names. @param[in] missing whether one without books gets some or is passed by;
  /// then those with books are found in a destroy as well, as it may still be refused.
  /// @param[in] kind  all, or caches only: what else there is, is as if it could not be traced.
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
      SourceBooks* one = books_at(*source);
      if (one == nullptr && missing == Missing::kMake && (one = books.books_of(*source)) == nullptr) {
        result.status = Status::kNoMemory;
        return;
      }
      if (one != nullptr) add(one);
    }
    for (SourceBooks* one = missing == Missing::kSkip ? books.books_after(0) : nullptr; one != nullptr;
         one = books.books_after(one->number)) {
      if (one->selected || !names(pattern, characters(source_of(*one).name()))) continue;
      found = true;
      ++result.caches;
      add(one);
    }
    if (!found) result.status = Status::kNotFound;
  }
  ~Selection() {
    for (SourceBooks* one = first_; one != nullptr; one = one->next_selected) one->selected = false;
  }
  Selection(const Selection&) = delete;
  Selection& operator=(const Selection&) = delete;

  [[nodiscard]] SourceBooks* first() const noexcept { return first_; }

 private:
  void add(SourceBooks* one) noexcept {
    one->next_selected = nullptr;
    one->selected = true;
    one->changing = false;
    (last_ != nullptr ? last_->next_selected : first_) = one;
    last_ = one;
  }

  SourceBooks* first_ = nullptr;
  SourceBooks* last_ = nullptr;
};

/// The cache, whose cells have to follow the word; nullptr for an arena: each of its operations reads the word.
inline Cache* cells_of(const SourceBooks& one) noexcept {
  Traceable& source = source_of(one);
  return source.kind() == RegistryKind::kCache ? static_cast<Cache*>(&source) : nullptr;
}

/// What a round needs to know besides the harts.
struct Patience {
  hal::AbortTest abort;
  std::uint32_t deadline_ms;
};

/// A round; while this hart is alone it only masks itself, which is possible at boot too. Not one function for all
/// files: in a test one of them has a defect.
static inline bool ask(hal::HartMask harts, hal::RoundFunction function, void* argument, const Patience& patience,
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
  const hal::RoundResult answer = hal::run_on_harts(harts, function, argument, patience.deadline_ms, patience.abort);
  result.hart = answer.hart;
  if (!answer.ok()) result.status = status_of(answer.status);
  return answer.ok();
}

/// Up to kBatch of the selected sources, for one visit of each hart.
struct Batch {
  SourceBooks* sources[kBatch];
  unsigned count = 0;

  /// Takes the next ones from @p one on. @returns where to go on.
  SourceBooks* fill(SourceBooks* one) noexcept {
    for (count = 0; one != nullptr && count < kBatch; one = one->next_selected) {
      if (one->changing) sources[count++] = one;
    }
    return one;
  }
};

/// Changes the state word, in which kOwned stays only as far as it may. @returns what it was.
inline std::uint32_t change(Traceable& source, std::uint32_t set, std::uint32_t clear) noexcept {
  const SourceBooks* one = books_at(source);
  const bool is_plain = one != nullptr && one->unit == 8;  // as plain_code() has it
  std::uint32_t word = source.state().load(std::memory_order_relaxed);
  // seq_cst: against expose(), which publishes its hart's bit and then reads the word again.
  for (std::uint32_t next = 0;;) {
    using namespace trace_state;
    next = (word & ~clear) | set;
    if (!is_plain || (next & (kStream | kStreamHold | kRecord | kCounts)) != kRecord) next &= ~kOwned;
    if (source.state().compare_exchange_weak(word, next, std::memory_order_seq_cst)) break;
  }
  return word;
}

inline void shut_cells(unsigned hart, void* argument) noexcept {
  const Batch& batch = *static_cast<const Batch*>(argument);
  for (unsigned i = 0; i < batch.count; ++i) {
    Cache* cache = cells_of(*batch.sources[i]);
    if (cache == nullptr) continue;
    cache->close(hart);
    cache->expose(hart);
  }
}

}  // namespace qm::trace
