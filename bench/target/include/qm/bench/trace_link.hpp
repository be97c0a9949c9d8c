#pragma once
/// The trace of the bench `guards_traced`; guards.cpp, which two benches share, opens it where the image has one.

namespace qm::bench {

/// After the allocator's start.
void open_trace() noexcept;
/// Before the allocator's next start.
void close_trace() noexcept;

}  // namespace qm::bench
