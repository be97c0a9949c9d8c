/// The leak scan: which objects are live.

#include <new>

#include <qm/arena.hpp>
#include <qm/detail/bits.hpp>
#include <qm/cache.hpp>
#include <qm/exhaustion.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/detail/slab_pass.hpp>
#include <qm/system.hpp>

#include "segments/blocks.hpp"
#include "scan/scanner.hpp"

namespace qm::scan {
namespace {

/// Most caches that can exist at once, and most arenas: a list that is longer is circular.
constexpr unsigned kMostEntries = 70000;

bool is_aligned(std::uintptr_t address) noexcept { return address % sizeof(void*) == 0; }

bool begins_with(const char* name, const char* prefix) noexcept {
  while (*prefix != 0 && *name == *prefix) ++name, ++prefix;
  return *prefix == 0;
}

/// The number of arenas under @p arena: its source, the source of that, and so on.
unsigned depth_of(const Arena& arena) noexcept {
  unsigned depth = 0;
  for (const Arena* under = arena.source(); under != nullptr; under = under->source()) ++depth;
  return depth;
}

}  // namespace

template <class T, class Action>
void Scanner::for_each(const Action& action) noexcept {
  RegistryCursor<T> entries;
  for (unsigned left = kMostEntries; left != 0; --left) {
    if (!entries.leads_to(is_memory)) break;
    T* const entry = entries.next();
    if (entry == nullptr) return;
    if (entry->kind() != T::kRegistryKind) break;
    action(*entry);
  }
  damage("the registry");
}

// ---- caches ---------------------------------------------------------------------------------------------------------

bool Scanner::is_own(const Cache& cache) noexcept {
  if ((cache.flags() & cache_flags::kNoMagazines) == 0) return false;
  return !cache.traceable() || cache.is_called("kmem_cache");
}

bool Scanner::is_of_magazines(const Cache& cache) noexcept {
  return is_own(cache) && begins_with(cache.name(), "kmem_magazine");
}

bool Scanner::is_classified(const Cache& cache, const Slab& slab) const noexcept {
  return &cache.source().root() == &base_arena() && ((slab.start | cache.slabs().stride()) % Page::kGranule) == 0;
}

template <class Action>
void Scanner::for_each_slab_in(Cache& cache, Slab* first, const Action& action) noexcept {
  const SlabLayer& layer = cache.slabs();
  std::size_t left = layer.slabs_;
  const ListNode* node = first;
  if (first == nullptr) return;
  do {
    const auto address = reinterpret_cast<std::uintptr_t>(node);
    if (left-- == 0 || !is_aligned(address) || !is_memory(address, sizeof(Slab))) return damage(cache.name());
    auto* const slab = static_cast<Slab*>(const_cast<ListNode*>(node));
    const bool is_sound = slab->layer == &layer && slab->objects != 0 && slab->objects <= layer.objects_ &&
                          (layer.no_touch_ || address + sizeof(Slab) - slab->start <= layer.slab_bytes_);
    if (!is_sound) return damage(cache.name());
    action(*slab, address);
    node = node->next;
  } while (node != first);
}

namespace {

/// A slab's header behind its bitmap, as SlabLayer::bits() reads it.
struct SlabCopy {
  static constexpr std::size_t kWords = SlabLayer::kUsualSlabBytes / kWordBits;
  static_assert(sizeof(Slab) % sizeof(unsigned long) == 0 && alignof(Slab) <= alignof(unsigned long) * kWords);
  alignas(Slab) unsigned long words[kWords + sizeof(Slab) / sizeof(unsigned long)];
  Slab& slab = *new (words + kWords) Slab;
  std::uintptr_t address = 0;  ///< of the slab's header
};

}  // namespace

/// Calls @p action with a copy of each slab, made with the layer's lock held, and with the address of the header.
template <class Action>
void Scanner::for_each_copy(Cache& cache, const Action& action) noexcept {
  SlabCopy copy;
  SlabPass pass(cache.slabs());
  static constexpr auto kCopy = [](SlabLayer& layer, Slab& slab, void* argument) noexcept {
    auto& to = *static_cast<SlabCopy*>(argument);
    to.slab.start = slab.start;
    to.slab.objects = slab.objects;
    to.slab.in_use = slab.in_use;
    to.address = reinterpret_cast<std::uintptr_t>(&slab);
    for (unsigned word = 0; word < layer.words() && word < SlabCopy::kWords; ++word)
      SlabLayer::bits(to.slab, word) = SlabLayer::bits(slab, word);
  };
  while (pass.step(kCopy, &copy)) action(copy.slab, copy.address);
  if (!pass.complete()) is_partial_ = true;
}

template <class Action>
void Scanner::for_each_slab(Cache& cache, const Action& action) noexcept {
  if (is_sliced_) return for_each_copy(cache, action);
  for_each_slab_in(cache, cache.slabs().usable_.front(), action);
  for_each_slab_in(cache, cache.slabs().full_.front(), action);
}

/// Calls @p action with a magazine and the end of its objects, if both are plausible.
template <class Action>
void Scanner::show_magazine(Cache& cache, Magazine* magazine, void** end, const Action& action) noexcept {
  const bool is_sound = is_magazine(magazine) && magazine->capacity <= kMaxRounds && end >= magazine->slots() &&
                        end <= magazine->slots() + magazine->capacity;
  if (!is_sound) return damage(cache.name());
  action(*magazine, end);
}

bool Scanner::is_magazine(const Magazine* magazine) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(magazine);
  return is_aligned(address) && is_memory(address, sizeof *magazine);
}

