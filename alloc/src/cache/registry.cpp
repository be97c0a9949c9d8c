#include <qm/registry.hpp>

#include <qm/detail/lock.hpp>

namespace qm {
namespace {

constinit Lock registry_lock;
constinit Registered* firsts[2] = {};
constinit Registered* lasts[2] = {};
constinit bool is_prefix_used = false;  // by an entry that is not a size class

// The walks in progress. They are few and short-lived, so a singly linked list is enough.
constinit RegistryWalk* walks = nullptr;

bool is_name_character(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

bool has_class_prefix(const char* name) noexcept {
  for (const char* c = kClassPrefix; *c != 0; ++c) {
    if (*name++ != *c) return false;
  }
  return true;
}

/// The hash of each name that begins with kClassPrefix, and perhaps of other names.
constexpr std::uint8_t kClassHash = 0;

/// A hash of @p name, one byte; -1 if @p name is not a valid name.
int hash_of(const char* name) noexcept {
  if (name == nullptr || *name == 0) return -1;
  const bool is_of_class = has_class_prefix(name);
  std::uint32_t hash = 0;
  for (const char* const most = name + kNameBytes - 1; *name != 0; ++name) {
    if (name == most || !is_name_character(*name)) return -1;
    hash = hash * 31 + static_cast<unsigned char>(*name);
  }
  return is_of_class ? kClassHash : static_cast<std::uint8_t>(hash ^ hash >> 8);
}

}  // namespace

inline Registered*& RegistryWalk::link() noexcept {
  return current_ == nullptr ? firsts[static_cast<unsigned>(kind_)] : current_->next_;
}

/// Makes this entry the last of its list. Lock held.
inline void Registered::append(RegistryKind kind) noexcept {
  const auto list = static_cast<unsigned>(kind);
  Registered* const last = lasts[list];
  (last != nullptr ? last->next_ : firsts[list]) = this;
  lasts[list] = this;
  next_ = nullptr;
  listed_ = true;
  hidden_ = false;
}

bool is_valid_name(const char* name) noexcept { return hash_of(name) >= 0; }

bool Registered::is_called(const char* name) const noexcept {
  const char* own = name_;
  while (*own != 0 && *own == *name) ++own, ++name;
  return *own == *name;
}

Status set_name(Registered& entry, const char* name, NameOf of) noexcept {
  const int hash = of == NameOf::kSizeClass ? kClassHash : hash_of(name);
  if (hash < 0) return Status::kInvalid;
  entry.name_ = name;
  entry.name_hash_ = static_cast<std::uint8_t>(hash);
  return Status::kOk;
}

Status registry_add(RegistryKind kind, Registered& entry, NameOf of) noexcept {
  if (of == NameOf::kSizeClass) {
    const LockGuard guard(registry_lock);
    if (!is_prefix_used) {
      entry.append(kind);
      return Status::kOk;
    }
  }
  using Pins = RegistryWalk::Pins;
  const std::uint8_t hash = entry.name_hash_;
  RegistryWalk searches[] = {{RegistryKind::kArena, Pins::kNo}, {RegistryKind::kCache, Pins::kNo}};
  for (;;) {
    const LockGuard guard(registry_lock);
    unsigned left = kRegistryHold;
    for (RegistryWalk& search : searches) {
      for (Registered** link = &search.link(); left != 0 && *link != nullptr; link = &search.current_->next_) {
        search.current_ = *link;
        --left;
        if (search.current_->name_hash_ != hash) continue;
        if (search.current_->is_called(entry.name_)) return Status::kDuplicate;
        left = 0;  // comparing names takes as long as passing many entries
      }
    }
    if (left == 0) continue;
    // Both searches are at the end, and no entry is added before the lock is released.
    if (of == NameOf::kAny && hash == kClassHash) is_prefix_used = true;
    entry.append(kind);
    return Status::kOk;
  }
}

bool registry_has(RegistryKind kind, const Registered& entry) noexcept {
  RegistryWalk search(kind, RegistryWalk::Pins::kNo);
  for (;;) {
    const LockGuard guard(registry_lock);
    for (unsigned left = kRegistryHold; left != 0; --left) {
      if (search.link() == nullptr) return false;
      search.current_ = search.link();
      if (search.current_ == &entry) return true;
    }
  }
}

bool registry_hide_step(Registered& entry) noexcept {
  const LockGuard guard(registry_lock);
  entry.hidden_ = true;
  for (const RegistryWalk* walk = walks; walk != nullptr; walk = walk->next_walk_) {
    if (walk->current_ == &entry && walk->pins_ == RegistryWalk::Pins::kYes) return false;
  }
  return true;
}

Status registry_hide(Registered& entry) noexcept {
  const std::uint64_t begun = hal::Port::ticks();
  const std::uint64_t patience = hal::ticks_of(kCursorPatienceMs);
  while (!registry_hide_step(entry)) {
    if (!hal::may_wait() || hal::Port::ticks() - begun > patience) {
      registry_show(entry);
      return Status::kBusy;
    }
    hal::Port::relax();
  }
  return Status::kOk;
}

void registry_show(Registered& entry) noexcept {
  const LockGuard guard(registry_lock);
  entry.hidden_ = false;
}

void registry_remove(RegistryKind kind, Registered& entry) noexcept {
  RegistryWalk search(kind, RegistryWalk::Pins::kNo);
  for (;;) {
    const LockGuard guard(registry_lock);
    Registered** link = &search.link();
    unsigned left = kRegistryHold;
    for (; left != 0 && *link != &entry; --left, link = &search.current_->next_) search.current_ = *link;
    if (left == 0) continue;
    *link = entry.next_;
    Registered*& last = lasts[static_cast<unsigned>(kind)];
    if (last == &entry) last = search.current_;
    for (RegistryWalk* walk = walks; walk != nullptr; walk = walk->next_walk_) {
      if (walk->current_ == &entry) walk->current_ = search.current_;
    }
    entry.listed_ = false;
    return;
  }
}

bool RegistryWalk::leads_to(bool (*is_memory)(std::uintptr_t, std::size_t) noexcept) noexcept {
  const LockGuard guard(registry_lock);
  const Registered* const next = link();
  return next == nullptr || (is_memory(reinterpret_cast<std::uintptr_t>(next), sizeof *next) && next->listed_);
}

void registry_reset() noexcept {
  const LockGuard guard(registry_lock);
  for (Registered*& first : firsts) first = nullptr;
  for (Registered*& last : lasts) last = nullptr;
  is_prefix_used = false;
}

RegistryWalk::RegistryWalk(RegistryKind kind, Pins pins) noexcept : kind_(kind), pins_(pins) {
  const LockGuard guard(registry_lock);
  next_walk_ = walks;
  walks = this;
}

RegistryWalk::~RegistryWalk() {
  const LockGuard guard(registry_lock);
  RegistryWalk** link = &walks;
  while (*link != this) link = &(*link)->next_walk_;
  *link = next_walk_;
}

void RegistryWalk::stand_at(Registered* entry) noexcept {
  const LockGuard guard(registry_lock);
  current_ = entry;
}

Registered* RegistryWalk::advance() noexcept {
  const LockGuard guard(registry_lock);
  do {
    current_ = link();
  } while (current_ != nullptr && current_->hidden_);
  return current_;
}

}  // namespace qm
