/// Bytes of the structures that RAM goes to. measure.sh reads them as the sizes of these symbols.

#include <qm/arena.hpp>
#include <qm/boundary_tag.hpp>
#include <qm/cache.hpp>
#include <qm/console/trace_books.hpp>
#include <qm/slab.hpp>
#include <qm/trace/live_trace.hpp>

// A name is a case of the ledger, with _ for blanks.
extern "C" {
extern const char qm_size_cache[sizeof(qm::Cache)], qm_size_cell_of_a_hart[sizeof(qm::Cell)];
extern const char qm_size_magazine_header[sizeof(qm::Magazine)], qm_size_slab_header[sizeof(qm::Slab)];
extern const char qm_size_boundary_tag[sizeof(qm::BoundaryTag)], qm_size_arena[sizeof(qm::Arena)];
extern const char qm_size_trace_record[qm::trace::kBytesPerRecord];
extern const char qm_size_console[sizeof(qm::console::Console)],
    qm_size_its_trace_books[sizeof(qm::console::TraceBooks)];
}

const char qm_size_cache[sizeof(qm::Cache)] = {}, qm_size_cell_of_a_hart[sizeof(qm::Cell)] = {};
const char qm_size_magazine_header[sizeof(qm::Magazine)] = {}, qm_size_slab_header[sizeof(qm::Slab)] = {};
const char qm_size_boundary_tag[sizeof(qm::BoundaryTag)] = {}, qm_size_arena[sizeof(qm::Arena)] = {};
const char qm_size_trace_record[qm::trace::kBytesPerRecord] = {};
const char qm_size_console[sizeof(qm::console::Console)] = {},
           qm_size_its_trace_books[sizeof(qm::console::TraceBooks)] = {};
