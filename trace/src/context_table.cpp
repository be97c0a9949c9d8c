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

void ContextTable::initialize(std::span<Part> directory, unsigned slots, void* first) noexcept {
  for (Part& part : directory) new (&part) Part(nullptr);
  directory_ = directory.data();
  slots_ = slots;
  used_.store(0, std::memory_order_relaxed);
  failures_.store(0, std::memory_order_relaxed);
  add_part(0, first);
}

inline std::atomic<std::uint16_t>& ContextTable::head(std::uint32_t hash) const noexcept {
  static_assert(kLists * sizeof(std::uint16_t) <= sizeof(ContextSlot::text) - 1);
  auto* heads = reinterpret_cast<std::atomic<std::uint16_t>*>(&at(0));
  return heads[sizeof(ContextSlot) / sizeof(std::uint16_t) - kLists + (hash ^ hash >> 16) % kLists];
}

std::uint32_t ContextTable::find(std::uint32_t hash, std::string_view label) const noexcept {
  // acquire: pairs with the release in intern(): the text is visible; also for at().
  std::uint32_t id = head(hash).load(std::memory_order_acquire);
  for (; id != 0; id = at(id).next.load(std::memory_order_relaxed)) {
    const ContextSlot& slot = at(id);
    if (slot.hash == hash && std::string_view(slot.text, slot.length) == label) break;
  }
  return id;
}

std::uint32_t ContextTable::intern(std::string_view label) noexcept {
  char cut[kContextChars];
  if (label.size() > kContextChars) {
    copy_characters(label, cut, kContextChars - 1);
    cut[kContextChars - 1] = '~';
    label = std::string_view(cut, kContextChars);
  }
  const std::uint32_t hash = hash_of(label);
  if (const std::uint32_t id = find(hash, label); id != 0) return id;
  const LockGuard hold(lock_);
  if (const std::uint32_t id = find(hash, label); id != 0) return id;  // another hart has stored it
  const unsigned part = next_part();
  if (part == parts()) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  if (!has_part(part)) return 0;
  const std::uint32_t id = used_.load(std::memory_order_relaxed) + 1;
  auto* slot = new (&at(id)) ContextSlot;
  copy_characters(label, slot->text, label.size());
  slot->hash = hash;
  slot->length = static_cast<std::uint8_t>(label.size());
  std::atomic<std::uint16_t>& first = head(hash);
  slot->next.store(first.load(std::memory_order_relaxed), std::memory_order_relaxed);
  first.store(static_cast<std::uint16_t>(id), std::memory_order_release);
  // release: pairs with the acquire in text().
  used_.store(id, std::memory_order_release);
  return id;
}

std::string_view ContextTable::text(std::uint32_t id) const noexcept {
  if (id == 0) return "?";
  // acquire: pairs with the release in intern(): a number from an untrusted source may name a slot that has no label
  // yet.
  if (id > used_.load(std::memory_order_acquire)) return {};
  return {at(id).text, at(id).length};
}

}  // namespace qm::trace
