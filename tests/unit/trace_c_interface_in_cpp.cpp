// The C interface of the trace, used by the same lines in C++.
#define QM_C_TEST(name) name##_in_cpp
#include "trace_c_interface.c"
