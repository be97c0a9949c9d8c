/// The bytes of structures that take RAM. measure.sh reads them as the sizes of these symbols.

#include <qm/arena.hpp>
#include <qm/detail/boundary_tag.hpp>
#include <qm/cache.hpp>
#include <qm/console/trace.hpp>
#include <qm/detail/slab.hpp>
#include <qm/trace/live_trace.hpp>

// A symbol's name is a case of the ledger, with _ for blanks.
extern "C" {
extern const char qm_size_cache[sizeof(qm::Cache)], qm_size_hart_cache[sizeof(qm::HartCache)];
extern const char qm_size_magazine_header[sizeof(qm::Magazine)], qm_size_slab_header[sizeof(qm::Slab)];
extern const char qm_size_boundary_tag[sizeof(qm::BoundaryTag)], qm_size_arena[sizeof(qm::Arena)];
extern const char qm_size_trace_record[qm::trace::kBytesPerRecord];
extern const char qm_size_console[sizeof(qm::console::Console)], qm_size_its_trace[sizeof(qm::console::Trace)];
}

const char qm_size_cache[sizeof(qm::Cache)] = {}, qm_size_hart_cache[sizeof(qm::HartCache)] = {};
const char qm_size_magazine_header[sizeof(qm::Magazine)] = {}, qm_size_slab_header[sizeof(qm::Slab)] = {};
const char qm_size_boundary_tag[sizeof(qm::BoundaryTag)] = {}, qm_size_arena[sizeof(qm::Arena)] = {};
const char qm_size_trace_record[qm::trace::kBytesPerRecord] = {};
const char qm_size_console[sizeof(qm::console::Console)] = {}, qm_size_its_trace[sizeof(qm::console::Trace)] = {};
