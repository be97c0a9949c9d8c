#include <qm/trace/context_table.hpp>

#include <new>

#include <qm/trace/characters.hpp>

namespace qm::trace {
namespace {

std::uint32_t hash_of(std::string_view label) noexcept {  // FNV-1a
  std::uint32_t hash = 2166136261U;
  for (const char c : label) hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619U;
  return hash != 0 ? hash : 1;
}

}  // namespace

void ContextTable::initialize(std::span<ContextSlot> storage) noexcept {
  for (ContextSlot& slot : storage) new (&slot) ContextSlot;
  slots_ = storage.data();
  mask_ = static_cast<std::uint32_t>(storage.size() - 1);
  used_.store(0, std::memory_order_relaxed);
  failures_.store(0, std::memory_order_relaxed);
}

std::uint32_t ContextTable::probe(std::uint32_t hash, std::string_view label) const noexcept {
  std::uint32_t at = hash & mask_;
  for (std::uint32_t i = 0; i <= mask_; ++i, at = (at + 1) & mask_) {
    if (at == 0) continue;
    // acquire: pairs with the release in intern(), so that the text is seen.
    const std::uint32_t found = slots_[at].hash.load(std::memory_order_acquire);
    if (found == 0 || (found == hash && text(at) == label)) return at;
  }
  return 0;
}

std::uint32_t ContextTable::intern(std::string_view label) noexcept {
  char cut[kContextChars];
  if (label.size() > kContextChars) {
    copy_characters(label, cut, kContextChars - 1);
    cut[kContextChars - 1] = '~';
    label = std::string_view(cut, kContextChars);
  }
  const std::uint32_t hash = hash_of(label);
  std::uint32_t at = probe(hash, label);
  if (at != 0 && slots_[at].hash.load(std::memory_order_relaxed) != 0) return at;
  const LockGuard hold(lock_);
  at = probe(hash, label);  // another hart may have stored it, or another label there
  if (at == 0) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  ContextSlot& slot = slots_[at];
  if (slot.hash.load(std::memory_order_relaxed) == 0) {
    copy_characters(label, slot.text, label.size());
    slot.length = static_cast<std::uint8_t>(label.size());
    slot.hash.store(hash, std::memory_order_release);
    used_.fetch_add(1, std::memory_order_relaxed);
  }
  return at;
}

std::string_view ContextTable::text(std::uint32_t id) const noexcept {
  if (id == 0) return "?";
  // acquire: pairs with the release in intern(): a number from elsewhere may name a slot that is being filled.
  if (slots_[id].hash.load(std::memory_order_acquire) == 0) return {};
  return {slots_[id].text, slots_[id].length};
}

}  // namespace qm::trace
