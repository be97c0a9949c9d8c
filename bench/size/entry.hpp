#pragma once
/// The features of a case: each source of it defines one of these, and the entry calls those that are there.

namespace qm::console {
class Console;
}

namespace qm::size {

void use_caches();
void use_malloc();
void use_more();
void use_live_trace();
void use_console();
void use_console_trace();

/// Where arguments come from and results go, so that no call is folded away.
extern void* volatile anything;
extern unsigned long volatile number;

template <class T>
T* some() {
  return static_cast<T*>(const_cast<void*>(anything));
}

console::Console& the_console();

}  // namespace qm::size
