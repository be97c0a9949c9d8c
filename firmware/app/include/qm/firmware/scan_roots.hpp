#pragma once
/// The roots of a leak scan in an image with this boot code.

namespace qm::firmware {

/// Names the roots of leak scans (<qm/scan.hpp>): data and bss except those of the allocator and the trace,
/// hart-locals, data in .noinit except stacks, and the stacks in use with the registers saved on them. The firmware
/// declares roots elsewhere, such as a ring of descriptors in a device's window, with scan::add_root(). Without this
/// call none of this is linked.
/// Context: before the first scan.
void name_scan_roots() noexcept;

}  // namespace qm::firmware
