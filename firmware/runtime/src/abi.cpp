/// Functions that the compiler and the headers of libstdc++ call for fatal errors, and the registration of static
/// destructors, which firmware never runs.

#include <qm/hal/port.hpp>

namespace {
[[noreturn]] void fatal(const char* reason) noexcept { qm::hal::Port::fatal(reason); }
}  // namespace

extern "C" {
void* __dso_handle = nullptr;
int __cxa_atexit(void (*)(void*), void*, void*) noexcept { return 0; }
[[noreturn]] void __cxa_pure_virtual() noexcept { fatal("pure virtual function called"); }
[[noreturn]] void __cxa_deleted_virtual() noexcept { fatal("deleted virtual function called"); }
[[noreturn]] void abort() noexcept { fatal("abort"); }
}

namespace std {
void __throw_length_error(const char* what) { fatal(what); }
void __throw_logic_error(const char* what) { fatal(what); }
void __throw_out_of_range(const char* what) { fatal(what); }
void __throw_out_of_range_fmt(const char* what, ...) { fatal(what); }
void __throw_invalid_argument(const char* what) { fatal(what); }
void __throw_bad_alloc() { fatal("bad_alloc"); }
void __throw_bad_array_new_length() { fatal("bad_array_new_length"); }
void __throw_bad_function_call() { fatal("bad_function_call"); }
[[noreturn]] void __throw_bad_optional_access() { fatal("bad_optional_access"); }
[[noreturn]] void __throw_bad_variant_access(const char* what) { fatal(what); }
[[noreturn]] void __glibcxx_assert_fail(const char*, int, const char*, const char* condition) noexcept {
  fatal(condition);
}
}  // namespace std
