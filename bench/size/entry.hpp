#pragma once
/// The features of a case: each source of the case defines one of these functions, and the entry calls those that
/// exist.

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

/// The source of arguments and the target of results, so that the compiler removes no call.
extern void* volatile anything;
extern unsigned long volatile number;

template <class T>
T* some() {
  return static_cast<T*>(const_cast<void*>(anything));
}

console::Console& the_console();

}  // namespace qm::size
