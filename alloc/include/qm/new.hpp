#pragma once
/// operator new with a call site: `new (QM_SITE) State(port)` charges the block to the line of the expression. In the
/// libraries quartermaster::new and quartermaster::malloc, as the plain forms; delete needs no site. In a build without
/// call sites they equal the plain forms.

#include <cstddef>
#include <new>

#include <qm/call_site.hpp>

/// As the plain forms: never return nullptr. Without memory they call the new handler, else Port::fatal(). A helper with a
/// site parameter passes that site.
[[nodiscard]] void* operator new(std::size_t size, const qm::CallSite* site);
[[nodiscard]] void* operator new[](std::size_t size, const qm::CallSite* site);
[[nodiscard]] void* operator new(std::size_t size, std::align_val_t alignment, const qm::CallSite* site);
[[nodiscard]] void* operator new[](std::size_t size, std::align_val_t alignment, const qm::CallSite* site);

/// Called if a constructor throws.
void operator delete(void* block, const qm::CallSite* site) noexcept;
void operator delete[](void* block, const qm::CallSite* site) noexcept;
void operator delete(void* block, std::align_val_t alignment, const qm::CallSite* site) noexcept;
void operator delete[](void* block, std::align_val_t alignment, const qm::CallSite* site) noexcept;
