#pragma once
/// The names of all arenas and caches, and walks over them.
///
/// A name is unique over arenas and caches together, so a console command never has to ask which one is meant. One lock
/// guards both lists. A RegistryCursor pins the entry it stands on: the entry cannot be destroyed while a report shows
/// it.
///
/// The lock is held for a few entries at a time: adding and removing search the lists in many holds, and the last hold
/// does the change. A search pins no entry, so it delays no destroy; the removal of the entry that a search stands on
/// moves the search back. New entries are appended, so a search that reaches the ends of both lists has met every name.
///
/// Invariants
/// - G1 An entry is in exactly one list from registry_add() to registry_remove(), and its name is in no other entry.
/// - G2 A hidden entry keeps its name, and no cursor stands on it or comes to it.
/// - G3 The entry that a walk stands on is listed; the walk has passed all entries before it.

#include <cstddef>
#include <cstdint>

#include <qm/configuration.h>
#include <qm/detail/list.hpp>
#include <qm/status.hpp>

namespace qm {

/// A name's characters and its final zero.
inline constexpr std::size_t kNameBytes = 32;

enum class RegistryKind : std::uint8_t { kArena, kCache };

/// The kind of a name. Names of the heap's size classes begin with kClassPrefix, and no two are equal: while no other
/// entry's name begins with it, such an entry is added without a search.
enum class NameOf : std::uint8_t { kAny, kSizeClass };
inline constexpr char kClassPrefix[] = "kmalloc_";

/// An object with a name: the base of Arena and Cache.
class Registered {
 public:
  /// The name it was created with. An empty string until then.
  [[nodiscard]] const char* name() const noexcept { return name_; }
  [[nodiscard]] bool is_called(const char* name) const noexcept;
  /// Copies the name, and zeros the rest of @p to.
  void copy_name(char (&to)[kNameBytes]) const noexcept;

 protected:
  constexpr Registered() noexcept = default;
  ~Registered() = default;
  /// Whether the entry is in its list.
  [[nodiscard]] bool listed() const noexcept { return listed_; }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

 private:
  friend Status set_name(Registered&, const char*, NameOf) noexcept;
  friend Status registry_add(RegistryKind, Registered&, NameOf) noexcept;
  friend void registry_remove(RegistryKind, Registered&) noexcept;
  friend bool registry_has(RegistryKind, const Registered&) noexcept;
  friend bool registry_hide_step(Registered&) noexcept;
  friend void registry_show(Registered&) noexcept;
  friend class RegistryWalk;
  void append(RegistryKind kind) noexcept;
  const char* name_ = "";
  Registered* next_ = nullptr;  ///< the next entry of its kind, in the order of creation
  std::uint8_t name_hash_ = 0;  ///< names with different hashes differ
  bool listed_ = false;
  bool hidden_ = false;
};

// The functions that add and remove entries are [[gnu::cold]]: they run only when a cache or arena is created or
// destroyed, and are compiled for size (1.5 KB of text less).

/// Most entries that a search passes in one hold of the lock.
inline constexpr unsigned kRegistryHold = 32;

/// Whether @p name is 1 to 31 characters of A-Z a-z 0-9 _ . -
[[nodiscard]] bool is_valid_name(const char* name) noexcept;

/// Sets the name of an entry that is in no list yet; the name is not copied.
/// @returns kInvalid unless is_valid_name(), which the heap's names are.
Status set_name(Registered& entry, const char* name, NameOf of = NameOf::kAny) noexcept;

/// Adds @p entry, named by set_name(), at the end of its list. If several entries with one name are added at once, one
/// succeeds.
/// @returns kDuplicate if an arena or a cache has the name, even a hidden one.
/// Complexity: a few instructions a name; the lock is held for kRegistryHold names at a time. Constant for kSizeClass.
[[gnu::cold]] Status registry_add(RegistryKind kind, Registered& entry, NameOf of = NameOf::kAny) noexcept;

/// Whether @p entry is in the list of its kind, hidden or not. Does not read @p entry, which may be a destroyed one.
/// Complexity: as registry_remove().
[[gnu::cold]] bool registry_has(RegistryKind kind, const Registered& entry) noexcept;

/// How long a destroy waits for cursors to move on, in milliseconds. A reclaim stands on a cache while it asks the
/// harts for their magazines; a report on a slow line may stand longer.
inline constexpr std::uint32_t kCursorPatienceMs = 1000;

/// Hides @p entry from walks, as the first step of a destroy that may still be refused: no cursor comes to it any more.
/// Waits for cursors that stand on it, if the caller may wait.
/// @returns kBusy, and the entry is visible again, if a cursor still stands on it.
[[gnu::cold]] Status registry_hide(Registered& entry) noexcept;

/// One step of registry_hide(). @returns whether no cursor stands on the entry, which is hidden in any case.
[[gnu::cold]] bool registry_hide_step(Registered& entry) noexcept;

/// Makes a hidden entry visible again.
[[gnu::cold]] void registry_show(Registered& entry) noexcept;

/// Removes a hidden entry; its name may be used again.
/// Complexity: a few instructions an entry; the lock is held for kRegistryHold entries at a time.
[[gnu::cold]] void registry_remove(RegistryKind kind, Registered& entry) noexcept;

/// Empties the lists without touching the entries, for a test that sets up the allocator again.
[[gnu::cold]] void registry_reset() noexcept;

/// The part of RegistryCursor that does not depend on the type.
class RegistryWalk {
 public:
  explicit RegistryWalk(RegistryKind kind) noexcept : RegistryWalk(kind, Pins::kYes) {}
  ~RegistryWalk();
  RegistryWalk(const RegistryWalk&) = delete;
  RegistryWalk& operator=(const RegistryWalk&) = delete;

