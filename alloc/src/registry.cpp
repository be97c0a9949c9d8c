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

bool same_name(const char* a, const char* b) noexcept {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

std::uint8_t hash_of(const char* name) noexcept {
  std::uint32_t hash = 0;
  while (*name != 0) hash = hash * 31 + static_cast<unsigned char>(*name++);
  return static_cast<std::uint8_t>(hash ^ hash >> 8);
}

bool is_name_character(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

}  // namespace

bool is_valid_name(const char* name) noexcept {
  if (name == nullptr) return false;
  std::size_t length = 0;
  while (name[length] != 0) {
    if (length == kNameBytes - 1 || !is_name_character(name[length])) return false;
    ++length;
  }
  return length != 0;
}

void Registered::copy_name(char (&to)[kNameBytes]) const noexcept {
  const char* from = name_;
  for (char& c : to) c = *from != 0 ? *from++ : '\0';
}

Status set_name(Registered& entry, const char* name) noexcept {
  if (!is_valid_name(name)) return Status::kInvalid;
  entry.name_ = name;
  entry.name_hash_ = hash_of(name);
  return Status::kOk;
}

Status registry_add(RegistryKind kind, Registered& entry) noexcept {
  const LockGuard guard(registry_lock);
  for (const Roll& roll : rolls) {
    for (Registered* other = roll.first; other != nullptr; other = other->next_) {
      if (other->name_hash_ == entry.name_hash_ && same_name(other->name_, entry.name_)) return Status::kDuplicate;
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

Registered* RegistryWalk::look_up(const char* name) noexcept {
  const LockGuard guard(registry_lock);
  current_ = nullptr;
  for (Registered* entry = roll_of(kind_).first; entry != nullptr; entry = entry->next_) {
    if (!entry->hidden_ && same_name(entry->name_, name)) current_ = entry;
  }
  return current_;
}

}  // namespace qm
