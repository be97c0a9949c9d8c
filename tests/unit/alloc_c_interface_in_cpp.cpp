// The C interface, used by the same lines in C++.
#define QM_C_TEST(name) name##_in_cpp
#include "alloc_c_interface.c"
