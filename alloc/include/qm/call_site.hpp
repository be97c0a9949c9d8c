#pragma once
/// A place in the source that allocates. The public allocation functions have a form that takes one (`..._at`); the hooks of
/// <qm/call_site.h> make them. nullptr means "not known".

#include <cstdint>

#include <qm/call_site.h>

namespace qm {

#if defined(QM_CALL_SITES)
inline constexpr bool kCallSites = true;
#else
inline constexpr bool kCallSites = false;
#endif

/// What stands beside each object that is charged to a site: which of a hart's words it is counted in.
using SiteTag = std::uint32_t;
inline constexpr SiteTag kNoSiteTag = UINT32_MAX;
inline constexpr unsigned kSiteTagBytes = kCallSites ? sizeof(SiteTag) : 0;

}  // namespace qm
