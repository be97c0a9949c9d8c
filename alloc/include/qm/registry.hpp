#pragma once
/// The names of all arenas and caches, and the way to walk over them.
///
/// A name is unique over arenas and caches together, so that a console command never has to ask which one is meant. One
/// lock guards both lists. A RegistryCursor pins what it stands on: it cannot be destroyed while a report shows it.
///
/// The lock is held for a few entries at a time: adding and removing search the lists in many holds, and the last of
/// them does the work. A search pins nothing, so it keeps nobody from destroying; who removes what it stands on moves it
/// back. New entries come to the end, so a search that reaches the ends of both lists has met every name.
///
/// Invariants
/// - G1 An entry is in exactly one list from registry_add() to registry_remove(), and its name is in no other entry.
/// - G2 A hidden entry keeps its name, and no cursor stands on it or comes to it.
/// - G3 What a walk stands on is listed; all that lies before it, the walk has passed.

#include <cstddef>
#include <cstdint>

#include <qm/configuration.h>
#include <qm/list.hpp>
#include <qm/status.hpp>

namespace qm {

/// A name's characters and its final zero.
inline constexpr std::size_t kNameBytes = 32;

enum class RegistryKind : std::uint8_t { kArena, kCache };

/// What has a name: the base of Arena and Cache.
class Registered {
 public:
  /// The name it was created with. An empty string until then.
  [[nodiscard]] const char* name() const noexcept { return name_; }
  [[nodiscard]] bool is_called(const char* name) const noexcept;
  /// Copies the name, and zeros behind it.
  void copy_name(char (&to)[kNameBytes]) const noexcept;

 protected:
  constexpr Registered() noexcept = default;
  ~Registered() = default;
  /// Whether it is in its list.
  [[nodiscard]] bool listed() const noexcept { return listed_; }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  friend Status set_name(Registered&, const char*) noexcept;
  friend Status registry_add(RegistryKind, Registered&) noexcept;
  friend void registry_remove(RegistryKind, Registered&) noexcept;
  friend bool registry_has(RegistryKind, const Registered&) noexcept;
  friend bool registry_hide_step(Registered&) noexcept;
  friend void registry_show(Registered&) noexcept;
  friend class RegistryWalk;
  const char* name_ = "";
  Registered* next_ = nullptr;  ///< of its kind, in the order of creation
  std::uint8_t name_hash_ = 0;  ///< what differs in it, differs
  bool listed_ = false;
  bool hidden_ = false;
};

// What enters and removes is [[gnu::cold]]: it runs as seldom as a cache is made, and is compiled for size (1.5 KB of
// text less).

/// Most entries that are passed in one hold of the lock.
inline constexpr unsigned kRegistryHold = 32;

/// Whether @p name is 1 to 31 characters of A-Z a-z 0-9 _ . -
[[nodiscard]] bool is_valid_name(const char* name) noexcept;

/// Gives an entry that is in no list yet its name, which is kept and not copied.
/// @returns kInvalid unless is_valid_name().
Status set_name(Registered& entry, const char* name) noexcept;

/// Enters @p entry, named by set_name(), at the end of its list. Of several that are added with one name at a time, one
/// is entered.
/// @returns kDuplicate if an arena or a cache has the name, be it hidden.
/// Complexity: a few instructions a name; the lock is held for kRegistryHold names at a time.
[[gnu::cold]] Status registry_add(RegistryKind kind, Registered& entry) noexcept;

/// Whether @p entry is in the list of its kind, hidden or not. It is not read: it may be what is left of one.
/// Complexity: as registry_remove().
[[gnu::cold]] bool registry_has(RegistryKind kind, const Registered& entry) noexcept;

/// How long a destroy waits for cursors to move on. A reclaim stands on a cache while it asks the harts for their
/// magazines; a report on a slow line may stand longer.
inline constexpr std::uint32_t kCursorPatienceMs = 1000;

/// Takes @p entry out of everybody's sight, as the first step of a destroy that may still be refused: no cursor comes
/// to it any more, and those that stand on it are waited for where the caller may wait.
/// @returns kBusy, and the entry is in sight, if a cursor stands on it all the same.
[[gnu::cold]] Status registry_hide(Registered& entry) noexcept;

/// One look of registry_hide(). @returns whether no cursor stands on the entry, which is hidden in any case.
[[gnu::cold]] bool registry_hide_step(Registered& entry) noexcept;

/// Brings a hidden entry back.
[[gnu::cold]] void registry_show(Registered& entry) noexcept;

/// Removes a hidden entry; its name is free again.
/// Complexity: a few instructions an entry; the lock is held for kRegistryHold entries at a time.
[[gnu::cold]] void registry_remove(RegistryKind kind, Registered& entry) noexcept;

/// Forgets every entry without touching it, for a test that sets the allocator up anew.
[[gnu::cold]] void registry_reset() noexcept;

/// The part of RegistryCursor that does not depend on the type.
class RegistryWalk {
 public:
  explicit RegistryWalk(RegistryKind kind) noexcept : RegistryWalk(kind, Pins::kYes) {}
  ~RegistryWalk();
  RegistryWalk(const RegistryWalk&) = delete;
  RegistryWalk& operator=(const RegistryWalk&) = delete;

  /// Stands where @p other stands, so that the entry stays when that one moves on.
  void stand_with(const RegistryWalk& other) noexcept { stand_at(other.current_); }
  /// Stands on nothing; next() begins anew.
  void leave() noexcept { stand_at(nullptr); }

 protected:
  Registered* advance() noexcept;
  Registered* look_up(const char* name) noexcept;

 private:
  friend Status registry_add(RegistryKind, Registered&) noexcept;
  friend void registry_remove(RegistryKind, Registered&) noexcept;
  friend bool registry_has(RegistryKind, const Registered&) noexcept;
  friend bool registry_hide_step(Registered&) noexcept;
  /// Whether what it stands on stays for it. A search is moved back instead.
  enum class Pins : std::uint8_t { kYes, kNo };
  RegistryWalk(RegistryKind kind, Pins pins) noexcept;
  void stand_at(Registered* entry) noexcept;
  /// What leads on from where it stands. With the lock held.
  [[nodiscard]] Registered*& link() noexcept;
  RegistryWalk* next_walk_ = nullptr;
  Registered* current_ = nullptr;
  RegistryKind kind_;
  Pins pins_;
};

/// Walks over all arenas or all caches in the order of their creation: `RegistryCursor<Arena> arenas; while (Arena* a =
/// arenas.next()) ...`. The lock is held only inside next() and find(); the entry returned last cannot go away.
template <class T>
class RegistryCursor : public RegistryWalk {
 public:
  RegistryCursor() noexcept : RegistryWalk(T::kRegistryKind) {}
  /// @returns the entry after the last one, or the first; nullptr at the end, after which it starts again.
  T* next() noexcept { return static_cast<T*>(advance()); }
  /// Goes to the entry called @p name. @returns nullptr if there is none.
  T* find(const char* name) noexcept { return static_cast<T*>(look_up(name)); }
};

}  // namespace qm
