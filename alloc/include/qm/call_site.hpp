#pragma once
/// A place in the source that allocates. The public allocation functions have a form that takes one (`..._at`), so that a
/// build with call sites adds macros and no signatures; nullptr means "not known".

namespace qm {

struct CallSite;

}  // namespace qm