template <class Action>
void Scanner::show_list(Cache& cache, Magazine* first, const Action& action) noexcept {
  unsigned left = UINT16_MAX;
  for (Magazine* one = first; one != nullptr; one = one->next) {
    if (left-- == 0 || !is_magazine(one)) return damage(cache.name());
    show_magazine(cache, one, one->slots() + one->rounds, action);
  }
}

/// A template, since a build without magazines has another class of depot.
template <class AnyDepot, class Action>
void Scanner::show_depot(Cache& cache, AnyDepot& depot, const Action& action) noexcept {
  if constexpr (kMagazines) {
    for (const auto& first : depot.first_) show_list(cache, first.load(std::memory_order_relaxed), action);
  }
}

/// Shows the magazines of the harts, of the depot and of the reserve.
template <class Action>
void Scanner::for_each_magazine(Cache& cache, const Action& action) noexcept {
  if constexpr (!kMagazines) return;
  const hal::HartMask harts = cache.magazine_harts();
  for (unsigned hart = 0; hart < hart_count(); ++hart) {
    if ((harts >> hart & 1) == 0) continue;
    const HartCache& hart_cache = cache.hart_cache(hart);
    void** real = hart_cache.top.load(std::memory_order_relaxed);
    if (real == closed_address()) real = hart_cache.saved_top.load(std::memory_order_relaxed);
    Magazine* const loaded = hart_cache.loaded.load(std::memory_order_relaxed);
    if (loaded != nullptr) show_magazine(cache, loaded, real, action);
    if (hart_cache.prev == nullptr) continue;
    if (!is_magazine(hart_cache.prev)) return damage(cache.name());
    show_magazine(cache, hart_cache.prev, hart_cache.prev->slots() + hart_cache.prev->rounds, action);
  }
  show_depot(cache, cache.depot_, action);
  if (CacheExtra* const extra = cache.extra(); extra != nullptr) {
    show_list(cache, extra->reserve.stocked_, action);
    show_list(cache, extra->reserve.spare_, action);
  }
}

template <class Action>
void Scanner::for_each_idle(Cache& cache, const Action& action) noexcept {
  for_each_magazine(cache, [&](Magazine& magazine, void** end) noexcept {
    for (void** slot = magazine.slots(); slot != end; ++slot) action(reinterpret_cast<std::uintptr_t>(*slot));
  });
  Quarantine* const quarantine = cache.quarantine();
  if (quarantine == nullptr || quarantine->held() == 0) return;
  const auto table = reinterpret_cast<std::uintptr_t>(quarantine->entries_);
  const bool is_sound = is_aligned(table) && quarantine->held() <= quarantine->table_ &&
                        quarantine->first_ < quarantine->table_ && is_memory(table, quarantine->table_bytes());
  if (!is_sound) return damage(cache.name());
  for (std::uint32_t position = 0; position < quarantine->held(); ++position)
    action(reinterpret_cast<std::uintptr_t>(quarantine->at(position).object));
}

