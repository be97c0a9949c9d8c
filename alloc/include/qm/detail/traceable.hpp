#pragma once
/// The base of Cache and Arena: what the trace needs to trace them, and the data it keeps with them. See observer.hpp.

#include <atomic>
#include <cstdint>

#include <qm/detail/observer.hpp>
#include <qm/registry.hpp>

namespace qm {

class Traceable : public Registered {
 public:
  /// Copies of trace_state, for debuggers: debug information has all constants of a class, but only the used ones of a
  /// namespace.
  static constexpr std::uint32_t kWatched = trace_state::kWatch;
  static constexpr std::uint32_t kRecorded = trace_state::kRecord;
  static constexpr std::uint32_t kHeld = trace_state::kHold;
  static constexpr std::uint32_t kThinned = trace_state::kThin;

  [[nodiscard]] RegistryKind kind() const noexcept { return kind_; }
  /// Whether it may be traced: a source from which the trace itself allocates may not.
  [[nodiscard]] bool traceable() const noexcept { return !no_trace_; }
  /// The state word (namespace trace_state) for a cache's objects, or for an arena's segments; an arena's quantum
  /// caches have their own. It is changed by compare-and-swap; a broadcast then makes the change effective.
  [[nodiscard]] std::atomic<std::uint32_t>& state() noexcept { return state_; }

  /// The observer's number of records; part of the test whether the last record is gone.
  std::atomic<std::uint32_t> live_records{0};
  /// The observer's data about this source; nullptr until the observer first traces it.
  std::atomic<void*> traced_source{nullptr};

 protected:
  explicit constexpr Traceable(RegistryKind kind) noexcept : kind_(kind) {}
  ~Traceable() = default;

  std::atomic<std::uint32_t> state_{0};
  bool no_trace_ = false;

 private:
  RegistryKind kind_;
};

/// Walks over all caches, then all arenas.
template <>
class RegistryCursor<Traceable> {
 public:
  /// As RegistryCursor of one kind.
  Traceable* next() noexcept {
    Traceable* entry = in_arenas_ ? nullptr : caches_.next();
    if (entry == nullptr) entry = arenas_.next();
    in_arenas_ = entry != nullptr && entry->kind() == RegistryKind::kArena;
    return entry;
  }
  Traceable* find(const char* name) noexcept {
    Traceable* entry = caches_.find(name);
    if (entry == nullptr) entry = arenas_.find(name);
    in_arenas_ = entry != nullptr && entry->kind() == RegistryKind::kArena;
    return entry;
  }

 private:
  /// A walk over one kind.
  class Walk : public RegistryWalk {
   public:
    using RegistryWalk::RegistryWalk;
    Traceable* next() noexcept { return static_cast<Traceable*>(advance()); }
    Traceable* find(const char* name) noexcept { return static_cast<Traceable*>(look_up(name)); }
  };
  Walk caches_{RegistryKind::kCache};
  Walk arenas_{RegistryKind::kArena};
  bool in_arenas_ = false;
};

}  // namespace qm
