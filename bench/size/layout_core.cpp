/// Bytes of the core's structures that RAM goes to; see layout.cpp.

#include <qm/cache.hpp>

#include "tag.hpp"

// A name is a case of the ledger, with _ for blanks and __ for a comma before one.
extern "C" {
extern const char qm_size_cache__core[sizeof(qm::Cache)], qm_size_arena__core[sizeof(qm::Arena)];
extern const char qm_size_slab_header__core[sizeof(qm::Slab)], qm_size_boundary_tag__core[sizeof(qm::ArenaTag)];
}

const char qm_size_cache__core[sizeof(qm::Cache)] = {}, qm_size_arena__core[sizeof(qm::Arena)] = {};
const char qm_size_slab_header__core[sizeof(qm::Slab)] = {}, qm_size_boundary_tag__core[sizeof(qm::ArenaTag)] = {};
