#pragma once
/// Callers of both forms of the fast path; tests inspect their disassembly.

#include <qm/heap.hpp>
#include <qm/inline_cache.hpp>

QM_INLINE_CACHE(Looked);

extern "C" {
/// Allocates and frees @p left times through the public functions.
void qm_image_pair_called(qm::Cache* cache, unsigned long left) noexcept;
/// The same through the inlined form.
void qm_image_pair_inlined(unsigned long left) noexcept;
/// The same with a block of the heap, through the functions.
void qm_image_pair_of_heap(unsigned long left) noexcept;
/// The same, inlined. It is never called: the linker drops it and the entries of its sections.
void qm_image_unused_inlined(unsigned long left) noexcept;
}

/// Sets up the allocator and calls the first two functions.
void use_both_forms() noexcept;
