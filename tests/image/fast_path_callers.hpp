#pragma once
/// Callers of both forms of the fast path, to be looked at in the disassembly.

#include <qm/heap.hpp>
#include <qm/inline_cache.hpp>

QM_INLINE_CACHE(Looked);

extern "C" {
/// Allocates and frees @p left times through the public functions.
void qm_image_pair_called(qm::Cache* cache, unsigned long left) noexcept;
/// The same through the inlined form.
void qm_image_pair_inlined(unsigned long left) noexcept;
/// The same with a block of the heap.
void qm_image_pair_of_heap(unsigned long left) noexcept;
/// The same inlined; nobody calls it: the linker leaves it out, and its sections' entries with it.
void qm_image_unused_inlined(unsigned long left) noexcept;
}

/// Sets the allocator up and calls the first two.
void use_both_forms() noexcept;
