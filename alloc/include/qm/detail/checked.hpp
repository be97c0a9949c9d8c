#pragma once
/// The checking build (QM_CHECKED): it finds each misuse of a cache at once, and reports it with the stacks of the
/// object's last allocation and free.
///
///     stride: | object, as large as requested | redzone |
///     slab:   | strides ... | slack | ObjectCheck of each object | free bitmap | Slab |
///
///     life    fresh -> used -> idle -> used -> ...
///             used    the redzone holds its pattern: checked at the free
///             idle    poisoned, unless the cache's free objects keep their contents, and summed: checked at the next use
///
/// The per-hart caches of every cache stay closed, so each allocation and each free takes the slow path, and the fast
/// path has no test: this build and the ordinary one share their sections. docs/misuse.md has the costs.
///
/// Invariants
/// - K1 A life changes by compare-and-swap, so of two frees at once one is the double free.
/// - K2 Between seal() and unseal() nothing may write to the object; its sum shows whether something did.
/// - K3 Objects of no-touch caches have a life and stacks, and no redzone, poison or sum.

#include <cstddef>

#include <qm/misuse.hpp>
#include <qm/detail/object_check.hpp>

namespace qm {

struct Allocation;
struct Slab;

namespace checked {

/// Checks an idle or fresh object that is about to reach its user, and makes it used, with the requested size.
/// Complexity: O(size). Context: as allocate().
void hand_out(Cache& cache, void* object, const Allocation& allocation) noexcept;

/// Checks an object that its user frees, and poisons it.
/// @returns false if it is free already: that was reported, and the free ends there.
/// Complexity: O(size). Context: as free(); @p object is the start of an object of @p cache.
[[nodiscard]] bool take_back(Cache& cache, void* object) noexcept;

/// Sets the requested size of a used object to @p requested bytes, in place. Context: its user's.
void resize(Cache& cache, void* object, std::size_t requested) noexcept;

/// @returns the bytes that the user of the used object requested.
[[nodiscard]] std::size_t requested(Cache& cache, const void* object) noexcept;

/// Called around the cache's own writes to an unused object, to construct or destroy it: unseal() checks the object,
/// seal() sums it again.
void unseal(Cache& cache, void* object) noexcept;
void seal(Cache& cache, void* object) noexcept;

/// Adds the stacks of the object's last allocation and free to a report about it.
void add_stacks(MisuseReport& report) noexcept;

/// Reports the first objects that prevent the destroy of @p cache. Context: of Cache::destroy().
void report_holders(Cache& cache, std::size_t out) noexcept;

/// Checks every object of @p slab. Damage is reported, counted in the result, and repaired, so that it is reported
/// once.
/// Complexity: O(bytes of the slab). Context: interrupts masked, and the slab stays: other harts that need an object
///             wait while it is checked.
std::size_t inspect(Cache& cache, Slab& slab) noexcept;

}  // namespace checked
}  // namespace qm
