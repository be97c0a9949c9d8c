#include <qm/registry.hpp>

#include <cstring>

#include <qm/lock.hpp>

namespace qm {
namespace {

constinit Lock registry_lock;
// Two objects and no array: GCC 12 loses the addresses in a constinit array of lists.
constinit List<Registered> arenas;
constinit List<Registered> caches;

// Heads of the walks under way; a walk is few and short-lived, so a singly linked list does.
constinit RegistryWalk* walks = nullptr;

bool same_name(const char* a, const char* b) noexcept { return std::memcmp(a, b, kNameBytes) == 0; }

List<Registered>& list_of(RegistryKind kind) noexcept { return kind == RegistryKind::kArena ? arenas : caches; }

bool is_name_character(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
}

bool pad_name(char (&padded)[kNameBytes], const char* name) noexcept {
  if (!is_valid_name(name)) return false;
  bool ended = false;
  for (char& c : padded) {
    ended = ended || *name == 0;
    c = ended ? '\0' : *name++;
  }
  return true;
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

Status set_name(Registered& entry, const char* name) noexcept {
  return pad_name(entry.name_, name) ? Status::kOk : Status::kInvalid;
}

Status registry_add(RegistryKind kind, Registered& entry) noexcept {
  const LockGuard guard(registry_lock);
  for (const List<Registered>* list : {&arenas, &caches}) {
    for (Registered* other = list->front(); other != nullptr; other = list->next(other)) {
      if (same_name(other->name(), entry.name())) return Status::kDuplicate;
    }
  }
  entry.hidden_ = false;
  list_of(kind).push_back(&entry);
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
  const std::uint64_t patience = hal::Port::tick_rate() / 1000 * kCursorPatienceMs;
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

void registry_remove(Registered& entry) noexcept {
  const LockGuard guard(registry_lock);
  List<Registered>::remove(&entry);
}

void registry_reset() noexcept {
  const LockGuard guard(registry_lock);
  arenas.reset();
  caches.reset();
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
  List<Registered>& list = list_of(kind_);
  do {
    current_ = current_ == nullptr ? list.front() : list.next(current_);
  } while (current_ != nullptr && current_->hidden_);
  return current_;
}

Registered* RegistryWalk::look_up(const char* name) noexcept {
  alignas(std::uint64_t) char padded[kNameBytes];
  const bool valid = pad_name(padded, name);
  const LockGuard guard(registry_lock);
  current_ = nullptr;
  List<Registered>& list = list_of(kind_);
  for (Registered* entry = list.front(); entry != nullptr; entry = list.next(entry)) {
    if (valid && !entry->hidden_ && same_name(entry->name(), padded)) current_ = entry;
  }
  return current_;
}

}  // namespace qm
