#pragma once
/// The command `findleaks`.

namespace qm::console {

/// Links the command and the leak scan (<qm/scan.hpp>) into the image. No other call is needed. The platform names the
/// roots of the scan, as qm::firmware::name_scan_roots() does.
void add_findleaks() noexcept;

}  // namespace qm::console