/// As for_each_idle() while magazines change hands: the objects in the loaded magazines and in quarantine.
template <class Action>
void Scanner::for_each_at_hand(Cache& cache, const Action& action) noexcept {
  for (unsigned hart = 0; kMagazines && hart < hart_count(); ++hart) {
    if ((cache.magazine_harts() >> hart & 1) == 0) continue;
    const HartCache& hart_cache = cache.hart_cache(hart);
    void** end = hart_cache.top.load(std::memory_order_relaxed);
    if (end == closed_address()) end = hart_cache.saved_top.load(std::memory_order_relaxed);
    Magazine* const loaded = hart_cache.loaded.load(std::memory_order_relaxed);
    if (!is_magazine(loaded)) continue;
    hold(reinterpret_cast<std::uintptr_t>(loaded));
    if (end > loaded->slots() + kMaxRounds) continue;  // of another magazine
    for (void** slot = loaded->slots(); slot < end; ++slot) action(reinterpret_cast<std::uintptr_t>(glance(*slot)));
  }
  Quarantine* const quarantine = cache.quarantine();
  if (quarantine == nullptr) return;
  const auto show = [&](const Quarantine::Entry& entry) noexcept {
    action(reinterpret_cast<std::uintptr_t>(entry.object));
  };
  for (std::uint32_t position = 0; quarantine->inspect(position, show); ++position) {
  }
}

/// The same for the objects of all caches in magazines that are not loaded. The lists of the depots are not followed:
/// every magazine is an object of a cache, and its header tells how many objects are in it.
template <class Action>
void Scanner::for_each_stored(const Action& action) noexcept {
  for_each_object(&Page::live, [&](const Place& place) noexcept {
    if (place.page->kind != Page::Kind::kMagazines || Page::has(place.page->marks, place.bit)) return;
    const std::size_t bytes = map_.end_of(place) - place.start();
    if (bytes < sizeof(Magazine)) return;
    Magazine& magazine = *reinterpret_cast<Magazine*>(place.start());
    const std::size_t most = (bytes - sizeof(Magazine)) / sizeof(void*);
    const std::size_t rounds = glance(magazine.rounds);
    for (std::size_t at = 0; at < rounds && at < most; ++at)
      action(reinterpret_cast<std::uintptr_t>(glance(magazine.slots()[at])));
  });
}

/// Whether an object that is allocated from its slab is not in use. Complexity: O(objects in magazines and quarantine):
/// for objects that are not in the map.
bool Scanner::is_idle(Cache& cache, std::uintptr_t object) noexcept {
  bool found = false;
  const auto compare = [&](std::uintptr_t one) noexcept { found = found || one == object; };
  if (is_sliced_) {
    for_each_at_hand(cache, compare);
    for_each_stored(compare);
  } else {
    for_each_idle(cache, compare);
  }
  return found;
}

void Scanner::enter_slab(Cache& cache, Slab& slab, bool as_roots) noexcept {
  SlabLayer& layer = cache.slabs();
  const bool is_candidate = is_classified(cache, slab) && map_.covers(slab.start);
  if (is_candidate == as_roots) return;
  if (!is_candidate && layer.no_touch_) return;  // its objects may be numbers
  Page::Kind kind = Page::Kind::kPlain;
  if (is_of_magazines(cache)) kind = Page::Kind::kMagazines;
  if ((cache.flags() & cache_flags::kNoPointers) != 0 && layer.slab_bytes_ >= Page::kBytes)
    kind = Page::Kind::kNoPointers;
  const bool may_hold_others = (cache.flags() & cache_flags::kQuantumCache) != 0;
  const std::size_t bytes = layer.object_size();
  std::uintptr_t object = slab.start;
  unsigned out = 0;
  for (unsigned index = 0; index < slab.objects; ++index, object += layer.stride_) {
    if ((SlabLayer::bits(slab, index / kWordBits) >> index % kWordBits & 1) != 0) continue;
    ++out;
    if (as_roots) {
      if (is_idle(cache, object)) continue;
      ++summary.not_judged;
      range(object, object + bytes);
    } else if (!may_hold_others || !holds_others(cache.source(), object)) {
      map_.enter(object, object + bytes, &cache, kind);
    }
  }
  if (out != slab.in_use) damage(cache.name());
}

// ---- arenas ---------------------------------------------------------------------------------------------------------

/// Whether the segment at @p start is a slab or a span of a cache or another arena.
bool Scanner::holds_others(const Arena& arena, std::uintptr_t start) noexcept {
  const unsigned depth = depth_of(arena);
  if (start % Page::kBytes == 0 && depth <= ObjectMap::kMostDepth) return map_.is_container(start, depth);
  if (!arena.has_importers()) return false;
  bool found = false;
  for_each<Cache>([&](Cache& cache) noexcept {
    ObjectPlace place;
    found = found || (&cache.source() == &arena && cache.locate(start, place));
  });
  for_each<Arena>([&](Arena& above) noexcept {
    if (found || above.source() != &arena) return;
    if (is_sliced_) {
      Segment segment;
      found = above.locate(start, segment) == Status::kOk;
      return;
    }
    const BoundaryTag* const span = above.spans_.floor(start);
    found = span != nullptr && start < span->end();
  });
  return found;
}

