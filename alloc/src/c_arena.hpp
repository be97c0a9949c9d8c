#pragma once
/// Arenas in C: what making and destroying one have in common.

namespace qm {

/// The context of an arena that qm_arena_create() made: its structure lies in the heap.
extern const char kMadeInC;

}  // namespace qm