  /// Stands on the entry on which @p other stands, so that the entry stays when @p other moves on.
  void stand_with(const RegistryWalk& other) noexcept { stand_at(other.current_); }
  /// Whether next() leads to the end of the list or to readable memory, as @p is_memory says; not so if the list was
  /// overwritten.
  [[nodiscard]] bool leads_to(bool (*is_memory)(std::uintptr_t start, std::size_t bytes) noexcept) noexcept;
  /// Leaves the present entry; next() begins at the first one.
  void leave() noexcept { stand_at(nullptr); }

 protected:
  Registered* advance() noexcept;
  Registered* look_up(const char* name) noexcept;

 private:
  friend Status registry_add(RegistryKind, Registered&, NameOf) noexcept;
  friend void registry_remove(RegistryKind, Registered&) noexcept;
  friend bool registry_has(RegistryKind, const Registered&) noexcept;
  friend bool registry_hide_step(Registered&) noexcept;
  /// Whether the walk pins the entry it stands on. A search is moved back instead.
  enum class Pins : std::uint8_t { kYes, kNo };
  RegistryWalk(RegistryKind kind, Pins pins) noexcept;
  void stand_at(Registered* entry) noexcept;
  /// The pointer to the entry after the present one. With the lock held.
  [[nodiscard]] Registered*& link() noexcept;
  RegistryWalk* next_walk_ = nullptr;
  Registered* current_ = nullptr;
  RegistryKind kind_;
  Pins pins_;
};

/// Walks over all arenas or all caches in the order of their creation: `RegistryCursor<Arena> arenas; while (Arena* a =
/// arenas.next()) ...`. The lock is held only inside next() and find(); the entry returned last cannot be destroyed.
template <class T>
class RegistryCursor : public RegistryWalk {
 public:
  RegistryCursor() noexcept : RegistryWalk(T::kRegistryKind) {}
  /// @returns the entry after the last returned one, at first the first entry; nullptr at the end, after which it
  ///          starts again.
  T* next() noexcept { return static_cast<T*>(advance()); }
  /// Goes to the entry called @p name. @returns nullptr if there is none.
  T* find(const char* name) noexcept { return static_cast<T*>(look_up(name)); }
};

}  // namespace qm