template <class Action>
void Scanner::for_each_segment(Arena& arena, const Action& action) noexcept {
  const BoundaryTag* before = &arena.ends_;
  for (const BoundaryTag* tag = before->next; tag != &arena.ends_; before = tag, tag = tag->next) {
    const auto address = reinterpret_cast<std::uintptr_t>(tag);
    if (!is_aligned(address) || !is_memory(address, sizeof *tag) || tag->prev != before || tag->end() < tag->start)
      return damage(arena.name());
    action(*tag);
  }
}

template <class Action>
void Scanner::for_each_block(Arena& arena, const Action& action) noexcept {
  for_each_segment(arena, [&](const BoundaryTag& span) noexcept {
    if (!is_memory(span.start, span.size)) return damage(arena.name());
    const BlockHeader* block = Blocks::at(span.start + Blocks::kHeaderBytes);
    for (; block->bytes() != 0; block = block->next()) {
      if (!Blocks::is_kept(block) || block->end() >= span.end()) return damage(arena.name());
      if (!block->has(kFree)) action(*block);
    }
    if (!block->is_sound()) damage(arena.name());
  });
}

/// Calls @p action with each segment of an arena beside running harts.
template <class Action>
void Scanner::for_each_shown(Arena& arena, const Action& action) noexcept {
  ArenaWalk walk(arena);
  Segment segment;
  while (walk.next(segment)) {
    if (arena.blocks_ != nullptr && segment.kind == TagKind::kAllocated && !walk.is_sound())
      return damage(arena.name());
    action(segment);
  }
}

void Scanner::enter_arena(Arena& arena, bool as_roots) noexcept {
  if (arena.no_trace_ && &arena != &base_arena()) return;  // an arena of the trace
  const bool is_of_base = &arena.root() == &base_arena();
  const auto enter = [&](std::uintptr_t start, std::size_t bytes) noexcept {
    const bool is_candidate =
        is_of_base && &arena != &base_arena() && start % Page::kGranule == 0 && map_.covers(start);
    if (is_candidate == as_roots) return;
    if (as_roots) return range(start, start + bytes);
    map_.enter(start, start + bytes, &arena, Page::Kind::kPlain);
  };
  const auto enter_segment = [&](const auto& one) noexcept {
    if (one.kind != TagKind::kAllocated || one.owner != SegmentOwner::kUser || !map_.covers(one.start)) return;
    if (!holds_others(arena, one.start)) enter(one.start, one.size);
  };
  if (arena.blocks_ != nullptr) {
    if (is_sliced_) {
      for_each_shown(arena, [&](const Segment& block) noexcept {
        if (block.kind == TagKind::kAllocated) enter(block.start, block.size);
      });
    } else {
      for_each_block(arena, [&](const BlockHeader& block) noexcept { enter(block.payload(), block.usable()); });
    }
    return;
  }
  if (!is_of_base) return;  // numbers, or memory within another object
  is_sliced_ ? for_each_shown(arena, enter_segment) : for_each_segment(arena, enter_segment);
}

MemoryRange Scanner::find_free() noexcept {
  MemoryRange largest{};
  for_each_segment(base_arena(), [&](const BoundaryTag& tag) noexcept {
    if (tag.kind == TagKind::kFree && tag.size > largest.size) largest = {tag.start, tag.size};
  });
  return largest;
}

// ---- all ------------------------------------------------------------------------------------------------------------

void Scanner::enter_containers() noexcept {
  for_each<Cache>([this](Cache& cache) noexcept {
    const unsigned depth = depth_of(cache.source());
    // A slab of a quantum cache is not a user's segment of its arena either, and is recognized by its owner.
    const bool is_known = (cache.flags() & cache_flags::kQuantumCache) != 0 || depth > ObjectMap::kMostDepth;
    if (is_known || &cache.source().root() != &base_arena()) return;
    for_each_slab(cache, [&](Slab& slab, std::uintptr_t address) noexcept {
      const SlabLayer& layer = cache.slabs();
      const std::uintptr_t start = layer.no_touch_ ? slab.start : address + sizeof(Slab) - layer.bytes_of(slab.objects);
      map_.enter_container(start, depth);
    });
  });
  for_each<Arena>([this](Arena& arena) noexcept {
    const unsigned depth = arena.source() != nullptr ? depth_of(*arena.source()) : ObjectMap::kMostDepth + 1;
    if (depth > ObjectMap::kMostDepth) return;
    const auto enter = [&](const auto& one) noexcept {
      if (one.kind == TagKind::kSpan) map_.enter_container(one.start, depth);
    };
    is_sliced_ ? for_each_shown(arena, enter) : for_each_segment(arena, enter);
  });
}

