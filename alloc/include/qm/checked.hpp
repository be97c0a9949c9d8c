#pragma once
/// The checking build (QM_CHECKED): each misuse of a cache is found at once, and told with the stacks of the object's
/// life.
///
///     stride: | object, as large as was asked for | redzone |
///     slab:   | strides ... | slack | ObjectCheck of each object | free bitmap | Slab |
///
///     life    fresh -> used -> idle -> used -> ...
///             used    the redzone holds its pattern: checked at the free
///             idle    poisoned, unless the cache's free objects keep their contents, and summed: checked when it is used again
///
/// The cells of every cache stay closed, so each allocation and each free is a slow path, and the fast path has no
/// test: this build and the ordinary one share their sections. What it costs is in docs/misuse.md.
///
/// Invariants
/// - K1 A life changes by compare-and-swap, so of two frees at once one is the double free.
/// - K2 Between seal() and unseal() nobody may write to the object; its sum says whether somebody did.
/// - K3 Objects of no-touch caches have a life and stacks, and no redzone, poison or sum.

#include <cstddef>

#include <qm/misuse.hpp>
#include <qm/object_check.hpp>

namespace qm {

struct Allocation;
struct Slab;

namespace checked {

/// Looks at an idle or fresh object that is about to reach its user: it is used from here on, as long as was asked for.
/// Complexity: O(size). Context: as allocate().
void hand_out(Cache& cache, void* object, const Allocation& allocation) noexcept;

/// Looks at an object that its user gives back, and poisons it.
/// @returns false if it is free already: that was reported, and the free ends there.
/// Complexity: O(size). Context: as free(); @p object is the start of an object of @p cache.
[[nodiscard]] bool take_back(Cache& cache, void* object) noexcept;

/// Makes a used object @p requested bytes long, where it stays. Context: its user's.
void resize(Cache& cache, void* object, std::size_t requested) noexcept;

/// @returns the bytes that the used object's user asked for.
[[nodiscard]] std::size_t requested(Cache& cache, const void* object) noexcept;

/// Around what the cache itself does to an object that nobody uses, to construct or destroy it: looks, and sums anew.
void unseal(Cache& cache, void* object) noexcept;
void seal(Cache& cache, void* object) noexcept;

/// Adds the stacks of the object's life to a report about it.
void add_stacks(MisuseReport& report) noexcept;

/// Reports the first objects that keep @p cache from being destroyed. Context: of Cache::destroy().
void report_holders(Cache& cache, std::size_t out) noexcept;

/// Looks at every object of @p slab. Damage is reported, counted in what it returns, and mended, so that it is told
/// once.
/// Complexity: O(bytes of the slab). Context: interrupts masked, and the slab stays: other harts that want an object
///             wait while
/// it is looked at.
std::size_t inspect(Cache& cache, Slab& slab) noexcept;

}  // namespace checked
}  // namespace qm
