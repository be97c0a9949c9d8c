#include <qm/registry.hpp>

#include <qm/lock.hpp>

namespace qm {
namespace {

constinit Lock registry_lock;
struct Roll {
  Registered* first = nullptr;
  Registered* last = nullptr;
};
constinit Roll rolls[2];

// Heads of the walks under way; a walk is few and short-lived, so a singly linked list does.
constinit RegistryWalk* walks = nullptr;

Roll& roll_of(RegistryKind kind) noexcept { return rolls[static_cast<unsigned>(kind)]; }

bool is_name_character(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

/// A hash of @p name, a byte; -1 for what is no name.
int hash_of(const char* name) noexcept {
  if (name == nullptr || *name == 0) return -1;
  std::uint32_t hash = 0;
  for (const char* const most = name + kNameBytes - 1; *name != 0; ++name) {
    if (name == most || !is_name_character(*name)) return -1;
    hash = hash * 31 + static_cast<unsigned char>(*name);
  }
  return static_cast<std::uint8_t>(hash ^ hash >> 8);
}

}  // namespace

bool is_valid_name(const char* name) noexcept { return hash_of(name) >= 0; }

bool Registered::is_called(const char* name) const noexcept {
  const char* own = name_;
  while (*own != 0 && *own == *name) ++own, ++name;
  return *own == *name;
}

Status set_name(Registered& entry, const char* name) noexcept {
  const int hash = hash_of(name);
  if (hash < 0) return Status::kInvalid;
  entry.name_ = name;
  entry.name_hash_ = static_cast<std::uint8_t>(hash);
  return Status::kOk;
}

Status registry_add(RegistryKind kind, Registered& entry) noexcept {
  const LockGuard guard(registry_lock);
  for (const Roll& roll : rolls) {
    for (Registered* other = roll.first; other != nullptr; other = other->next_) {
      if (other->name_hash_ == entry.name_hash_ && other->is_called(entry.name_)) return Status::kDuplicate;
    }
  }
  Roll& roll = roll_of(kind);
  entry.listed_ = true;
  entry.hidden_ = false;
  entry.next_ = nullptr;
  (roll.last != nullptr ? roll.last->next_ : roll.first) = &entry;
  roll.last = &entry;
  return Status::kOk;
}

bool registry_hide_step(Registered& entry) noexcept {
  const LockGuard guard(registry_lock);
  entry.hidden_ = true;
  for (const RegistryWalk* walk = walks; walk != nullptr; walk = walk->next_walk_) {
    if (walk->current_ == &entry) return false;
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
  const LockGuard guard(registry_lock);
  Roll& roll = roll_of(kind);
  Registered* before = nullptr;
  for (Registered* one = roll.first; one != &entry; one = one->next_) before = one;
  (before != nullptr ? before->next_ : roll.first) = entry.next_;
  if (roll.last == &entry) roll.last = before;
  entry.listed_ = false;
}

void registry_reset() noexcept {
  const LockGuard guard(registry_lock);
  for (Roll& roll : rolls) roll = {};
}

RegistryWalk::RegistryWalk(RegistryKind kind) noexcept : kind_(kind) {
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

void RegistryWalk::stand_with(const RegistryWalk& other) noexcept {
  const LockGuard guard(registry_lock);
  current_ = other.current_;
}

void RegistryWalk::leave() noexcept {
  const LockGuard guard(registry_lock);
  current_ = nullptr;
}

Registered* RegistryWalk::advance() noexcept {
  const LockGuard guard(registry_lock);
  do {
    current_ = current_ == nullptr ? roll_of(kind_).first : current_->next_;
  } while (current_ != nullptr && current_->hidden_);
  return current_;
}

}  // namespace qm