void Scanner::enter_objects() noexcept {
  for_each<Cache>([this](Cache& cache) noexcept {
    if (is_own(cache) && !is_of_magazines(cache)) return;
    for_each_slab(cache, [&](Slab& slab, std::uintptr_t) noexcept { enter_slab(cache, slab, false); });
  });
  for_each<Arena>([this](Arena& arena) noexcept { enter_arena(arena, false); });
}

/// An idle object is not live.
void Scanner::leave_out(std::uintptr_t idle) noexcept {
  const Place place = map_.find(idle);
  if (place.page != nullptr && place.start() == idle) Page::clear(place.page->live, place.bit);
}

void Scanner::leave_out_idle() noexcept {
  for_each<Cache>([this](Cache& cache) noexcept {
    // The words of these are not read.
    if (const CacheExtra* const extra = cache.extra(); extra != nullptr) hold(reinterpret_cast<std::uintptr_t>(extra));
    if (const Quarantine* const own = cache.quarantine(); own != nullptr) hold(reinterpret_cast<std::uintptr_t>(own));
    if (is_sliced_) return;
    for_each_magazine(
        cache, [this](Magazine& magazine, void**) noexcept { hold(reinterpret_cast<std::uintptr_t>(&magazine)); });
    for_each_idle(cache, [this](std::uintptr_t object) noexcept { leave_out(object); });
  });
  if (is_sliced_) leave_out_beside_running_harts();
}

void Scanner::leave_out_beside_running_harts() noexcept {
  const auto leave_out_one = [this](std::uintptr_t object) noexcept { leave_out(object); };
  for_each<Cache>([&](Cache& cache) noexcept { for_each_at_hand(cache, leave_out_one); });
  for_each_stored(leave_out_one);
}

/// What the allocator was told to keep: names, contexts, arenas in their users' storage; and the objects that the scan
/// takes as roots.
void Scanner::mark_held_by_allocator() noexcept {
  for_each<Cache>([this](Cache& cache) noexcept {
    look(reinterpret_cast<std::uintptr_t>(cache.name()));
    if (const CacheExtra* const extra = cache.extra(); extra != nullptr)
      look(reinterpret_cast<std::uintptr_t>(extra->context));
    if (is_own(cache)) return;
    for_each_slab(cache, [&](Slab& slab, std::uintptr_t) noexcept { enter_slab(cache, slab, true); });
  });
  for_each<Arena>([this](Arena& arena) noexcept {
    look(reinterpret_cast<std::uintptr_t>(&arena));
    look(reinterpret_cast<std::uintptr_t>(arena.name()));
    look(reinterpret_cast<std::uintptr_t>(arena.context_));
    enter_arena(arena, true);
  });
  look(reinterpret_cast<std::uintptr_t>(exhaustion::internal::first_in_line()));
}

void Scanner::finish() noexcept {
  count_live();
  const std::size_t words = summary.words;
  const std::size_t references = summary.references;
  find_heads();
  count_groups();
  summary.words = words;  // all later reads are of leaked objects
  summary.references = references;
}

Status Scanner::run(std::uintptr_t sp) noexcept {
  const std::uint64_t begun = hal::Port::ticks();
  enter_containers();
  if (summary.damaged == nullptr) enter_objects();
  if (summary.damaged == nullptr && map_.missing() == 0) leave_out_idle();
  const bool is_whole = summary.damaged == nullptr && map_.missing() == 0;
  Status status = Status::kOk;
  if (is_whole) {
    for (const qm_scan_root* root = first_root(); root != nullptr; root = root->next) {
      if (is_memory(reinterpret_cast<std::uintptr_t>(root->start), root->bytes)) continue;
      damage(root->name != nullptr ? root->name : "");
      status = Status::kInvalid;
      break;
    }
  }
  if (is_whole && status == Status::kOk) {
    mark_roots(sp);
    if (summary.damaged == nullptr) finish();
  }
  if (status == Status::kOk && map_.missing() != 0) {
    status = Status::kNoMemory;
    summary.wanted_bytes = fixed_bytes() + (map_.used() + map_.missing()) * sizeof(Page);
  }
  if (status == Status::kOk && summary.damaged != nullptr) status = Status::kMismatch;
  summary.pause_ticks = hal::Port::ticks() - begun;
  return status;
}

}  // namespace qm::scan
