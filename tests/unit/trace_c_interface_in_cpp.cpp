// The C interface of the books, used by the same lines as C++.
#define QM_C_TEST(name) name##_in_cpp
#include "trace_c_interface.c"
