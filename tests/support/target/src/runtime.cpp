// What the compiler asks of a C++ library behind a test's back. Weak: an image that brings its own keeps it.

#include <cstddef>

#include <qm/firmware/boot.hpp>

extern "C" {
[[gnu::weak]] std::size_t strlen(const char* text) {
  std::size_t length = 0;
  while (text[length] != '\0') ++length;
  return length;
}
/// A static object's destructor: the image ends without running it.
[[gnu::weak]] int __cxa_atexit(void (*)(void*), void*, void*) { return 0; }
[[gnu::weak]] void* __dso_handle = nullptr;
[[gnu::weak]] void __cxa_pure_virtual() { qm::firmware::panic("pure virtual call"); }
}

/// Deleting destructors name it; no test deletes a fixture.
[[gnu::weak]] void operator delete(void*, std::size_t) noexcept { qm::firmware::panic("operator delete in a test image"); }
[[gnu::weak]] void operator delete(void*) noexcept { qm::firmware::panic("operator delete in a test image"); }

namespace std {
/// string_view::substr() and at() of an unoptimised build.
[[gnu::weak]] void __throw_out_of_range_fmt(const char*, ...) { qm::firmware::panic("string_view out of range"); }
}  // namespace std
