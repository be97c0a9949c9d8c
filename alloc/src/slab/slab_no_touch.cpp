/// No-touch slabs: the header lies apart from the objects, and a treap ordered by start finds it. Linked with the first
/// cache that uses them.

#include <new>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/detail/slab.hpp>
#include <qm/system.hpp>

namespace qm {
namespace {

constinit SlabLayer* headers = nullptr;  // the slab layer of `kmem_slab`

ExternalSlab& external(Slab& slab) noexcept { return static_cast<ExternalSlab&>(slab); }

/// A priority for the treap: the start's bits, mixed, so that it needs no random numbers.
std::uint32_t priority_of(std::uintptr_t start) noexcept {
  const std::uint64_t mixed =
      (static_cast<std::uint64_t>(start) ^ (static_cast<std::uint64_t>(start) >> 17)) * 0x9e3779b97f4a7c15U;
  return static_cast<std::uint32_t>(mixed >> 32);
}

}  // namespace

void internal::use_slab_headers(Cache& cache) noexcept { headers = &cache.slabs(); }

struct NoTouch {
  /// A slab is a whole number of the source's quanta, with room for at least eight objects: with both powers of two
  /// nothing is wasted.
  static void initialize(SlabLayer& layer) noexcept {
    layer.root_ = nullptr;
    const std::size_t quantum = layer.source_->quantum();
    layer.slab_bytes_ = (8 * layer.stride_ + quantum - 1) / quantum * quantum;
    const std::size_t count = layer.slab_bytes_ / layer.stride_;
    layer.objects_ =
        static_cast<std::uint16_t>(count < SlabLayer::kExternalObjects ? count : SlabLayer::kExternalObjects);
  }

  static Slab* create(SlabLayer& layer) noexcept {
    void* place = nullptr;
    if (headers->take(&place, 1).count == 0) return nullptr;
    unsigned objects = layer.objects_;
    std::uintptr_t start = draw(layer, layer.bytes_of(objects));
    if (start == 0) {
      objects = 1;
      start = draw(layer, layer.bytes_of(objects));
    }
    if (start == 0) {
      headers->put(place);
      return nullptr;
    }
    auto* slab = new (static_cast<std::byte*>(place) + SlabLayer::kExternalHead) ExternalSlab;
    slab->priority = priority_of(start);
    layer.begin(*slab, start, objects);
    return slab;
  }

  static void release(SlabLayer& layer, Slab& slab) noexcept {
    const std::uintptr_t start = slab.start;
    const std::size_t bytes = layer.bytes_of(slab.objects);
    headers->put(reinterpret_cast<std::byte*>(&external(slab)) - SlabLayer::kExternalHead);
    const Status status = layer.quantum_cache_      ? layer.source_->free_slab(start, bytes)
                          : is_plainly_drawn(layer) ? layer.source_->free(start, bytes)
                                                    : layer.source_->free_constrained(start, bytes);
    SlabLayer::expect_taken_back(status);
  }

  static void enter(SlabLayer& layer, Slab& entered) noexcept {
    ExternalSlab* const slab = &external(entered);
    ExternalSlab** link = &layer.root_;
    while (*link != nullptr && (*link)->priority >= slab->priority)
      link = &(*link)->children[slab->start > (*link)->start];
    // Splits the subtree here by the new start: all lower starts go left, all higher ones right.
    ExternalSlab* rest = *link;
    *link = slab;
    ExternalSlab** low = &slab->children[0];
    ExternalSlab** high = &slab->children[1];
    while (rest != nullptr) {
      const bool higher = rest->start > slab->start;
      (higher ? *high : *low) = rest;
      (higher ? high : low) = &rest->children[higher ? 0 : 1];
      rest = rest->children[higher ? 0 : 1];
    }
    *low = *high = nullptr;
  }

  static void leave(SlabLayer& layer, Slab& left) noexcept {
    ExternalSlab* const slab = &external(left);
    ExternalSlab** link = &layer.root_;
    while (*link != slab) link = &(*link)->children[slab->start > (*link)->start];
    // Merges the two subtrees in the slab's place.
    ExternalSlab* low = slab->children[0];
    ExternalSlab* high = slab->children[1];
    while (low != nullptr && high != nullptr) {
      if (low->priority >= high->priority) {
        *link = low;
        link = &low->children[1];
        low = *link;
      } else {
        *link = high;
        link = &high->children[0];
        high = *link;
      }
    }
    *link = low != nullptr ? low : high;
  }

  static Slab* find(SlabLayer& layer, std::uintptr_t address) noexcept {
    for (ExternalSlab* slab = layer.root_; slab != nullptr; slab = slab->children[address > slab->start]) {
      if (address >= slab->start && address - slab->start < slab->objects * layer.stride_) return slab;
    }
    return nullptr;
  }

 private:
  /// Whether the source's quantum alone aligns a slab.
  static bool is_plainly_drawn(const SlabLayer& layer) noexcept {
    return layer.source_->quantum() % layer.alignment() == 0;
  }

  static std::uintptr_t draw(SlabLayer& layer, std::size_t bytes) noexcept {
    Arena& source = *layer.source_;
    if (layer.quantum_cache_) return source.allocate_slab(bytes);
    if (is_plainly_drawn(layer)) return source.allocate(bytes, Fit::kInstant, nullptr, WaitPolicy::kQuiet);
    Constraint constraint;
    constraint.align = layer.alignment();
    return source.allocate_constrained(bytes, constraint, Fit::kInstant, nullptr, WaitPolicy::kQuiet);
  }
};

constinit const NoTouchCalls no_touch_calls{NoTouch::initialize, NoTouch::create, NoTouch::release,
                                            NoTouch::enter,      NoTouch::leave,  NoTouch::find};

}  // namespace qm
