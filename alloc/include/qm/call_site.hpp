#pragma once
/// A place in the source that allocates. The public allocation functions have a form that takes one (`..._at`); the
/// hooks of <qm/call_site.h> make them. nullptr means "not known".

#include <cstddef>
#include <cstdint>

#include <qm/config.h>
#include <qm/call_site.h>

namespace qm {

#if defined(QM_CALL_SITES)
inline constexpr bool kCallSites = true;
#else
inline constexpr bool kCallSites = false;
#endif

/// What stands before each object that is charged to a site: where in a hart's table it is counted, in bytes.
using SiteTag = std::uint32_t;
/// Of an object that is free: there nothing is counted that a report shows.
inline constexpr SiteTag kNoSiteTag = 0;
/// Of what stands before such an object.
inline constexpr std::size_t kChargeHeadBytes = 8;

}  // namespace qm
