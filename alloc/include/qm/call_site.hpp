#pragma once
/// A place in the source that allocates. The public allocation functions have a form that takes one (`..._at`); the
/// macros of <qm/call_site.h> create the sites. nullptr means "not known".

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

/// A tag stands before each charged object: the offset in bytes in a hart's table at which the object's site is
/// counted.
using SiteTag = std::uint32_t;
/// The tag of a free object: reports do not show what is counted there.
inline constexpr SiteTag kNoSiteTag = 0;
/// Bytes before each charged object.
inline constexpr std::size_t kChargeHeadBytes = 8;

}  // namespace qm
