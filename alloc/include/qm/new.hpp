#pragma once
/// operator new for who knows its call site: `new (QM_SITE) State(port)` charges the block to the line it stands on.
/// With the library qm_new, as the plain forms; delete needs no hook. In a build without call sites they are the plain
/// forms.

#include <cstddef>
#include <new>

#include <qm/call_site.hpp>

/// As the plain forms: never nullptr. A converted helper passes the site that it was given.
[[nodiscard]] void* operator new(std::size_t size, const qm::CallSite* site);
[[nodiscard]] void* operator new[](std::size_t size, const qm::CallSite* site);
[[nodiscard]] void* operator new(std::size_t size, std::align_val_t alignment, const qm::CallSite* site);
[[nodiscard]] void* operator new[](std::size_t size, std::align_val_t alignment, const qm::CallSite* site);

/// For a constructor that throws.
void operator delete(void* block, const qm::CallSite* site) noexcept;
void operator delete[](void* block, const qm::CallSite* site) noexcept;
void operator delete(void* block, std::align_val_t alignment, const qm::CallSite* site) noexcept;
void operator delete[](void* block, std::align_val_t alignment, const qm::CallSite* site) noexcept;
