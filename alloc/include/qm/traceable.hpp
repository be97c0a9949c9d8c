#pragma once
/// What the books can trace: the base of Cache and Arena, with what they keep for it. See observer.hpp.

#include <atomic>
#include <cstdint>

#include <qm/registry.hpp>

namespace qm {

class Traceable : public Registered {
 public:
  [[nodiscard]] RegistryKind kind() const noexcept { return kind_; }
  /// Whether it may be traced: what the books themselves take memory from may not.
  [[nodiscard]] bool traceable() const noexcept { return !no_trace_; }
  /// The state word (namespace trace_state): of a cache's objects, or of an arena's segments; an arena's quantum caches
  /// have their own. Changed by compare-and-swap, then made effective by a round.
  [[nodiscard]] std::atomic<std::uint32_t>& state() noexcept { return state_; }

  /// Records the observer counts, as it sees fit; part of the last-record-gone test.
  std::atomic<std::uint32_t> live_records{0};
  /// What the observer keeps about this source; its own, nullptr until it first traces it.
  std::atomic<void*> books{nullptr};

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
